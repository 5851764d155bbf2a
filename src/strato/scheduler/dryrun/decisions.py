"""A cycle's decisions as plain data: the public contract of ``strato schedule -o json``."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from strato.api.meta import Json
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, PodVerdict, Task
from strato.scheduler.model.plan import GroupStatus, Plan
from strato.scheduler.model.tasks import PENDING
from strato.scheduler.reporting.explain import ranked, untried


def to_json(plan: Plan, world: World) -> Json:
    """Return a plan as data; ``world`` is as the cycle left it."""
    return {
        "binds": [{"pod": bind.task.key, "node": bind.node} for bind in plan.binds],
        "evictions": [
            {"pod": e.task.key, "by": e.beneficiary, "action": e.action}
            | ({"movesTo": e.moves_to} if e.moves_to else {})
            for e in plan.evictions
        ],
        "pipelined": [{"pod": pod, "node": node} for pod, node in plan.pipelined.items()],
        "podGroups": list(_groups(plan, world)),
        "unschedulable": list(_unschedulable(plan, world)),
        "queues": [
            {
                "name": queue.name,
                "deserved": dict(queue.deserved),
                "allocated": dict(queue.allocated),
                "share": _finite(queue.share),
                "overused": bool(queue.overused),
            }
            for queue in plan.queues
        ],
    }


def _finite(number: float) -> float:
    """Return a number that JSON can hold."""
    return float(number) if math.isfinite(number) else sys.float_info.max


def _groups(plan: Plan, world: World) -> Iterator[Json]:
    decided = {status.job.key: status for status in plan.groups}
    for key in sorted(key for key, job in world.jobs.items() if job.group is not None):
        job = world.jobs[key]
        status = decided.get(key)
        phase = status.phase if status is not None else job.phase
        yield {"name": key, "phase": phase or "Pending", "conditions": _conditions(job, status)}


def _conditions(job: Job, status: GroupStatus | None) -> list[Json]:
    """Return the conditions the group has once the plan is carried out."""
    conditions = dict(job.conditions)
    new = status.condition if status is not None else None
    if new is not None:
        conditions[new.type] = (new.status, new.reason, new.message)
    return [
        {"type": type_, "status": status_, "reason": reason, "message": message}
        for type_, (status_, reason, message) in conditions.items()
    ]


def _unschedulable(plan: Plan, world: World) -> Iterator[Json]:
    """Yield every pod that waits and was not pipelined, in the order of names."""
    by_task = {verdict.task.key: verdict for verdict in plan.pods}
    waiting = [t for t in world.tasks.values() if t.status == PENDING and t.row < 0 and t.key not in plan.pipelined]
    for task in sorted(waiting, key=lambda t: t.key):
        yield {"pod": task.key, "reasons": _reasons(task, by_task.get(task.key), plan)}


def _reasons(task: Task, verdict: PodVerdict | None, plan: Plan) -> list[Json]:
    errors = verdict.errors if verdict is not None else None
    if errors is not None and errors.counts:
        return [{"plugin": r.plugin, "reason": r.text, "nodes": nodes} for r, nodes in errors.counts.items()]
    if errors is not None:
        return [{"plugin": errors.plugin, "reason": errors.message(task.name), "nodes": 0}]
    job = task.job
    held = ranked(plan.verdicts.get(job.key, ())) if job is not None and not task.gated else []
    if held:
        return [{"plugin": v.plugin, "reason": v.text, "nodes": 0} for v in held]
    return [{"plugin": "core", "reason": verdict.message if verdict is not None else untried(task), "nodes": 0}]
