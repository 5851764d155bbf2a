"""Score cases: the answers of single extension points on a freshly opened session, as Volcano's own tests ask them."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from strato.scheduler.cache.world import World
from strato.scheduler.model.answers import Evictor, Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.tasks import ALLOCATED
from strato.scheduler.placement.placer import Placer
from strato.scheduler.placement.scoring import resource_scores
from strato.scheduler.session import Session
from strato.scheduler.topology.domains import Search
from tests.cases import runner

Json = dict[str, Any]
_EMPTY: Json = {
    "kind": "Pod",
    "metadata": {"name": "", "namespace": "", "uid": ""},
    "spec": {},
    "status": {"phase": "Pending"},
}


def ask(case: Json) -> list[str]:
    """Ask every question of a case, in order, and return what is not as expected."""
    world = runner.world_of(case)
    for key, job in case.get("jobs", {}).items():
        runner.feed(world, _job_by_hand(key, job))
    config = runner.config_of(case, ["allocate"])
    ssn = Session(world, config, Placer(world.nodes), now=runner.NOW, rng=random.Random(0), uid="case")
    questions = Questions(ssn, case)
    complaints = []
    for number, query in enumerate(case["queries"]):
        answer = getattr(questions, _method(query["fn"]))(query)
        if "expect" in query and not _same(answer, query["expect"], case.get("tolerance", 1e-6)):
            complaints.append(f"query {number} {query['fn']}: want {query['expect']} got {answer}")
    return complaints + [str(failure) for failure in ssn.plan.failures]


def _job_by_hand(key: str, job: Json) -> list[Json]:
    namespace, _, name = key.partition("/")
    meta: Json = {"name": name, "namespace": namespace}
    if "waitingTimeSeconds" in job:
        meta["annotations"] = {"sla-waiting-time": f"{job['waitingTimeSeconds']}s"}
    return [
        {"kind": "Queue", "metadata": {"name": "by-hand"}},
        {"kind": "PodGroup", "metadata": meta, "spec": {"queue": "by-hand"}, "status": {"phase": "Pending"}},
    ]


def _same(answer: Any, wanted: Any, tolerance: float) -> bool:
    if isinstance(wanted, bool) or not isinstance(wanted, int | float | dict):
        return bool(answer == wanted)
    if isinstance(wanted, dict):
        return all(_same(answer.get(key, 0), value, tolerance) for key, value in wanted.items())
    return math.isclose(answer, wanted, rel_tol=tolerance, abs_tol=tolerance)


class Questions:
    """One method per ``fn`` of the README."""

    def __init__(self, ssn: Session, case: Json) -> None:
        self.ssn = ssn
        self.case = case

    def _task(self, key: str) -> Task:
        if key == "/":
            world = World()
            runner.feed(world, [_EMPTY])
            return world.tasks["/"]
        return self.ssn.world.tasks[key]

    def _tasks(self, keys: list[str]) -> list[Task]:
        return [self._task(key) for key in keys]

    def _row(self, node: str) -> Rows:
        return np.array([self.ssn.world.nodes.row_of[node]], np.int64)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def node_order(self, query: Json) -> float:
        """Sum of the scores of all plugins, not normalised, without batch scores."""
        ssn, task, rows = self.ssn, self._task(query["task"]), self._row(query["node"])
        nodes = ssn.world.nodes
        total = float(resource_scores(nodes, task.cls, rows, ssn.terms)[0])
        for static in ssn.answers["static_scores"]:
            total += sum(float(score.raw[0]) * score.weight for score in static(task.cls, nodes, rows))
        for by_facet in ssn.answers["score_facet"]:
            total += sum(float(score.raw[0]) * score.weight for score in by_facet(task, nodes, rows))
        for by_task in ssn.answers["score_task"]:
            points = by_task(task, nodes, rows)
            total += 0.0 if points is None else float(points[0])
        for score in ssn.answers["score"]:
            points = score(task.cls, nodes, rows)
            total += 0.0 if points is None else float(points[0])
        return total

    def batch_node_order(self, query: Json) -> Json:
        """Batch scores by node."""
        ssn, task, nodes = self.ssn, self._task(query["task"]), self.ssn.world.nodes
        search = None
        if "jobAllocatedHyperNode" in query:
            assert task.sub is not None
            near = ssn.tree.find(query["jobAllocatedHyperNode"])
            search = Search(ssn.tree, ssn.tree.top, task.sub, near)
        rows = np.array([nodes.row_of[name] for name in query["nodes"]], np.int64)
        total = np.zeros(len(rows))
        for score in ssn.answers["batch_score"]:
            with ssn.searching(search):
                points = score(task, nodes, rows)
            total = total if points is None else total + points
        return dict(zip(query["nodes"], total.tolist(), strict=True))

    def hyper_node_order(self, query: Json) -> Json:
        """Scores of domains for a sub-job, by plugin; of the one plugin there is."""
        layout = self._job(query["job"]).layout
        assert layout is not None
        names = list(query["hyperNodes"])
        domains = [self.ssn.tree.find(name) for name in names]
        scores = self.ssn.hyper_node_scores(layout.subs[query["subJob"]], domains, together=True)
        return {plugin: dict(zip(names, scores.tolist(), strict=True)) for plugin in query["expect"]}

    def predicate(self, query: Json) -> Json:
        """Whether a node passes the filters, and what the first that turns it down says."""
        ssn, task, rows = self.ssn, self._task(query["task"]), self._row(query["node"])
        nodes = ssn.world.nodes
        static: list[Callable[[], Verdicts | None]] = [
            lambda f=f: f(task.cls, nodes, rows) for f in ssn.answers["filter"]
        ]
        by_task: list[Callable[[], Verdicts | None]] = [
            lambda f=f: f(task, nodes, rows) for f in (*ssn.answers["filter_facet"], *ssn.answers["filter_task"])
        ]
        for judge in [*static, *by_task]:
            verdicts = judge()
            if verdicts is not None and verdicts.codes[0]:
                return self._refusal(verdicts.reasons[int(verdicts.codes[0]) - 1], query["expect"])
        return {"fit": True}

    @staticmethod
    def _refusal(reason: Reason, wanted: Json) -> Json:
        """Describe a reason; Volcano leaves the plugin's name out of some."""
        code = 2 if reason.curable else 3
        return {"fit": False, "code": code, "reason": reason.text, "plugin": reason.plugin if wanted["plugin"] else ""}

    def allocate(self, query: Json) -> None:
        """Place a task; only the effect counts."""
        ssn, task = self.ssn, self._task(query["task"])
        ssn.world.move(task, ALLOCATED, int(self._row(query["node"])[0]))
        ssn.fire_placed([task])

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def _job(self, key: str) -> Job:
        return self.ssn.world.jobs[key]

    def job_enqueueable(self, query: Json) -> bool:
        """Whether a job may enter its queue."""
        return self.ssn.job_enqueueable(self._job(query["job"]))

    def job_enqueued(self, query: Json) -> None:
        """Let a job enter its queue; only the effect counts."""
        self.ssn.job_enqueued(self._job(query["job"]))

    def _pair(self, query: Json) -> tuple[Any, Any]:
        by_hand = self.case.get("jobs", {})
        left, right = (
            side + "-" + query[side] if side + "-" + query[side] in by_hand else query[side]
            for side in ("left", "right")
        )
        return self.ssn.job_plugin_key(self._job(left)), self.ssn.job_plugin_key(self._job(right))

    def job_order(self, query: Json) -> bool:
        """Whether the left job comes before the right one."""
        left, right = self._pair(query)
        return bool(left < right)

    def job_order_compare(self, query: Json) -> int:
        """Order of two jobs by plugins alone."""
        left, right = self._pair(query)
        return -1 if left < right else int(left > right)

    # -- victims -------------------------------------------------------------------------------------------------------

    def preemptable(self, query: Json) -> list[str]:
        """Permitted victims."""
        chosen = self.ssn.preemptable(self._task(query["preemptor"]), self._tasks(query["candidates"]))
        return [task.key for task in chosen]

    def unified_evictable(self, query: Json) -> list[str]:
        """Permitted victims of a whole job."""
        job = Job(query["evictorJob"]["uid"], self.ssn.world.dims)
        job.priority = query["evictorJob"]["priority"]
        evictor = Evictor(query["evictionKind"].lower(), job, self.ssn.tree.top)
        return [task.key for task in self.ssn.unified_evictable(evictor, self._tasks(query["candidates"]))]

    def victim_order(self, query: Json) -> list[str]:
        """The order in which victims go."""
        ordered = self.ssn.victims_in_order(self._tasks(query["candidates"]), self._task(query["preemptor"]))
        return [task.key for task in ordered]

    def victim_tasks(self, query: Json) -> Json:
        """How many tasks plugins want gone; time passes first, since some look only now and then."""
        self.ssn.now += 60.0
        return {"count": len(self.ssn.victim_tasks(self._tasks(query["candidates"])))}


def _method(fn: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found.group().lower()}", fn)


def missing_questions(case: Json) -> list[str]:
    """Return what a case asks for that cannot be asked here."""
    return [
        f"question {fn}" for fn in sorted({q["fn"] for q in case["queries"]}) if not hasattr(Questions, _method(fn))
    ]
