"""`Jobs`: does between cycles what job controller and nodes would do with the jobs of a trace.

It submits a job, makes the job's pods once the pod group is admitted, lets them run on the nodes they are bound to and
end, and replaces those that were evicted. The scheduler learns of each step as in a cluster: `Jobs` puts the changed
pod groups and pods into its World at the instant of the change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Final, NamedTuple

from strato.controllers.job.states import Counts, after_sync_running
from strato.node.hollow.pods import MIN_REPORTED_SECONDS
from strato.scheduler.binding.evictor import is_needless
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.plan import Bind, Eviction, GroupStatus, Plan
from strato.sim.arrivals import Arrivals
from strato.sim.decisions.activejobs import ActiveJob, Course, PodFactory, with_status
from strato.sim.decisions.templates import RefusedTemplate, Templates
from strato.sim.decisions.timeline import Timeline
from strato.sim.decisions.verdicts import SettlingVerdicts
from strato.sim.results.record import Ending, RunRecorder
from strato.sim.submission import waiting_reason
from strato.sim.traces import TraceJob

_MANY: Final = 256
"""From so many pods on, node rows are charged once for all of them (`together`), which costs a third."""


class BoundPod(NamedTuple):
    """A pod that is bound to a node."""

    number: int
    """The pod's index in its job."""
    key: str
    uid: str
    row: int
    """The node's row in the World."""


