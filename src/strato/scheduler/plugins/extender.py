"""extender: calls an HTTP service at extension points (spec volcano-plugins 24).

Only this plugin waits for the network within a cycle, because the cycle needs its answers; the event loop runs
meanwhile (`strato.scheduler.framework.suspension`). Three limits bound the time: each request, from connecting to the
last byte, has a timeout; all requests of a cycle have a common budget; and after a failed request the plugin sends none
for the rest of the cycle and for ten times what the failed one took. So a service that does not answer blocks
scheduling for a tenth of the time at most. Several entries of the plugin in the configuration are independent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np

from strato.api.core import PodSpec
from strato.errors import one_line
from strato.http.fetch import fetch
from strato.scheduler.cache.replies import Reply
from strato.scheduler.framework.arguments import arg, seconds
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import ABSTAIN, PERMIT, REJECT, Plugin
from strato.scheduler.framework.suspension import wait_for
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.plugins import wireforms

_log = logging.getLogger(__name__)

EXTENDER: Final = "extender"
_ANSWER_LIMIT: Final = 10 << 20
_JSON: Final = (("Content-Type", "application/json"),)
_REST: Final = 10.0
"""Time without requests after a failed one, as a multiple of what that took."""


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r} is not a list of resource names")
    return frozenset(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderArgs:
    """Arguments, as written under ``arguments:`` of this plugin; a verb that is not given is not asked."""

    prefix: str = arg("extender.urlPrefix", "")
    timeout_seconds: float = arg("extender.httpTimeout", 1.0, read=seconds)
    """How long one request may take. Default 1s."""
    budget_seconds: float = arg("extender.cycleTimeout", 5.0, read=seconds)
    """How long all requests of a cycle may take together; then it counts as one that does not answer. Default 5s."""
    session_open: str = arg("extender.onSessionOpenVerb", "")
    session_close: str = arg("extender.onSessionCloseVerb", "")
    predicate: str = arg("extender.predicateVerb", "")
    prioritize: str = arg("extender.prioritizeVerb", "")
    preemptable: str = arg("extender.preemptableVerb", "")
    reclaimable: str = arg("extender.reclaimableVerb", "")
    queue_overused: str = arg("extender.queueOverusedVerb", "")
    job_enqueueable: str = arg("extender.jobEnqueueableVerb", "")
    job_enqueued: str = arg("extender.jobEnqueuedVerb", "")
    job_ready: str = arg("extender.jobReadyVerb", "")
    allocate: str = arg("extender.allocateFuncVerb", "")
    deallocate: str = arg("extender.deallocateFuncVerb", "")
    ignorable: bool = arg("extender.ignorable", False)
    """Whether scheduling goes on as if the extender agreed when it does not answer. Default false."""
    managed: frozenset[str] = arg("extender.managedResources", frozenset(), read=_names)  # arg makes a field
    """Resources whose pods are asked about; none means all pods."""


@dataclass(slots=True)
class Health:
    """State of an extender, kept between cycles.

    Attributes:
        problem: Why its last request failed; empty when it did not.
        rests_until: No requests are sent before this time, in seconds since the epoch.
    """

    problem: str = ""
    rests_until: float = 0.0


class ExtenderFailed(Exception):
    """The extender did not answer, or its answer is invalid."""


class Extender(Plugin):
    """Delegate decisions to an HTTP service."""

    name = EXTENDER
    args_type = ExtenderArgs
    time_based = True

    def __init__(self, args: ExtenderArgs) -> None:
        super().__init__(args)
        self._refused = False
        self._verbs = {
            "filter_task": args.predicate,
            "batch_score": args.prioritize,
            "preemptable": args.preemptable,
            "reclaimable": args.reclaimable,
            "overused": args.queue_overused,
            "job_enqueueable": args.job_enqueueable,
            "job_enqueued": args.job_enqueued,
            "job_ready": args.job_ready,
            "on_place": args.allocate,
            "on_remove": args.deallocate,
        }

    def off_points(self) -> frozenset[str]:
        """Points without a configured verb; all points if the extender could not open the session."""
        return frozenset(point for point, verb in self._verbs.items() if self._refused or not verb)

    def open(self, ssn: CycleContext) -> None:
        """Send the extender the session's nodes, jobs and queues."""
        self._ssn = ssn
        self._world = world = ssn.world
        self._spent = 0.0
        self._name = f"{self.name} {self.args.prefix}"
        self._silent = ssn.now < world.plugin_state.setdefault(self._name, Health()).rests_until
        if not self.args.session_open:
            return
        rows = [row for row, node in enumerate(world.nodes.facts) if node is not None]
        nodes = [wireforms.node(world, row) for row in rows]
        body = {
            "Jobs": {job.key: wireforms.job(world, job) for job in world.jobs.values()},
            "Nodes": {node["Name"]: node for node in nodes},
            "Queues": {queue.name: wireforms.queue(queue) for queue in world.queues.values()},
            "NamespaceInfo": {},
            "RevocableNodes": {},
            "NodeList": nodes,
        }
        try:
            self._ask(self.args.session_open, body)
        except ExtenderFailed:
            self._refused = not self.args.ignorable

    def close(self, ssn: CycleContext) -> None:
        """Notify the extender that the session is over."""
        if self.args.session_close and not self._refused:
            self._notify(self.args.session_close, {})

    # -- extension points ----------------------------------------------------------------------------------------------

    def watches_pods(self, task: Task) -> bool:
        """Whether the extender looks at the task."""
        return self._concerns(task)

    def _concerns(self, task: Task) -> bool:
        managed = self.args.managed
        return not managed or not managed.isdisjoint(_resources(task.cls.spec))

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Ask about every node; an answer without text passes, code 0 with a text is an error."""
        if not self._concerns(task):
            return None
        codes = np.zeros(len(rows), np.uint16)
        reasons: list[Reason] = []
        for i, row in enumerate(rows.tolist()):
            try:
                body = {"task": wireforms.task(self._world, task), "node": wireforms.node(self._world, row)}
                answer = self._ask(self.args.predicate, body)
                text, code = str(answer.get("status") or ""), answer.get("code", 0)
            except ExtenderFailed as error:
                if self.args.ignorable:
                    return None if i == 0 else Verdicts(codes, tuple(reasons))
                text, code = str(error), 1
            if not text:
                continue
            reason = Reason(self.name, text, curable=code == 2)
            if reason not in reasons:
                if len(reasons) == 254:
                    reason = reasons[-1]
                else:
                    reasons.append(reason)
            codes[i] = reasons.index(reason) + 1
        return Verdicts(codes, tuple(reasons))

    def batch_score(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Ask for the scores of all candidates at once."""
        if not self._concerns(task):
            return None
        names = [nodes.names[row] for row in rows.tolist()]
        body = {
            "task": wireforms.task(self._world, task),
            "nodes": [wireforms.node(self._world, row) for row in rows.tolist()],
        }
        try:
            answer = self._ask(self.args.prioritize, body)
            scores = answer.get("nodeScore") or {}
            return np.array([float(scores.get(name, 0.0)) for name in names])
        except (ExtenderFailed, TypeError, ValueError, AttributeError):
            return None

    def _victims(self, verb: str, evictor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        if not self._concerns(evictor):
            return (), ABSTAIN
        body = {
            "evictor": wireforms.task(self._world, evictor),
            "evictees": [wireforms.task(self._world, task) for task in candidates],
        }
        try:
            answer = self._ask(verb, body)
        except ExtenderFailed:
            return (), PERMIT if self.args.ignorable else REJECT
        chosen = {victim.get("UID") for victim in answer.get("victims") or () if isinstance(victim, dict)}
        return [task for task in candidates if task.uid in chosen], _vote(answer)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Ask which candidates may be evicted for a task of their own queue."""
        return self._victims(self.args.preemptable, preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Ask which candidates may be evicted for a task of another queue."""
        return self._victims(self.args.reclaimable, reclaimer, candidates)

    def overused(self, queue: Queue) -> bool:
        """Ask whether a queue has all it deserves."""
        try:
            return bool(self._ask(self.args.queue_overused, {"queue": wireforms.queue(queue)}).get("overused"))
        except ExtenderFailed:
            return not self.args.ignorable

    def job_enqueueable(self, job: Job) -> int:
        """Ask whether a job may be enqueued."""
        try:
            return _vote(self._ask(self.args.job_enqueueable, {"job": wireforms.job(self._world, job)}))
        except ExtenderFailed:
            return PERMIT if self.args.ignorable else REJECT

    def job_enqueued(self, job: Job) -> None:
        """Notify the extender that a job was enqueued."""
        self._notify(self.args.job_enqueued, {"job": wireforms.job(self._world, job)})

    def job_ready(self, job: Job) -> bool:
        """Ask whether a job's placed tasks may be bound."""
        try:
            return self._ask(self.args.job_ready, {"job": wireforms.job(self._world, job)}).get("status") is True
        except ExtenderFailed:
            return not self.args.ignorable

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Notify the extender that tasks were placed."""
        for task in tasks:
            if self._concerns(task):
                self._notify(self.args.allocate, {"task": wireforms.task(self._world, task)})

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Notify the extender that tasks lost their places."""
        for task in tasks:
            if self._concerns(task):
                self._notify(self.args.deallocate, {"task": wireforms.task(self._world, task)})

    # -- the wire ------------------------------------------------------------------------------------------------------

    def _notify(self, verb: str, body: Mapping[str, Any]) -> None:
        try:
            self._ask(verb, body)
        except ExtenderFailed as error:
            _log.debug("extender not notified: verb=%s: %s", verb, error)

    def _ask(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post a question."""
        if self._silent:
            raise ExtenderFailed("the extender failed a moment ago")
        health: Health = self._world.plugin_state[self._name]
        seconds = 0.0
        try:
            left = min(self.args.timeout_seconds, self.args.budget_seconds - self._spent)
            if left <= 0:
                raise ExtenderFailed(f"its answers took {self.args.budget_seconds:g}s of this cycle already")
            reply = self._reply(f"{self.args.prefix.rstrip('/')}/{verb}", json.dumps(body).encode(), left)
            seconds = reply.seconds
            if reply.problem:
                raise ExtenderFailed(reply.problem)
        except ExtenderFailed as error:
            self._silent = True
            health.rests_until = self._ssn.now + _REST * seconds
            if not health.problem:
                _log.warning("extender does not answer: verb=%s: %s", verb, error)
            health.problem = str(error)
            raise
        finally:
            self._spent += seconds
        health.problem = ""
        answer: dict[str, Any] = json.loads(reply.text)
        problem = answer.get("errorMessage")
        if problem:
            raise ExtenderFailed(str(problem))
        return answer

    def _reply(self, url: str, body: bytes, timeout_seconds: float) -> Reply:
        """Return the reply to a request: sent now, or recorded earlier."""
        if self._world.replies is not None:
            return self._world.replies.take(url, body)
        began = perf_counter()
        try:
            text, problem = wait_for(post(url, body, timeout_seconds)), ""
        except ExtenderFailed as error:
            text, problem = "", str(error)
        reply = Reply(text, problem, perf_counter() - began)
        self._world.journal.reply(url, body, reply)
        return reply


async def post(url: str, body: bytes, timeout_seconds: float) -> str:
    """Post JSON and return the JSON object answered, as text; an empty body counts as an empty object.

    Raises:
        ExtenderFailed: It cannot be reached, takes too long, or answers something else.
    """
    try:
        status, raw = await fetch(
            url, "POST", headers=_JSON, body=body, limit_bytes=_ANSWER_LIMIT, seconds=timeout_seconds
        )
    except (OSError, ValueError) as error:
        raise ExtenderFailed(f"{url}: {one_line(error)}") from error
    if status != 200:
        raise ExtenderFailed(f"{url} answered {status}")
    try:
        answer = json.loads(raw) if raw.strip() else {}
        text = json.dumps(answer)
    except (ValueError, RecursionError) as error:
        raise ExtenderFailed(f"{url}: its answer is no JSON: {one_line(error)}") from error
    if not isinstance(answer, dict):
        raise ExtenderFailed(f"{url} did not answer an object")
    return text


def _vote(answer: Mapping[str, Any]) -> int:
    status = answer.get("status")
    return status if type(status) is int else ABSTAIN


def _resources(spec: PodSpec) -> set[str]:
    found: set[str] = set()
    for container in (*spec.containers, *spec.init_containers):
        found |= {*container.resources.requests, *container.resources.limits}
    return found
