"""`SettlingVerdicts`: holds the verdicts of cycles on waiting pods until they would be written into the pods' statuses.

Later decisions depend on one member of a pod's status, the nominated node, so it must change when it would in a
cluster. There the scheduler's reports write it with the rest of a verdict, when
`strato.scheduler.reporting.podverdicts` says. As in their status queue (`strato.client.statusqueue`), a newer verdict
replaces one that waits, and is due at the earlier of the two times.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PodVerdict, Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.reporting.growth import GrowthTracker
from strato.scheduler.reporting.podverdicts import VerdictContent, Written, content_of, due_at, next_step
from strato.sim.decisions.timeline import Timeline
from strato.sim.rest import instant

_FEW: Final = 1000
"""Least number of written verdicts at which those of pods that no longer wait are forgotten; afterwards that happens
when their number has doubled, so that the cost per verdict stays constant."""


class _Waiting(NamedTuple):
    verdict: PodVerdict
    at: float
    """When the verdict is due, in whole microseconds."""


class SettlingVerdicts:
    """Verdicts that wait to be written, as the module says.

    Args:
        world: The scheduler's World; takes a pod with its nominated node when its verdict is written.
        timeline: Virtual time; calls this class back when verdicts are due.
    """

    def __init__(self, world: World, timeline: Timeline) -> None:
        self._world = world
        self._timeline = timeline
        self._growth = GrowthTracker()
        self._waiting: dict[str, _Waiting] = {}
        self._due: dict[float, list[str]] = {}
        """Instant → keys of pods whose verdict was due then. `_waiting` has the valid due time: it may have moved."""
        self._written: dict[str, Written] = {}
        self._most_written = _FEW

    def take(self, plan: Plan) -> None:
        """Take the verdicts of a cycle's plan."""
        now, world = self._timeline.now, self._world
        for key in plan.verdicts:
            job = world.jobs.get(key)
            if job is not None:
                self._growth.look(job, now)
        for verdict in plan.pods:
            key = verdict.task.key
            waiting, at = self._waiting.get(key), instant(due_at(verdict, self._growth, now))
            if waiting is not None and waiting.at <= at:
                self._waiting[key] = _Waiting(verdict, waiting.at)
            elif waiting is not None or not self._is_written(key, content_of(verdict)):
                self._put(verdict, at)
        if len(self._written) > self._most_written:
            self._forget()

    def _is_written(self, key: str, content: VerdictContent) -> bool:
        written = self._written.get(key)
        return written is not None and written.content == content

    def _put(self, verdict: PodVerdict, at: float) -> None:
        key = verdict.task.key
        self._waiting[key] = _Waiting(verdict, at)
        keys = self._due.get(at)
        if keys is None:
            self._due[at] = [key]
            self._timeline.after(at - self._timeline.now, self._write, at)
        else:
            keys.append(key)

    def _write(self, at: float) -> None:
        """Write the verdicts that are due at an instant."""
        for key in self._due.pop(at):
            waiting = self._waiting.get(key)
            if waiting is None or waiting.at != at:
                continue
            del self._waiting[key]
            verdict, written = waiting.verdict, self._written.get(key)
            reported = None
            if written is not None and written.content.uid == verdict.task.uid:
                reported = written.content.reason, written.content.message
            step = next_step(self._world, self._growth, verdict, reported=reported, written=written, now=at)
            if isinstance(step, float):
                self._put(verdict, instant(step))
            elif step is not None and not self._is_written(key, step):
                self._written[key] = Written(step, at)
                self._nominate(verdict.task, verdict.nominated)

    def _nominate(self, task: Task, node: str) -> None:
        """Give the world a pod with its nominated node, or with its former one if the verdict nominates none."""
        pod = task.pod
        if node and node != pod.status.nominated_node_name:
            pod = replace(pod, status=replace(pod.status, nominated_node_name=node))
        if task.nominated != pod.status.nominated_node_name or pod is not task.pod:
            self._world.set_pod(pod)

    def _forget(self) -> None:
        """Forget the written verdicts of pods that no longer wait, as these get no further verdict."""
        tasks = self._world.tasks
        self._written = {
            key: written
            for key, written in self._written.items()
            if (task := tasks.get(key)) is not None and task.uid == written.content.uid and task.row < 0
        }
        self._most_written = max(_FEW, 2 * len(self._written))
