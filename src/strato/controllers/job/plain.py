"""The short way of plain jobs: the steps on which nothing can be special, decided in one pass and sent together.

Jobs that come by the thousand mostly ask for nothing but pods: no plugins, claims or dependencies. Until they run there
are three things to do for each: make its PodGroup, make its pods when the group is admitted, say Running when enough
of them run. `Plain.plan` recognises a job that is just before one of these and returns the step, without waiting for
anything; the steps of all jobs that are ready are then sent as one batch per kind of write.

Whatever is not plain gets no step, and a step that fails leaves its job to the long way (`Procedures`), which does it
again and knows about failures. What a step writes is what the long way would write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from strato.api import catalog
from strato.api.meta import ObjectMeta
from strato.api.volcano.batch import Job, JobStatus
from strato.api.volcano.scheduling import PodGroup, PodGroupStatus
from strato.client.cluster import Cluster, Created, Patch, PatchType
from strato.clock import Clock
from strato.controllers.job import group as groups
from strato.controllers.job import status as statuses
from strato.controllers.job import terms
from strato.controllers.job.effects import JobEffects
from strato.controllers.job.moulds import Moulds, PodBody
from strato.controllers.job.pods import PodState
from strato.controllers.job.record import JobRecord
from strato.controllers.job.seen import Seen
from strato.controllers.job.states import after_sync_pending, after_sync_running
from strato.controllers.job.telemetry import JobMetrics
from strato.controllers.job.terms import Phase
from strato.errors import ApiError, StratoError

_PODS: Final = 16
"""Pods of a plain job at most: who makes more is better served alone."""

_REMEMBERED: Final = 256
"""Statuses kept: those of jobs that were born in the same second and reach the same counters in the same second."""

_BORN: Final = PodGroupStatus(phase="Pending")


_UID: Final = b"\0"
_HEAD: Final = b'[{"op":"test","path":"/metadata/uid","value":' + _UID + b'},{"op":"add","path":"/status","value":'
_read_status: Callable[[bytes], JobStatus] = msgspec.json.Decoder(JobStatus).decode


class Running(NamedTuple):
    """The status of jobs alike once enough of their pods run."""

    before: JobStatus
    patch: bytes
    """What writes it, with `_UID` for that of the job."""
    after: JobStatus
    ends: bool
    """Whether another phase follows at once."""


class Step(NamedTuple):
    """What to do next for one job; of the last three members one says what, or none when nothing is to be done."""

    record: JobRecord
    job: Job
    group: bytes = b""
    """The PodGroup to create."""
    pods: Sequence[PodBody] = ()
    """Pods to create."""
    running: Running | None = None


Write = Callable[[Sequence[Step]], Awaitable[None]]
"""Sends the writes of steps of one sort."""


class Plain:
    """See the module. One instance serves all jobs."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        effects: JobEffects,
        metrics: JobMetrics,
        seen: Seen,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._effects = effects
        self._metrics = metrics
        self._seen = seen
        self._moulds = Moulds()
        self._running: dict[tuple[object, ...], Running] = {}
        self.at_once = cluster.at_once
        """Steps, and about as many pods, that a batch may have."""
        self._most_pods = _PODS if cluster.at_once > 1 else 0  # with a network between, nothing is gained

    # Deciding

    def plan(self, record: JobRecord) -> Step | None:
        """Return the next step of a job, None when it has to go the long way."""
        job = record.job
        if job is None or record.requests or record.needs_care:
            return None
        if not record.agenda.is_due(self._clock.monotonic()):
            return Step(record, job) if record.took_over and not record.assumed else None
        form, meta, status = record.form, job.metadata, job.status
        if (
            not 0 < form.plain_pods <= self._most_pods
            or status.state.phase != Phase.PENDING
            or meta.deletion_timestamp is not None
            or status.controlled_resources
        ):
            return None
        queue = self._seen.queues.get(("", job.spec.queue))
        if queue is None or queue.spec.extend_clusters:
            return None
        present = 0
        for task in record.tasks.values():
            if len(task.pods) != task.present or task.stale or task.surplus:
                return None
            present += task.present
        if not record.took_over and (present or meta.annotation(terms.RESTARTING)):
            return None
        if record.group is None:
            return None if present else self._group(record, job)
        if not self._is_ready(record, record.group):
            return None
        if present == form.plain_pods:
            return self._report(record, job)
        return self._make(record, job, record.group) if not present else None

    def _group(self, record: JobRecord, job: Job) -> Step | None:
        if groups.group_key(job) in self._seen.groups or record.key in self._seen.groups:
            return None
        wanted = record.wanted_group
        if wanted is None:
            wanted = record.wanted_group = record.form.group(job, self._seen.priority_of)
        return Step(record, job, group=self._moulds.group(job, wanted))

    def _is_ready(self, record: JobRecord, group: PodGroup) -> bool:
        """Return whether pods may be made and reported: the group is there, as it should be, and admitted."""
        wanted, meta = record.wanted_group, group.metadata
        if wanted is None or (meta.namespace, meta.name) not in self._seen.groups or not groups.is_admitted(group):
            return False
        if group.spec is not wanted.fits and group.spec != wanted.fits:
            if wanted.fits is not None or groups.group_patch(group, wanted.spec) is not None:
                return False
            wanted.fits = group.spec
        if group.status.conditions or record.group_warning:
            newest = groups.newest_condition(group)
            if newest is not None and newest[0] != "Scheduled":
                return False
            record.group_warning = ""
        return True

    def _make(self, record: JobRecord, job: Job, group: PodGroup) -> Step | None:
        found = self._effects.finished_templates(job)
        if found is None:
            return None
        return Step(record, job, pods=self._moulds.pods(job, group.metadata.name, *found))

    def _report(self, record: JobRecord, job: Job) -> Step | None:
        if record.assumed:
            return None
        status, now = job.status, self._clock.now()
        counted = tuple([(task.terminating, *task.phases.values()) for task in record.tasks.values()])
        key = record.form, counted, status.state.last_transition_time, now // 1
        running = self._running.get(key)
        if running is None or running.before != status:
            counts = record.counts()
            outcome = after_sync_pending(record.facts, counts, status.retry_count)
            if outcome is None:
                return None
            new = statuses.synced(
                statuses.to_json(status), counts, record.task_status_count(), job.spec.min_available, {}
            )
            new = statuses.stamped(statuses.moved(new, outcome), now)
            follows = after_sync_running(record.facts, counts, status.retry_count)
            raw = msgspec.json.encode(new)
            running = Running(status, _HEAD + raw + b"}]", _read_status(raw), follows is not None)
            if len(self._running) >= _REMEMBERED:
                self._running.clear()
            self._running[key] = running
        return Step(record, job, running=running)

    # Carrying out

    async def carry_out(self, steps: Sequence[Step]) -> None:
        """Do what was planned. A job of which something fails is left to the long way; nothing is raised for it."""
        now = self._clock.monotonic()
        for step in steps:
            record = step.record
            record.agenda.at_work = True
            if not _is_idle(step):
                record.took_over = record.plugins_fresh = True
                record.agenda.begin(now)
        try:
            work = self._writes(steps)
            if len(work) == 1:
                await self._safely(*work[0])
            elif work:
                async with asyncio.TaskGroup() as group:
                    for write, some in work:
                        group.create_task(self._safely(write, some))
        finally:
            now = self._clock.monotonic()
            for step in steps:
                record = step.record
                record.agenda.at_work = False
                if not _is_idle(step):
                    record.agenda.end(now)
                if not record.needs_care:
                    record.failures = 0

    async def _safely(self, write: Write, steps: Sequence[Step]) -> None:
        try:
            await write(steps)
        except BaseException as error:
            for step in steps:
                _leave_to_care(step.record)
            if not isinstance(error, StratoError):
                raise

    def _writes(self, steps: Iterable[Step]) -> list[tuple[Write, list[Step]]]:
        made: dict[str, list[Step]] = {}
        filled: dict[str, list[Step]] = {}
        reported: list[Step] = []
        for step in steps:
            if step.group:
                made.setdefault(step.record.key.namespace, []).append(step)
            elif step.pods:
                filled.setdefault(step.record.key.namespace, []).append(step)
            elif step.running is not None:
                reported.append(step)
        work: list[tuple[Write, list[Step]]] = [(self._create_groups, some) for some in made.values()]
        work += [(self._create_pods, some) for some in filled.values()]
        if reported:
            work.append((self._write_running, reported))
        return work

    async def _create_groups(self, steps: Sequence[Step]) -> None:
        namespace = steps[0].record.key.namespace
        bodies = [step.group for step in steps]
        answers = await self._create(catalog.PODGROUP, bodies, namespace)
        for step, answer in zip(steps, answers, strict=True):
            record = step.record
            if isinstance(answer, ApiError):
                _leave_to_care(record)
            elif _is_same_life(step) and record.group is None and record.wanted_group is not None:
                meta = ObjectMeta(
                    name=groups.group_name(step.job),
                    namespace=namespace,
                    uid=answer.uid,
                    resource_version=answer.resource_version,
                )
                record.put_group(PodGroup(metadata=meta, spec=record.wanted_group.view, status=_BORN))

    async def _create_pods(self, steps: Sequence[Step]) -> None:
        bodies = [pod.body for step in steps for pod in step.pods]
        answers = iter(await self._create(catalog.POD, bodies, steps[0].record.key.namespace))
        now = self._clock.now()
        for step in steps:
            record, job, created = step.record, step.job, 0
            for task, index, name, _ in step.pods:
                answer = next(answers)
                if isinstance(answer, ApiError):
                    _leave_to_care(record)
                    continue
                created += 1
                if not record.knows_pod(task, name, answer.uid):  # otherwise the watch was faster
                    life = job.metadata.uid, job.status.version
                    record.assume_pod(PodState.created(answer, name, task, index, life, ""))
            self._metrics.created(job, created, now)
            if not record.needs_care and _is_same_life(step):
                self._hold_counters(record)

    def _hold_counters(self, record: JobRecord) -> None:
        """Tell later of pods that were just made: soon they run."""
        agenda = record.agenda
        if agenda.stirred and record.counts().pending == record.form.plain_pods:
            agenda.stirred = False  # the watch was faster, and tells no more
        if not agenda.may_hold_counters(self._clock.monotonic(), is_pending=True, is_busy=False):
            agenda.dirty = True

    async def _create(self, kind: Any, bodies: Sequence[bytes], namespace: str) -> list[Created | ApiError]:
        answers: list[Created | ApiError] = []
        for start in range(0, len(bodies), self.at_once):
            answers += await self._cluster.create_all(kind, bodies[start : start + self.at_once], namespace)
        return answers

    async def _write_running(self, steps: Sequence[Step]) -> None:
        patches = []
        for step in steps:
            meta, running = step.job.metadata, step.running
            assert running is not None
            body = running.patch.replace(_UID, msgspec.json.encode(meta.uid))
            patches.append(Patch(meta.namespace, meta.name, body))
            step.record.agenda.counters_due = None
            step.record.moving_to = Phase.RUNNING
        try:
            failures = await self._cluster.patch_all(
                catalog.VCJOB, patches, patch_type=PatchType.JSON, subresource="status"
            )
        finally:
            for step in steps:
                step.record.moving_to = None
        for step, failure in zip(steps, failures, strict=True):
            record, running = step.record, step.running
            assert running is not None
            if failure is not None:
                _leave_to_care(record)
            elif _is_same_life(step):
                record.take_status(step.job, running.after)
                if running.ends:
                    record.agenda.dirty = True


def _is_idle(step: Step) -> bool:
    return not step.group and not step.pods and step.running is None


def _is_same_life(step: Step) -> bool:
    job = step.record.job
    return job is not None and job.metadata.uid == step.job.metadata.uid


def _leave_to_care(record: JobRecord) -> None:
    record.needs_care = record.agenda.dirty = True
