"""The dry run: the cycle on plain manifests, with virtual time, and its decisions as plain data.

Same session code as in a cluster. Between cycles the plan is taken to have come about: bound pods run, evicted ones are
gone. Nothing is applied anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from strato.errors import InvalidInput, Problem
from strato.scheduler import kinds
from strato.scheduler.config import Config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.placement import Placer
from strato.scheduler.plan import Plan, PodVerdict
from strato.scheduler.tasks import BINDING, RUNNING
from strato.scheduler.world import DEFAULT_QUEUE, World

Json = dict[str, Any]

START = 1_700_000_000.0
"""Virtual seconds since the epoch at the first cycle; one second passes between cycles."""


def load(objects: Sequence[tuple[str, Json]]) -> World:
    """Build a world from manifests.

    Args:
        objects: Pairs of where an object was found (``file: document``) and the object. Kinds the scheduler does not
            read are passed over. Queues ``root`` and ``default`` are added when missing, as a scheduler would.

    Raises:
        InvalidInput: Listing every object that cannot be read, each with its place.
    """
    world = World(solo=("", "volcano", "default-scheduler"))
    problems: list[Problem] = []
    for where, obj in [*_defaults(objects), *objects]:
        known = kinds.find(str(obj.get("apiVersion", "")), str(obj.get("kind")))
        if known is None:
            continue
        try:
            known.take(world, msgspec.convert(_named(obj), known.kind.view))
        except (msgspec.ValidationError, ValueError) as error:
            problems.append(Problem(where, str(error)))
    if problems:
        raise InvalidInput("the state", problems)
    return world


def _defaults(objects: Iterable[tuple[str, Json]]) -> list[tuple[str, Json]]:
    names = {obj.get("metadata", {}).get("name") for _, obj in objects if obj.get("kind") == "Queue"}
    specs = {"root": False, DEFAULT_QUEUE: True}
    return [
        ("built in", {"kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": reclaimable}})
        for name, reclaimable in specs.items()
        if name not in names
    ]


def _named(obj: Json) -> Json:
    """Give a namespaced object its namespace and every object an identity, as an API server would."""
    meta = dict(obj.get("metadata") or {})
    if obj["kind"] in ("Pod", "PodGroup", "ResourceQuota"):
        meta.setdefault("namespace", "default")
    meta.setdefault("uid", f"{meta.get('namespace', '')}-{meta.get('name', '')}")
    return {**obj, "metadata": meta}


def dry_run(world: World, config: Config, *, cycles: int = 1, seed: int = 0) -> Json:
    """Run cycles on a world and return the decisions of each; see the module."""
    rng = random.Random(seed)
    placer = Placer(world.nodes, seed)
    out = []
    for number in range(cycles):
        plan = run_cycle(world, config, now=START + number, rng=rng, uid=f"session-{number + 1}", placer=placer)
        out.append(to_json(plan, world))
        settle(plan, world)
    return {"cycles": out}


def settle(plan: Plan, world: World) -> None:
    """Let a plan come about: bound pods run, evicted ones are gone."""
    for bind in plan.binds:
        if bind.task.status == BINDING:
            world.move(bind.task, RUNNING, bind.task.row)
    for eviction in plan.evictions:
        world.remove_pod(eviction.task.key)
    world.openings += 1


def to_json(plan: Plan, world: World) -> Json:
    """Return a plan as the public contract of ``strato schedule -o json`` has it."""
    groups = {
        status.job.key: {
            "name": status.job.key,
            "phase": status.phase,
            "conditions": [
                {
                    "type": status.condition.type,
                    "status": status.condition.status,
                    "reason": status.condition.reason,
                    "message": status.condition.message,
                }
            ]
            if status.condition is not None
            else [],
        }
        for status in plan.groups
    }
    for job in world.jobs.values():
        if job.group is not None and job.key not in groups:
            groups[job.key] = {"name": job.key, "phase": job.phase or "Pending", "conditions": []}
    return {
        "binds": [{"pod": bind.task.key, "node": bind.node} for bind in plan.binds],
        "evictions": [{"pod": e.task.key, "by": e.beneficiary, "action": e.action} for e in plan.evictions],
        "pipelined": [{"pod": pod, "node": node} for pod, node in plan.pipelined.items()],
        "podGroups": [groups[key] for key in sorted(groups)],
        "unschedulable": [
            {"pod": verdict.task.key, "reasons": _reasons(verdict, plan)}
            for verdict in plan.pods
            if verdict.reason == "Unschedulable"
        ],
        "queues": [
            {
                "name": queue.name,
                "deserved": dict(queue.deserved),
                "allocated": dict(queue.allocated),
                "share": queue.share,
                "overused": queue.overused,
            }
            for queue in plan.queues
        ],
    }


def _reasons(verdict: PodVerdict, plan: Plan) -> list[Mapping[str, Any]]:
    errors = verdict.errors
    if errors is not None and errors.counts:
        return [
            {"plugin": reason.plugin, "reason": reason.text, "nodes": count} for reason, count in errors.counts.items()
        ]
    if errors is not None:
        return [{"plugin": errors.plugin, "reason": errors.message(), "nodes": 0}]
    job = verdict.task.job
    said = plan.verdicts.get(job.key, ()) if job is not None else ()
    if said:
        return [{"plugin": v.plugin, "reason": v.text, "nodes": 0} for v in said]
    return [{"plugin": "core", "reason": verdict.message, "nodes": 0}]
