"""The job controller: carries out what watch events, policies and commands ask of Volcano Jobs.

`JobEvents` turns watch events into requests and due syncs as they arrive, so that a burst of pod events causes one
sync. One worker at a time handles a job; it retries failures, and after `max_requeue` of them it terminates the job.

Source: volcano-controllers A1 to A3.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.scheduling import PriorityClass
from strato.api.volcano.batch import Job
from strato.api.volcano.bus import Command
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.client.retry import is_server_error
from strato.client.workqueue import RetryLimiter, WorkQueue, log_failure, run_workers
from strato.controllers.commands import Commands
from strato.controllers.context import ControllerContext
from strato.controllers.job import causes
from strato.controllers.job.calls import Plan
from strato.controllers.job.causes import UNCAUSED, Cause
from strato.controllers.job.delays import Delayed
from strato.controllers.job.executor import Executor
from strato.controllers.job.jobevents import JobEvents
from strato.controllers.job.listers import Listers
from strato.controllers.job.plan import Planner
from strato.controllers.job.record import JobRecord
from strato.controllers.job.replicas import NameTaken
from strato.controllers.job.requests import WHOLE_JOB, Request, Target
from strato.controllers.job.restartintent import unfinished
from strato.controllers.job.states import operation
from strato.controllers.job.telemetry import JobMetrics
from strato.controllers.job.terms import FINISHED_PHASES, JOB_API_VERSION, JOB_KIND, JobAction, JobEvent
from strato.errors import StratoError
from strato.units import format_duration

_log = logging.getLogger(__name__)

ASSUMED_CHECK_SECONDS = 5.0
"""How long after creating pods the controller checks whether the watch has shown them."""

_WORKERS = 32
"""Jobs worked on at the same time."""

_SYNCS = 2
"""Most syncs in one plan: a sync that changes the phase requires a second one, which rarely requires a third."""

NAME_TAKEN_RETRY_SECONDS = 10.0
"""How often the controller tries again to create a pod whose name a pod of another owner has."""


class JobController:
    """See the module."""

    name = "job-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._recorder = context.recorder
        self._metrics = JobMetrics(context.metrics)
        self._max_requeue = context.settings.max_requeue
        self._queue: WorkQueue[Key] = WorkQueue(
            context.clock, RetryLimiter(context.clock, max_seconds=100.0, per_second=1000.0, burst=1000)
        )
        self._timers: set[asyncio.Task[None]] = set()
        informer = context.informers.informer
        self._pods = informer(Pod)
        self._jobs = informer(Job)
        groups = informer(PodGroup)
        self._executor = Executor(context.cluster, context.clock)
        self._planner = Planner(
            context.clock,
            context.random,
            context.recorder,
            self._metrics,
            Listers(self._jobs, self._pods, groups, informer(Queue), informer(PriorityClass)),
            is_busy=lambda: len(self._queue) > _WORKERS,
        )
        coalescing = context.settings.coalescing_seconds
        events = JobEvents(context.clock, self._queue, self._metrics, self._planner.dependents, coalescing)
        self._records = events.records
        events.subscribe(self._jobs, self._pods, groups)
        self._commands = Commands(context, JOB_API_VERSION, JOB_KIND, self._on_command)

    async def run(self) -> None:
        """Work until cancelled. The informers must be synced."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run_workers(self._queue, self._work, _WORKERS, name=self.name))
                group.create_task(self._commands.run(workers=2, name=f"{self.name} commands"))
        finally:
            for timer in self._timers:
                timer.cancel()

    def _on_command(self, command: Command) -> None:
        assert command.target is not None
        record = self._records.get(Key(command.metadata.namespace, command.target.name))
        if record is None or record.job is None:
            return
        self._recorder.event(
            record.job,
            "Normal",
            "CommandIssued",
            f"Start to execute command {command.action}, and clean it up to make sure executed not more than once.",
        )
        cause = causes.of_command(command)
        record.requests.append(Request(event=JobEvent.COMMAND_ISSUED, action=command.action, cause=cause))
        self._queue.add(record.key)

    # Work

    async def _work(self, key: Key) -> float | None:
        """Carry out the plan of a job, together with the plans of the small jobs that are next in the work queue."""
        keys, pods = [key], 0

        def matches(key: Key) -> bool:
            nonlocal pods
            record = self._records.get(key)
            if record is None:
                return True
            if not any(task.pods for task in record.tasks.values()):
                pods += record.compiled.facts.replicas  # the plan of a job without pods is about to create them
            return pods <= self._executor.batch and record.compiled.is_small

        if matches(key):
            keys += self._queue.take_more(matches, self._executor.batch - 1)
        outcome, *others = await self._executor.run([self._plan(key) for key in keys])
        for other, found in zip(keys[1:], others, strict=True):
            if isinstance(found, Exception):
                log_failure(self.name, other, found)
                self._queue.add_failed(other, found)
            else:
                self._queue.forget(other)
                if found is not None:
                    self._queue.add_after(other, found)
            self._queue.done(other)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _plan(self, key: Key) -> Plan[float | None]:
        """Plan what is due for a job; returns the seconds until it is to be handled again.

        When the job is deleted (and perhaps created again) while calls are in flight, the plan ends without using their
        answers: the watch will show the pods and the group that they have written.
        """
        record = self._records.get(key)
        if record is None or record.job is None:
            return None
        uid = record.job.metadata.uid
        record.schedule.in_progress = True
        plan = self._handle_all(record)
        answers: Any = None
        try:
            while True:
                try:
                    calls = plan.send(answers)
                except StopIteration as stop:
                    again: float | None = stop.value
                    break
                answers = yield calls
                if record.job is None or record.job.metadata.uid != uid:
                    return 0.0
        except StratoError as error:
            yield from self._failed(record, error)
            return None
        finally:
            plan.close()
            record.schedule.in_progress = False
        record.failures = 0
        return again

    def _handle_all(self, record: JobRecord) -> Plan[float | None]:
        if record.job is not None and not record.recovered:
            yield from self._recover(record, record.job)
            record.recovered = True
        while record.requests and record.job is not None:
            request = record.requests.pop(0)
            uid = record.job.metadata.uid
            if _is_done(record):
                record.schedule.dirty = True
                continue
            try:
                yield from self._handle(record, request)
            except BaseException:
                if record.job is not None and record.job.metadata.uid == uid:
                    record.requests.insert(0, request)
                raise
            record.tried = None
        if record.assumed:
            self._check_assumed(record)
        schedule = record.schedule
        now = self._clock.monotonic()
        for _ in range(_SYNCS):
            if not schedule.is_due(now):
                break
            schedule.begin(now)
            try:
                yield from self._execute(record, JobAction.SYNC_JOB, WHOLE_JOB)
            except NameTaken:
                schedule.dirty = True
                return NAME_TAKEN_RETRY_SECONDS
            except BaseException:
                schedule.dirty = True
                raise
            now = self._clock.monotonic()
            schedule.end(now)
            if not schedule.dirty or record.requests:
                break
        return _again_in(record, now)

    def _recover(self, record: JobRecord, job: Job) -> Plan[None]:
        """Finish what a previous controller process began: delete marked pods, and complete a restart not yet counted.

        The pod events that this process reads first may lead to the request that caused the restart once more; such a
        request is dropped.
        """
        yield from self._planner.delete_marked(record)
        intent = unfinished(job)
        if intent is None:
            return
        yield from self._execute(record, intent.action, intent.target)
        for request in list(record.requests):
            decision = record.policies.match(request, job_uid=job.metadata.uid, job_version=job.status.version)
            if (decision.action, request.target) == (intent.action, intent.target):
                record.requests.remove(request)

    def _check_assumed(self, record: JobRecord) -> None:
        before = len(record.assumed)
        self._planner.check_assumed(record)
        if len(record.assumed) != before:
            record.schedule.dirty = True

    def _handle(self, record: JobRecord, request: Request) -> Plan[None]:
        job = record.job
        assert job is not None
        record.delays.observe(request)
        decision = record.policies.match(request, job_uid=job.metadata.uid, job_version=job.status.version)
        if decision.action == JobAction.SYNC_JOB:
            record.schedule.dirty = True
        elif decision.delay_seconds > 0:
            self._delay(record, decision.action, decision.delay_seconds, request)
        else:
            cause = Cause(*request.cause) if request.action else causes.of_policy(decision.action, request)
            yield from self._execute(record, decision.action, request.target, cause)

    def _execute(self, record: JobRecord, action: str, target: Target, cause: Cause = UNCAUSED) -> Plan[None]:
        job = record.job
        assert job is not None
        if action != JobAction.SYNC_JOB:
            self._recorder.event(job, "Normal", "ExecuteAction", f"Start to execute action {action} ")
        yield from self._planner.plan(record, operation(job.status.state.phase, action), action, target, cause)
        record.delays.done(action, target)
        if action != JobAction.SYNC_JOB:
            record.schedule.dirty = True  # sync once more after any action

    def _failed(self, record: JobRecord, error: StratoError) -> Plan[None]:
        """Count a failure and raise it for a retry; past the limit, terminate the job."""
        if is_server_error(error):
            raise error  # an error of the server must not terminate a job
        record.failures += 1
        limit = self._max_requeue
        if limit < 0 or record.failures <= limit:
            raise error
        job = record.job
        assert job is not None
        failed = record.requests.pop(0).action if record.requests else JobAction.SYNC_JOB
        record.tried = None
        record.failures = 0
        record.schedule.dirty = record.schedule.pods_dirty = False
        self._recorder.event(
            job,
            "Normal",
            "ExecuteAction",
            f"Job failed on action {failed or JobAction.SYNC_JOB} for retry limit reached",
        )
        _log.error("job given up after %d attempts: job=%s: %s", limit, record.key, error)
        if job.status.state.phase not in FINISHED_PHASES:
            yield from self._execute(record, JobAction.TERMINATE_JOB, WHOLE_JOB, causes.of_failures(limit, error))
            self._queue.add(record.key)

    # Delayed actions

    def _delay(self, record: JobRecord, action: str, seconds: float, request: Request) -> None:
        entry = record.delays.add(action, request)
        if entry is None or record.job is None:
            return
        self._recorder.event(
            record.job, "Normal", "ExecuteAction", f"Execute action {action} after {format_duration(seconds)}"
        )
        timer = asyncio.get_running_loop().create_task(self._ring(record, entry, seconds))
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    async def _ring(self, record: JobRecord, entry: Delayed, seconds: float) -> None:
        await self._clock.sleep(seconds)
        if not record.delays.due(entry) or record.job is None:
            return
        request = entry.request
        record.requests.append(
            Request(
                action=entry.action,
                task=request.task,
                pod=request.pod,
                partition=request.partition,
                cause=causes.of_policy(entry.action, request),
            )
        )
        self._queue.add(record.key)


def _again_in(record: JobRecord, now: float) -> float | None:
    """Return the seconds until the job is handled again, None when nothing is scheduled."""
    again = record.schedule.next_in(now)
    return ASSUMED_CHECK_SECONDS if again is None and record.assumed else again


def _is_done(record: JobRecord) -> bool:
    """Whether an earlier attempt has carried out the first request, although the answer to its last write was lost.

    Every action increments the job's version or retry count, and nobody else writes these between the attempts; so a
    number that has grown since the first attempt shows that the action was completed.
    """
    assert record.job is not None
    status = record.job.status
    now = (status.version, status.retry_count)
    if record.tried is None:
        record.tried = now
        return False
    if record.tried == now:
        return False
    record.tried = None
    return True
