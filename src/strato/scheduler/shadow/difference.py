"""How two plans on one view differ, job by job; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.reporting.explain import ranked

START: Final = "would-start"
WAIT: Final = "would-wait"
MOVE: Final = "other-node"
EVICT: Final = "would-be-evicted"
KEEP: Final = "would-stay"
ENQUEUE: Final = "would-be-enqueued"
HOLD: Final = "would-not-be-enqueued"

CHANGES: Final = (START, WAIT, MOVE, EVICT, KEEP, ENQUEUE, HOLD)
"""Every way in which the decisions on a job may differ, as metrics and the table name them."""

PRESENT: Final = frozenset((START, EVICT, ENQUEUE))
"""Differences that last until something changes; the others are in decisions that were carried out."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between the decisions of the policy in force and of the shadow on a job.

    Attributes:
        job: ``namespace/name`` of the object the user created (a vcjob, say), else of the group or pod.
        queue: Its queue.
        change: One of `CHANGES`.
        pods: How many pods it concerns.
        now: What the policy in force decided, in words.
        shadow: What the shadow decided.
        reason: The reason, by the policy that refuses or evicts.
    """

    job: str
    queue: str
    change: str
    pods: int
    now: str
    shadow: str
    reason: str = ""


@dataclass(slots=True)
class _Lot:
    """A plan's decisions on one job."""

    nodes: dict[str, str] = field(default_factory=dict)
    evicted: dict[str, str] = field(default_factory=dict)
    enqueued: bool = False


Lots = Mapping[str, _Lot]


def lots_of(plan: Plan) -> dict[str, _Lot]:
    """Return what a plan decided, by job."""
    lots: dict[str, _Lot] = {}
    for bind in plan.binds:
        lots.setdefault(_key(bind.task), _Lot()).nodes[bind.task.key] = bind.node
    for eviction in plan.evictions:
        lots.setdefault(_key(eviction.task), _Lot()).evicted[eviction.task.key] = _evicted_for(
            eviction.reason, eviction.beneficiary
        )
    for job in plan.enqueued:
        lots.setdefault(job.key, _Lot()).enqueued = True
    return lots


def differences(
    world: World, first: Lots, second: Lots, waits: Mapping[str, str], held: Mapping[str, str]
) -> Iterator[Difference]:
    """Yield how the second plan differs from the first, in the order of the jobs' keys.

    Args:
        world: The world with the jobs.
        first: The plan of the policy in force.
        second: The plan of the shadow.
        waits: By job key, why it waits under the policy in force.
        held: By job key, why it waits under the shadow.
    """
    nothing = _Lot()
    for key in sorted({*first, *second}):
        mine, other = first.get(key, nothing), second.get(key, nothing)
        if mine == other:
            continue
        name, queue = _named(world, key)
        for change, pods, now, shadow, reason in _changes(mine, other, waits.get(key, ""), held.get(key, "")):
            yield Difference(job=name, queue=queue, change=change, pods=pods, now=now, shadow=shadow, reason=reason)


def _changes(mine: _Lot, other: _Lot, waits: str, held: str) -> Iterator[tuple[str, int, str, str, str]]:
    starts = [pod for pod in other.nodes if pod not in mine.nodes]
    if starts:
        yield START, len(starts), "waits", f"starts {_pods(starts)}", waits
    stay = [pod for pod in mine.nodes if pod not in other.nodes]
    if stay:
        yield WAIT, len(stay), f"starts {_pods(stay)}", "waits", held
    moved = [pod for pod, node in mine.nodes.items() if other.nodes.get(pod, node) != node]
    if moved:
        yield MOVE, len(moved), _on([mine.nodes[pod] for pod in moved]), _on([other.nodes[pod] for pod in moved]), ""
    victims = [pod for pod in other.evicted if pod not in mine.evicted]
    if victims:
        yield EVICT, len(victims), "runs", f"evicts {_pods(victims)}", other.evicted[victims[0]]
    spared = [pod for pod in mine.evicted if pod not in other.evicted]
    if spared:
        yield KEEP, len(spared), f"evicts {_pods(spared)}", "runs", mine.evicted[spared[0]]
    if other.enqueued and not mine.enqueued:
        yield ENQUEUE, 0, "waits for its queue", "enters its queue", waits
    if mine.enqueued and not other.enqueued:
        yield HOLD, 0, "enters its queue", "waits for its queue", held


def reasons_of(verdicts: Mapping[str, Sequence[Verdict]]) -> dict[str, str]:
    """Return by job key the first reason why it waits."""
    return {key: ranked(found)[0].text for key, found in verdicts.items() if found}


def held_by(plan: Plan) -> dict[str, str]:
    """Return by job key why it waits under a plan: the verdict on the job, else that on its first pod."""
    reasons = {_key(verdict.task): verdict.message for verdict in reversed(plan.pods)}
    for status in plan.groups:
        if status.condition is not None and status.condition.status == "True":
            reasons.setdefault(status.job.key, status.condition.message)
    return reasons | reasons_of(plan.verdicts)


def _key(task: Task) -> str:
    return task.job.key if task.job is not None else task.key


def _evicted_for(reason: str, beneficiary: str) -> str:
    return f"{reason}, for {beneficiary}" if beneficiary else reason


def _named(world: World, key: str) -> tuple[str, str]:
    """Return the name that a user gave a job, and its queue."""
    job = world.jobs.get(key)
    if job is None:
        return key, ""
    return f"{job.namespace or key.partition('/')[0]}/{_name_of(job, key)}", job.queue_name


def _name_of(job: Job, key: str) -> str:
    owner = job.group.metadata.controller if job.group is not None else None
    if owner is not None:
        return owner.name
    return key.partition("/")[2].removeprefix("pod:")


def _pods(pods: Sequence[str]) -> str:
    return f"{len(pods)} pods" if len(pods) > 1 else "1 pod"


def _on(nodes: Sequence[str]) -> str:
    """Return nodes in words: the first of them, and how many more."""
    distinct = sorted(set(nodes))
    more = f" and {len(distinct) - 1} more" if len(distinct) > 1 else ""
    return f"on {distinct[0]}{more}"
