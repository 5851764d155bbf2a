"""`WorkClock`: keeps how much work each job has done under a performance model, and computes when each will end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from strato.sim.models import Neighbour, PerformanceModel, PodStart, RunningJob
from strato.sim.traces import TraceJob


class _Work:
    """One job: the work done (``done``) at an instant (``at``), in seconds of the trace's run time, and its speed."""

    __slots__ = ("at", "done", "nodes", "rate")

    def __init__(self) -> None:
        self.nodes: dict[int, int] = {}
        """Number of each running pod → row of its node."""
        self.done = 0.0
        self.rate = 0.0
        self.at = 0.0


class WorkClock:
    """Counts the work of jobs. A job ends, with all its pods, when it has done the run time that the trace gives it.

    While fewer pods run than the job needs, it does no work. When one of its pods is evicted or lost, its work is set
    back to what the model keeps.

    Args:
        model: Gives the speed of jobs.
        jobs: The trace's jobs, by row.
        labels: Row of a node → its labels.
    """

    def __init__(
        self, model: PerformanceModel, jobs: Sequence[TraceJob], labels: Mapping[int, Mapping[str, str]]
    ) -> None:
        self._model = model
        self._jobs = jobs
        self._labels = labels
        self._work: dict[int, _Work] = {}
        self._on_node: dict[int, dict[int, int]] = {}
        self._attempts: dict[tuple[int, int], int] = {}
        self._images: set[tuple[str, int]] = set()

    def start_seconds(self, row: int, pod: int, node: int) -> float:
        """Return how long a pod takes from bind to work, and record that its node has the image now."""
        job = self._jobs[row]
        image = job.application or job.name, node
        first, attempt = image not in self._images, self._attempts.get((row, pod), 0)
        self._images.add(image)
        self._attempts[row, pod] = attempt + 1
        return self._model.start_seconds(PodStart(job, pod, attempt, first))

    def begin(self, row: int, pods: Iterable[tuple[int, int]], now: float) -> set[int]:
        """Begin the work of pods of a job, given as indexes and nodes; return the jobs whose end changes."""
        work = self._work.setdefault(row, _Work())
        touched = set()
        for pod, node in pods:
            work.nodes[pod] = node
            here = self._on_node.setdefault(node, {})
            here[row] = here.get(row, 0) + 1
            touched.add(node)
        return self._changed(row, touched, now)

    def leave(self, row: int, pod: int, now: float) -> set[int]:
        """Record that a pod was evicted or lost; return the jobs whose end changes."""
        work = self._work.get(row)
        if work is None or pod not in work.nodes:
            return set()
        self._advance(work, now)
        work.done = self._model.kept_seconds(self._jobs[row], work.done)
        return self._changed(row, {self._take_off(row, work, pod)}, now)

    def end(self, row: int, now: float) -> set[int]:
        """Record that a job has ended; return the other jobs whose end changes."""
        work = self._work.pop(row, None)
        if work is None:
            return set()
        nodes = {self._take_off(row, work, pod) for pod in list(work.nodes)}
        return self._changed(row, nodes, now) - {row}

    def remaining_seconds(self, row: int) -> float:
        """Return how long a job still runs at its present speed; infinite while it does no work."""
        work = self._work.get(row)
        if work is None or work.rate <= 0.0:
            return math.inf
        return max(0.0, (self._jobs[row].run_seconds - work.done) / work.rate)

    def _take_off(self, row: int, work: _Work, pod: int) -> int:
        node = work.nodes.pop(pod)
        here = self._on_node[node]
        here[row] -= 1
        if not here[row]:
            del here[row]
        return node

    def _changed(self, row: int, nodes: Iterable[int], now: float) -> set[int]:
        rows = {row}
        if self._model.sees_neighbours:
            rows.update(other for node in nodes for other in self._on_node.get(node, ()))
        for one in rows:
            work = self._work.get(one)
            if work is not None:
                self._advance(work, now)
                work.rate = self._rate(one, work)
        return rows

    @staticmethod
    def _advance(work: _Work, now: float) -> None:
        work.done += work.rate * (now - work.at)
        work.at = now

    def _rate(self, row: int, work: _Work) -> float:
        job = self._jobs[row]
        if len(work.nodes) < job.members:
            return 0.0
        nodes = tuple(work.nodes.values())
        labels = {node: self._labels[node] for node in set(nodes) if node in self._labels}
        neighbours = self._neighbours(row, work) if self._model.sees_neighbours else ()
        return max(0.0, self._model.rate(RunningJob(job, nodes, labels, neighbours)))

    def _neighbours(self, row: int, work: _Work) -> tuple[Neighbour, ...]:
        shared: dict[int, int] = {}
        for node in work.nodes.values():
            for other in self._on_node[node]:
                if other != row:
                    shared[other] = shared.get(other, 0) + 1
        return tuple(Neighbour(self._jobs[other], pods) for other, pods in sorted(shared.items()))
