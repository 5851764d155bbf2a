"""Reject applications beyond ``maximum-applications`` at admission, with YARN's messages (spec yarn B4).

Applications are counted by the PodGroups in an informer, so that the count survives a restart of the webhook. A job's
PodGroup is created only after the job was admitted; until then the admission itself is counted, so that a burst of jobs
cannot exceed the limit. Replicas of the webhook do not see each other's latest admissions; jobs admitted beyond the
limit in this way wait in the queue, where the plugin `yarncapacity` enqueues no more than the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from strato.admission.queueplacement import NotPlaced, SubmittedWork
from strato.api import catalog
from strato.api.meta import Json, Key
from strato.api.queueacls import SUBMITTED_BY
from strato.api.volcano.scheduling import PodGroup
from strato.client.informer import Change, Informer
from strato.clock import Clock
from strato.interop.yarn.capacity import capacities
from strato.interop.yarn.capacity.configuration import CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.limits import application_limits
from strato.interop.yarn.capacity.notation import Unit
from strato.interop.yarn.placing import CapacityPlacement, FollowedPlacement, path_of_queue

IN_FLIGHT_SECONDS: Final = 60.0
"""How long an admission counts without a PodGroup: another admission plug-in may have refused the job."""
_COMPLETED: Final = "Completed"

_Submitted = tuple[str, str, str]
"""Kind, namespace and name of a submitted object."""


class _Application(NamedTuple):
    queue: str
    user: str


class Applications:
    """Counts applications by Queue object and user.

    Args:
        groups: The PodGroups of the cluster.
        clock: Times how long admissions count.
        user_key: Label or annotation that names a job's user; without it the namespace is the user.
    """

    def __init__(self, groups: Informer[PodGroup], clock: Clock, user_key: str = "") -> None:
        self._clock = clock
        self._user_key = user_key
        self._known: dict[Key, _Application] = {}
        self._in_flight: dict[_Submitted, tuple[_Application, float]] = {}
        """Admissions whose PodGroups do not exist yet, each with the monotonic time until which it counts."""
        self._counts: Counter[_Application] = Counter()
        groups.add_handler(self._on_group)

    def _on_group(self, change: Change[PodGroup]) -> None:
        before, group = self._known.pop(change.key, None), change.new
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if group is None:
            return
        owner = group.metadata.controller
        kind, name = (owner.kind, owner.name) if owner is not None else (catalog.PODGROUP.name, change.key.name)
        self._in_flight.pop((kind, change.key.namespace, name), None)
        if group.status.phase != _COMPLETED:
            meta = group.metadata
            noted = {**(meta.annotations or {}), **(meta.labels or {})}
            application = _Application(group.spec.queue, self._user(noted, change.key.namespace, ""))
            self._known[change.key] = application
            self._counts[application] += 1

    def user_of(self, submission: SubmittedWork) -> str:
        """Return the user of a submission."""
        return self._user(submission.notes, submission.namespace, submission.user)

    def _user(self, noted: Mapping[str, str], namespace: str, submitter: str) -> str:
        if self._user_key == SUBMITTED_BY and submitter:
            return submitter
        return noted.get(self._user_key, "") or namespace if self._user_key else namespace

    def admitted(self, submission: SubmittedWork, queue: str) -> None:
        """Count a submission that is being admitted."""
        application = _Application(queue, self.user_of(submission))
        submitted = submission.kind, submission.namespace, submission.name
        self._in_flight[submitted] = application, self._clock.monotonic() + IN_FLIGHT_SECONDS

    def count(self, queues: Iterable[str] | None = None, user: str | None = None) -> int:
        """Return the number of applications, of all queues or the given ones, of all users or one."""
        now = self._clock.monotonic()
        for submitted in [one for one, (_, until) in self._in_flight.items() if until <= now]:
            del self._in_flight[submitted]
        wanted = None if queues is None else frozenset(queues)
        found = [*self._counts.items(), *((application, 1) for application, _ in self._in_flight.values())]
        return sum(
            number
            for application, number in found
            if (wanted is None or application.queue in wanted) and (user is None or application.user == user)
        )


class SubmissionLimits:
    """Rejects submissions beyond the limits of a ``capacity-scheduler.xml``; see `QueueLimits`."""

    def __init__(self, file: FollowedPlacement, applications: Applications) -> None:
        self._file = file
        self._applications = applications
        self._shares: tuple[CapacityConfiguration, Mapping[str, float]] | None = None

    def admit(self, submission: SubmittedWork, queue: str, queues: Sequence[Json]) -> None:
        """See `QueueLimits.admit`."""
        rules = self._file.content
        if not isinstance(rules, CapacityPlacement):
            return  # the Fair Scheduler has no such limit
        paths = {each["metadata"]["name"]: path_of_queue(each) for each in queues}
        path = paths.get(queue, "")
        configuration = rules.configuration_with(paths.values())
        leaf = configuration.by_path.get(path)
        if leaf is None or leaf.is_parent:
            return
        self._judge(submission, leaf, configuration, [name for name, one in paths.items() if one == path])
        if not submission.dry_run:
            self._applications.admitted(submission, queue)

    def _judge(
        self,
        submission: SubmittedWork,
        leaf: QueueConfiguration,
        configuration: CapacityConfiguration,
        names: list[str],
    ) -> None:
        """Check the limits in YARN's order (scheduler, queue, user) and refuse with YARN's messages."""
        count, user, name = self._applications.count, self._applications.user_of(submission), submission.name
        if count() >= configuration.maximum_applications:
            raise NotPlaced(
                f"Maximum system application limit reached, cannot accept submission of application: {name}; "
                f"maximum-applications is {configuration.maximum_applications}: wait until some have ended"
            )
        for at in range(leaf.path.count(".") + 1):
            above = configuration.by_path[leaf.path.rsplit(".", at)[0]]
            if not above.is_running:
                raise NotPlaced(f"Queue {above.path} is STOPPED. Cannot accept submission of application: {name}")
        if leaf.is_auto_created:
            return
        limits = application_limits(configuration, leaf, self._share_of(leaf, configuration))
        there = count(names)
        if there >= limits.maximum_applications:
            raise NotPlaced(
                f"Queue {leaf.path} already has {there} applications, cannot accept submission of application: {name}; "
                f"it takes {limits.maximum_applications}: wait until some have ended, or use another queue"
            )
        theirs = count(names, user)
        if theirs >= limits.maximum_applications_per_user:
            raise NotPlaced(
                f"Queue {leaf.path} already has {theirs} applications from user {user} cannot accept submission of "
                f"application: {name}; it takes {limits.maximum_applications_per_user} of a user: wait until some have "
                "ended"
            )

    def _share_of(self, leaf: QueueConfiguration, configuration: CapacityConfiguration) -> float:
        """Return a leaf's largest share of the cluster; 1 with absolute capacities, whose shares depend on its size."""
        if any(each.unit is Unit.ABSOLUTE for queue in configuration.root.walk() for each in queue.capacities.values()):
            return 1.0
        if self._shares is None or self._shares[0] is not configuration:
            labels = {label: (0,) * len(configuration.types) for label in leaf.capacities}
            numbers = capacities.compute(configuration, labels)
            shares = {path: max(one.absolute for one in each.values()) for path, each in numbers.items()}
            self._shares = configuration, shares
        return self._shares[1][leaf.path]