class Jobs:
    """The jobs of a trace, as the module says.

    Args:
        jobs: The trace's jobs; a job's row is its index in here.
        world: The scheduler's World.
        templates: Makes pod groups and pods of the jobs.
        recorder: Takes when and where pods begin and end.
        timeline: Virtual time; calls this class back when pods start and end.
    """

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        world: World,
        templates: Templates,
        recorder: RunRecorder,
        timeline: Timeline,
    ) -> None:
        self._jobs = jobs
        self._world = world
        self._templates = templates
        self._recorder = recorder
        self._timeline = timeline
        self._forms = PodFactory()
        self._active: dict[str, ActiveJob] = {}
        self._verdicts = SettlingVerdicts(world, timeline)
        self._again_at: float | None = None
        self._uids: Iterator[str] = (f"{number:08x}-0000-4000-8000-000000000000" for number in count(1))
        self.arrivals = Arrivals(jobs)
        self.submitted = 0
        self.submitted_at = 0.0
        """When the latest job was submitted."""
        self.refused: dict[int, str] = {}
        """Row of a job that admission refused → why."""

    @property
    def are_over(self) -> bool:
        """Whether all jobs have ended or were refused."""
        return self._recorder.finished + len(self.refused) == len(self._jobs)

    def reasons(self) -> dict[int, str]:
        """Return why jobs have not ended, by row: not submitted, refused, or what their pod group's condition says."""
        waiting = {active.row: waiting_reason(active.group) for active in self._active.values()}
        return {**self.arrivals.reasons(), **self.refused, **waiting}

    # -- submission ----------------------------------------------------------------------------------------------------

    def submit_due(self) -> None:
        """Submit the jobs whose time has come."""
        for row in self.arrivals.take(self._timeline.now):
            self._submit(row)

    def _submit(self, row: int) -> None:
        job = self._jobs[row]
        template = self._templates.of(job)
        self.submitted += 1
        self.submitted_at = self._timeline.now
        if isinstance(template, RefusedTemplate):
            self.refused[row] = template.refusal
            return
        uid = next(self._uids)
        group = template.group_of(job.name, uid, group_uid=next(self._uids), created=self._timeline.text)
        active = ActiveJob(row, job, template, group, uid)
        self._active[active.key] = active
        self._world.set_group(group)

    def _make_pods(self, active: ActiveJob) -> None:
        """Make a job's missing pods, if its pod group is admitted."""
        if not active.missing or not active.may_have_pods:
            return
        missing, active.missing = sorted(active.missing), []
        for pod in active.pods(missing, self._uids, self._timeline.text):
            self._world.set_pod(pod)

    # -- decisions of a cycle ------------------------------------------------------------------------------------------

    def carry_out(self, plan: Plan) -> None:
        """Apply a cycle's plan to the world: binds, removed gates, statuses of pod groups, evictions, verdicts."""
        if plan.binds:
            self._bind(plan.binds)
        for task in plan.admitted.values():
            self._world.set_pod(self._forms.without_gates(task.pod))
        if plan.again_seconds:
            self._decide_again(plan.again_seconds)
        for status in plan.groups:
            self._take_status(status)
        for eviction in plan.evictions:  # after the statuses: in a cluster a node takes longer than a status write
            self._evict(eviction)
        self._verdicts.take(plan)

    def _bind(self, binds: Sequence[Bind]) -> None:
        placed: dict[str, list[Task]] = {}
        for bind in binds:
            if bind.task.job is not None:
                placed.setdefault(bind.task.job.key, []).append(bind.task)
        for key, tasks in placed.items():
            active = self._active[key]
            by_course: dict[Course, list[Task]] = {}
            for task, course in zip(tasks, self._courses(active, tasks), strict=True):
                by_course.setdefault(course, []).append(task)
            for course, some in by_course.items():
                runs = [BoundPod(task.order[0], task.key, task.uid, task.row) for task in some]
                if course.start_seconds > 0:
                    self._put_on_node(runs, is_running=False)
                    self._timeline.after(course.start_seconds, self._start, active, runs, course)
                else:
                    self._start(active, runs, course)

    def _courses(self, active: ActiveJob, tasks: Sequence[Task]) -> list[Course]:
        """Return start delay, run time and exit code of pods that were just bound."""
        return active.runs([task.uid for task in tasks])

    def _start(self, active: ActiveJob, runs: Sequence[BoundPod], course: Course) -> None:
        """Begin the work of pods that are still bound; evicted ones are left out."""
        is_shown = not 0.0 < course.run_seconds <= MIN_REPORTED_SECONDS
        there = self._put_on_node(runs, is_running=is_shown)
        if is_shown:
            for run in there:
                self._recorder.begin(active.row, run.number, run.row, self._timeline.now)
        if there and course.run_seconds < math.inf:
            self._timeline.after(course.run_seconds, self._end, active, there, course.exit_code)

    def _put_on_node(self, runs: Sequence[BoundPod], *, is_running: bool) -> list[BoundPod]:
        """Put pods into the world as their nodes report them after the bind; return those that are still there."""
        tasks, names = self._world.tasks, self._world.nodes.names
        status = self._forms.started(self._timeline.text, is_running=is_running)
        there = self._still_bound(runs)
        with self._together(len(there)):
            for run in there:
                self._world.set_pod(self._forms.on_node(tasks[run.key].pod, names[run.row], status))
        return there

    def _still_bound(self, runs: Sequence[BoundPod]) -> list[BoundPod]:
        """Return the runs whose pod exists and has the same uid, so was not replaced."""
        tasks = self._world.tasks
        return [run for run in runs if (task := tasks.get(run.key)) is not None and task.uid == run.uid]

    def _take_status(self, status: GroupStatus) -> None:
        active = self._active.get(status.job.key)
        if active is not None:
            active.group = with_status(active.group, status)
            self._world.set_group(active.group)
            self._make_pods(active)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _end(self, active: ActiveJob, runs: Sequence[BoundPod], exit_code: int) -> None:
        """End the pods that are still there; remove the job if these were its last ones."""
        now, tasks = self._timeline.now, self._world.tasks
        ending = Ending.SUCCEEDED if exit_code == 0 else Ending.FAILED
        ended = self._still_bound(runs)
        with self._together(len(ended)):
            for run in ended:
                self._world.set_pod(self._forms.ended(tasks[run.key].pod, self._timeline.text, exit_code))
        for run in ended:
            self._recorder.begin(active.row, run.number, run.row, now)  # of pods too short to be reported as running
            self._recorder.end(active.row, run.number, now, ending)
        if ending is Ending.SUCCEEDED:
            active.succeeded += len(ended)
        else:
            active.failed += len(ended)
        counts = Counts(succeeded=active.succeeded, failed=active.failed)
        if after_sync_running(active.template.compiled.facts, counts, 0) is not None and active.is_over:
            self._forget(active)

    def _forget(self, active: ActiveJob) -> None:
        """Remove the pod group, as the job controller does, and the pods of a job whose pods have all ended."""
        del self._active[active.key]
        self._world.remove_group(active.key)
        for number in range(active.job.replicas):
            self._world.remove_pod(active.pod_key(number))
        self.arrivals.ended(active.job.name, self._timeline.now, failed=active.failed > 0)

    def _evict(self, eviction: Eviction) -> None:
        task, world = eviction.task, self._world
        if is_needless(world, eviction):
            world.refuse_eviction(task.key, task.uid, self._timeline.epoch)
            self._timeline.after(world.evictions.spared_seconds(task.key, self._timeline.epoch), self._reconsider)
            return
        active = self._active.get(task.job.key) if task.job is not None else None
        if active is None:
            return
        stop = active.stop_seconds(task.uid)
        if stop > 0:
            world.set_pod(self._forms.terminating(task.pod, self._timeline.text))
            self._timeline.after(
                stop, self._remove_evicted, active, task.key, task.uid, task.order[0], self._row_of(eviction)
            )
        else:
            self._remove_evicted(active, task.key, task.uid, task.order[0], self._row_of(eviction))

    def _row_of(self, eviction: Eviction) -> int:
        """Return the row of the job that a pod is evicted for, -1 if for none."""
        task = self._world.tasks.get(eviction.beneficiary)
        active = self._active.get(task.job.key) if task is not None and task.job is not None else None
        return -1 if active is None else active.row

    def _remove_evicted(self, active: ActiveJob, key: str, uid: str, number: int, beneficiary: int) -> None:
        """Remove an evicted pod once it has stopped, and make another in its place if the job may have pods."""
        task = self._world.tasks.get(key)
        if task is None or task.uid != uid:
            return
        self._recorder.end(active.row, number, self._timeline.now, Ending.EVICTED, beneficiary)
        self._world.remove_pod(key)
        active.missing = [*active.missing, number]
        self._make_pods(active)

    def _decide_again(self, seconds: float) -> None:
        """Have a cycle run in so many seconds, unless one is planned for an earlier instant."""
        at = self._timeline.now + seconds
        if self._again_at is None or at < self._again_at:
            self._again_at = at
            self._timeline.after(seconds, self._reconsider)

    def _reconsider(self) -> None:
        """Make a cycle due: with time, a spared victim can be evicted again, or a waiting job may evict again."""
        self._again_at = None
        self._world.version += 1
        self._world.schedulable_generation += 1

    def _together(self, number: int) -> AbstractContextManager[None]:
        return self._world.nodes.together() if number >= _MANY else nullcontext()
