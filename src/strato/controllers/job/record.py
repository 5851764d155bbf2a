"""One job as the controller knows it: the object, its pods, its group, and what still has to be handled.

A record is changed by informer handlers and by the answers to our own writes; both refuse states older than the one
held, so a stale cache can neither create a pod twice nor bring a deleted one back.

Source: volcano-controllers A1.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from strato.api.meta import Key, ObjectMeta
from strato.api.volcano.batch import Job, JobStatus
from strato.api.volcano.scheduling import PodGroup
from strato.controllers.job.compiledspec import CompiledSpec, CompiledSpecs, DesiredGroup
from strato.controllers.job.delays import DelayedActions
from strato.controllers.job.objects import JobError
from strato.controllers.job.plugins.registry import JobPlugins
from strato.controllers.job.podbuilder import PodBuilder
from strato.controllers.job.pods import PodState, TaskPods, revision_of
from strato.controllers.job.policies import JobPolicies
from strato.controllers.job.requests import Request
from strato.controllers.job.states import Counts, JobFacts
from strato.controllers.job.syncschedule import COALESCING_SECONDS, SyncSchedule

_NO_SPEC = CompiledSpec(Job())


class JobRecord:
    """See the module. Owned by the job controller; touched on the loop's thread only.

    There is one per job, so members that are mostly empty are dicts or lists, of 64 and 56 bytes; a set has 216 and a
    deque 760.

    Args:
        compiled_specs: Compiled specs, shared by jobs with equal specs.
        coalescing_seconds: How often the job is synced while its pods keep changing.
    """

    __slots__ = (
        "_compiled_specs",
        "_gone_groups",
        "assumed",
        "builders",
        "compiled",
        "delays",
        "desired_group",
        "failures",
        "group",
        "group_warning",
        "is_unwritten",
        "job",
        "key",
        "moving_to",
        "plugins_fresh",
        "recovered",
        "requests",
        "revision",
        "schedule",
        "tasks",
        "tried",
    )

    def __init__(self, key: Key, compiled_specs: CompiledSpecs, coalescing_seconds: float = COALESCING_SECONDS) -> None:
        self.key = key
        self._compiled_specs = compiled_specs
        self.job: Job | None = None
        self.revision = 0
        self.is_unwritten = False
        """Whether the job's status began here and the server has none yet."""
        self.moving_to: str | None = None
        """The phase that a write of ours under way changes to; its plan decides what follows."""
        self.compiled = _NO_SPEC
        """What follows from the spec."""
        self.plugins_fresh = False
        """Whether the plugins' objects are known to fit this generation of the spec."""
        self.tasks: dict[str, TaskPods] = {}
        self.builders: dict[str, PodBuilder] | None = None
        """Builders of pods, by task; made when pods must be created, dropped when the spec changes."""
        self.group: PodGroup | None = None
        self.desired_group: DesiredGroup | None = None
        """What the PodGroup should be, for this generation of the job."""
        self.group_warning = ""
        """The last group condition that was reported as an event."""
        self._gone_groups: frozenset[str] = frozenset()
        self.assumed: dict[tuple[str, str], None] = {}
        """(task, pod) pairs of pods that we created and the watch has not shown."""
        self.delays = DelayedActions()
        self.requests: list[Request] = []
        """Events that some policy may match, oldest first."""
        self.tried: tuple[int, int] | None = None
        """Version and retries of the job at the first try of the first request; None before that."""
        self.recovered = False
        """Whether what a previous controller left unfinished has been finished."""
        self.schedule = SyncSchedule(coalescing_seconds)
        """When to sync the job again."""
        self.failures = 0
        """Attempts in a row that failed."""

    # The job

    def set_job(self, job: Job) -> bool:
        """Take a newer state of the job; returns whether spec or phase differ from what was known.

        A phase that we are just writing is no news.
        """
        known = self.job
        revision = revision_of(job.metadata.resource_version)
        same_incarnation = known is not None and known.metadata.uid == job.metadata.uid
        is_own_write = same_incarnation and revision == self.revision and revision
        if known is not None and (revision < self.revision or is_own_write):
            return False  # also older: the answer to a write on the job that this one replaced
        self.revision = revision
        if not same_incarnation:
            self._reset()
        elif job.status.state.phase:
            self.is_unwritten = False
        elif self.is_unwritten and known is not None:
            job = msgspec.structs.replace(job, status=known.status)
        if known is None or not same_incarnation or known.metadata.generation != job.metadata.generation:
            self._take_spec(job)
            return True
        self.job = msgspec.structs.replace(job, spec=known.spec)
        if known.metadata.deletion_timestamp != job.metadata.deletion_timestamp:
            return True
        phase = job.status.state.phase
        return known.status.state.phase != phase and phase != self.moving_to

    def begin_status(self, status: JobStatus) -> None:
        """Take a status to be written on a job that has none."""
        assert self.job is not None
        self.job = msgspec.structs.replace(self.job, status=status)
        self.is_unwritten = True

    def take_status(self, job: Job, status: JobStatus) -> None:
        """Take a status that we wrote, unless the watch has shown it, a newer one, or another job of that name."""
        known = self.job  # jobs without a status share an empty one
        if known is not None and known.metadata.uid == job.metadata.uid and known.status is job.status:
            self.job = msgspec.structs.replace(known, status=status)

    def drop_job(self) -> None:
        """Forget the job; its pods stay known until they are gone."""
        self.job = None
        self._reset()

    def _reset(self) -> None:
        self.group = None
        self.failures = 0
        self.schedule.clear()
        self.delays.clear()
        self.requests.clear()
        self.tried = None
        self.recovered = False
        self.is_unwritten = False
        self.moving_to = None
        self.group_warning = ""
        self._drop_derived()

    def _drop_derived(self) -> None:
        self.builders = None
        self.desired_group = None
        self.plugins_fresh = False

    def _take_spec(self, job: Job) -> None:
        self._drop_derived()
        self.compiled = self._compiled_specs.of(job)
        self.job = msgspec.structs.replace(job, spec=self.compiled.spec)
        wanted = self.compiled.replicas
        for name, replicas in wanted.items():
            known = self.tasks.get(name)
            if known is None:
                self.tasks[name] = TaskPods(name, replicas)
            else:
                known.resize(replicas)
        for name in [name for name in self.tasks if name not in wanted]:
            self.tasks[name].resize(0)

    def require_job(self) -> Job:
        """Return the job.

        Raises:
            JobError: It was deleted while we worked on it.
        """
        if self.job is None:
            raise JobError(f"job {self.key} was deleted")
        return self.job

    @property
    def facts(self) -> JobFacts:
        """What the rules must know of the spec."""
        return self.compiled.facts

    @property
    def policies(self) -> JobPolicies:
        """The job's policies."""
        return self.compiled.policies

    @property
    def plugins(self) -> JobPlugins:
        """The job's plugins."""
        return self.compiled.plugins

    # Pods

    def task(self, name: str) -> TaskPods:
        """Return a task's pods, an empty set when none are known."""
        found = self.tasks.get(name)
        if found is None:
            found = self.tasks[name] = TaskPods(name)
        return found

    def put_pod(self, pod: PodState) -> bool:
        """Take a state of a pod; False when it is older than what is known."""
        task = self.task(pod.task)
        known = task.pods.get(pod.name)
        if known is not None and known.uid == pod.uid:
            if pod.revision < known.revision:
                return False
            # What we did ourselves is not undone by an older state.
            pod.terminating = pod.terminating or known.terminating
            pod.out_of_sync = pod.out_of_sync or known.out_of_sync
        task.put(pod)
        if self.assumed:
            self.assumed.pop((pod.task, pod.name), None)
        return True

    def has_pod(self, task: str, name: str, uid: str) -> bool:
        """Return whether a pod is known already."""
        pods = self.tasks.get(task)
        known = pods.pods.get(name) if pods is not None else None
        return known is not None and known.uid == uid

    def assume_pod(self, pod: PodState) -> None:
        """Take the answer to our own create before the watch shows the pod."""
        self.put_pod(pod)
        self.assumed[pod.task, pod.name] = None

    def confirm_pod(self, task: str, meta: ObjectMeta) -> bool:
        """Confirm an assumed pod that the watch shows; False when its state is newer than our create's answer."""
        if (task, meta.name) not in self.assumed:
            return False
        known = self.tasks[task].pods.get(meta.name)
        if known is None or known.uid != meta.uid or known.revision != revision_of(meta.resource_version):
            return False
        self.assumed.pop((task, meta.name), None)
        return True

    def drop_pod(self, task: str, name: str, uid: str) -> PodState | None:
        """Forget a pod that is gone; None when it was not known (or another one has its name)."""
        pods = self.tasks.get(task)
        known = pods.pods.get(name) if pods is not None else None
        if pods is None or known is None or (uid and known.uid != uid):
            return None
        self.assumed.pop((task, name), None)
        return pods.remove(name)

    def mark_pod(self, pod: PodState, *, out_of_sync: bool = False, terminating: bool = False) -> None:
        """Note what we did to a pod."""
        pods = self.tasks.get(pod.task)
        known = pods.pods.get(pod.name) if pods is not None else None
        if pods is None or known is None or known.uid != pod.uid:
            return
        pods.remove(known.name)
        known.out_of_sync = known.out_of_sync or out_of_sync
        known.terminating = known.terminating or terminating
        pods.put(known)

    def pods(self) -> Iterator[PodState]:
        """Yield every known pod."""
        for task in self.tasks.values():
            yield from task.pods.values()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to remember."""
        return self.job is None and not any(task.pods for task in self.tasks.values())

    def counts(self) -> Counts:
        """Return the present counters; costs per task, not per pod."""
        pending = running = ended_well = failed = unknown = terminating = 0
        succeeded: dict[str, int] = {}
        for name, task in self.tasks.items():
            terminating += task.terminating
            phases = task.phases
            if any(phases.values()):
                pending += phases["Pending"]
                running += phases["Running"]
                ended_well += phases["Succeeded"]
                failed += phases["Failed"]
                unknown += phases["Unknown"]
                succeeded[name] = phases["Succeeded"]
        return Counts(
            pending=pending,
            running=running,
            succeeded=ended_well,
            failed=failed,
            unknown=unknown,
            terminating=terminating,
            task_succeeded=succeeded,
            status_min_available=self.job.spec.min_available if self.job is not None else 0,
        )

    def task_status_count(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return ``status.taskStatusCount`` of the present pods."""
        return {
            name: {"phase": {phase: count for phase, count in task.phases.items() if count}}
            for name, task in self.tasks.items()
            if any(task.phases.values())
        }

    # The group

    def put_group(self, group: PodGroup) -> bool:
        """Take a state of the job's PodGroup; False when it is stale."""
        uid = group.metadata.uid
        known = self.group
        if uid in self._gone_groups:
            return False
        if (
            known is not None
            and known.metadata.uid == uid
            and revision_of(group.metadata.resource_version) < revision_of(known.metadata.resource_version)
        ):
            return False
        self.group = group
        return True

    def drop_group(self, uid: str, *, ours: bool = False) -> bool:
        """Forget the group; ``ours`` when we deleted it and the watch has not shown it yet.

        Returns whether it was known that we had deleted it.
        """
        was_ours = uid in self._gone_groups
        if ours:
            self._gone_groups |= {uid}
        else:
            self._gone_groups -= {uid}
        if self.group is not None and self.group.metadata.uid == uid:
            self.group = None
        return was_ours
