"""What the job controller knows of one job: the object, its pods, its group, and its pending requests and syncs.

Informer handlers and the answers to the controller's own writes change a record. It refuses states that are older than
those it holds, so that a stale watch event neither leads to a second create of a pod nor brings back a deleted one.

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

    There is one per job, so members that are mostly empty are dicts or lists: an empty one takes 64 or 56 bytes, an
    empty set 216 and an empty deque 760.

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
        """Whether `job.status` was made by `begin_status` and is not yet written to the server."""
        self.moving_to: str | None = None
        """The phase of a status write in flight. Its plan decides whether to sync again, not the watch event of it."""
        self.compiled = _NO_SPEC
        """What depends on the job's spec alone."""
        self.plugins_fresh = False
        """Whether the plugins' objects are known to be up to date with this generation of the spec."""
        self.tasks: dict[str, TaskPods] = {}
        self.builders: dict[str, PodBuilder] | None = None
        """Builders of pods by task; exist only while pods are being created, and are dropped when the spec changes."""
        self.group: PodGroup | None = None
        self.desired_group: DesiredGroup | None = None
        """The desired spec of the PodGroup for this generation of the job."""
        self.group_warning = ""
        """The last group condition that was reported as an event."""
        self._gone_groups: frozenset[str] = frozenset()
        self.assumed: dict[tuple[str, str], None] = {}
        """(task, pod) names of pods that the controller has created and the watch has not shown yet."""
        self.delays = DelayedActions()
        self.requests: list[Request] = []
        """Events that some policy may match, oldest first."""
        self.tried: tuple[int, int] | None = None
        """Version and retries of the job at the first try of the first request; None before that."""
        self.recovered = False
        """Whether this process has finished what a previous controller process left unfinished."""
        self.schedule = SyncSchedule(coalescing_seconds)
        """When to sync the job again."""
        self.failures = 0
        """Attempts in a row that failed."""

    # The job

    def set_job(self, job: Job) -> bool:
        """Take a newer state of the job; returns whether its spec or phase has changed, so that a sync is needed.

        A change to the phase that a status write in flight sets (`moving_to`) does not count.
        """
        known = self.job
        revision = revision_of(job.metadata.resource_version)
        same_incarnation = known is not None and known.metadata.uid == job.metadata.uid
        is_own_write = same_incarnation and revision == self.revision and revision
        if known is not None and (revision < self.revision or is_own_write):
            return False  # an older state of this job, or of a deleted job that had its name
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
        """Set the first status of a job that has none; it is written later."""
        assert self.job is not None
        self.job = msgspec.structs.replace(self.job, status=status)
        self.is_unwritten = True

    def take_status(self, job: Job, status: JobStatus) -> None:
        """Set a status that was written to ``job``, unless the watch has shown a newer job or status meanwhile."""
        known = self.job  # its status is compared by uid and identity: jobs without a status share one empty object
        if known is not None and known.metadata.uid == job.metadata.uid and known.status is job.status:
            self.job = msgspec.structs.replace(known, status=status)

    def drop_job(self) -> None:
        """Forget the job; the record keeps its pods until they are deleted."""
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
            JobError: The job was deleted while its plan was carried out.
        """
        if self.job is None:
            raise JobError(f"job {self.key} was deleted")
        return self.job

    @property
    def facts(self) -> JobFacts:
        """What the state machine reads of the spec."""
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
        """Return the pods of a task; adds an empty `TaskPods` when none are known."""
        found = self.tasks.get(name)
        if found is None:
            found = self.tasks[name] = TaskPods(name)
        return found

    def put_pod(self, pod: PodState) -> bool:
        """Take a state of a pod; returns False, and ignores it, when the known state is newer."""
        task = self.task(pod.task)
        known = task.pods.get(pod.name)
        if known is not None and known.uid == pod.uid:
            if pod.revision < known.revision:
                return False
            # The answers of our deletes and marks bring no revision, so a state from before them may come later.
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
        """Add a pod from the answer to its create, before the watch shows it."""
        self.put_pod(pod)
        self.assumed[pod.task, pod.name] = None

    def confirm_pod(self, task: str, meta: ObjectMeta) -> bool:
        """Confirm an assumed pod that the watch shows; False when its revision is not that of the create's answer."""
        if (task, meta.name) not in self.assumed:
            return False
        known = self.tasks[task].pods.get(meta.name)
        if known is None or known.uid != meta.uid or known.revision != revision_of(meta.resource_version):
            return False
        self.assumed.pop((task, meta.name), None)
        return True

    def drop_pod(self, task: str, name: str, uid: str) -> PodState | None:
        """Remove a deleted pod and return it; None when it is unknown or the name is another pod's by now."""
        pods = self.tasks.get(task)
        known = pods.pods.get(name) if pods is not None else None
        if pods is None or known is None or (uid and known.uid != uid):
            return None
        self.assumed.pop((task, name), None)
        return pods.remove(name)

    def mark_pod(self, pod: PodState, *, out_of_sync: bool = False, terminating: bool = False) -> None:
        """Record that the controller has marked a pod out-of-sync or has deleted it."""
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
        """Whether the record holds neither a job nor pods, and can be dropped."""
        return self.job is None and not any(task.pods for task in self.tasks.values())

    def counts(self) -> Counts:
        """Return the present counters; takes time by the number of tasks, not of pods."""
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
        """Take a state of the job's PodGroup; returns False, and ignores it, when it is stale."""
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
        """Forget the group: the watch has shown its deletion or, with ``ours``, the controller is about to delete it.

        Returns whether the controller had begun to delete it before.
        """
        was_ours = uid in self._gone_groups
        if ours:
            self._gone_groups |= {uid}
        else:
            self._gone_groups -= {uid}
        if self.group is not None and self.group.metadata.uid == uid:
            self.group = None
        return was_ours
