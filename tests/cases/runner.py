"""Runs one cycle case (neutral JSON taken from Volcano's tests) through the scheduler and compares the outcome."""

from __future__ import annotations

import importlib.util
import json
import os
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from strato.api.core import Node, Pod, ResourceQuota
from strato.api.scheduling import PriorityClass
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.scheduler.actions import ACTIONS
from strato.scheduler.config import config_from
from strato.scheduler.cycle import decide
from strato.scheduler.placement import Placer
from strato.scheduler.plugins import PLUGINS
from strato.scheduler.session import Session
from strato.scheduler.tasks import STATUS_NAMES
from strato.scheduler.world import World

ROOT = Path(os.environ.get("STRATO_CASES", Path(__file__).parents[3] / "shared" / "cases"))

UNSUPPORTED_FLAGS = {"topology", "shard-hard", "shard-soft", "dra", "pvc"}


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_expect", ROOT / "check_expect.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing_parts(case: Any) -> list[str]:
    """What the case needs that is not built yet."""
    config = case["config"]
    plugins = {p["name"] for tier in config["tiers"] for p in tier["plugins"]}
    actions = set(case.get("actions") or [])
    for run in case.get("runs", []):
        actions |= set(run.get("actions", []))
    out = [f"plugin {name}" for name in sorted(plugins - set(PLUGINS))]
    out += [f"action {name}" for name in sorted(actions - set(ACTIONS))]
    out += [f"feature {flag}" for flag in sorted(UNSUPPORTED_FLAGS & set(case["flags"]))]
    if any(p["name"] == "drf" and p["enableHierarchy"] for tier in config["tiers"] for p in tier["plugins"]):
        out.append("drf hierarchy")
    return out


def feed(world: World, objects: list[Any]) -> None:
    for obj in objects:
        kind = obj["kind"]
        if kind == "Pod":
            world.set_pod(msgspec.convert(obj, Pod))
        elif kind == "Node":
            world.set_node(msgspec.convert(obj, Node))
        elif kind == "PodGroup":
            world.set_group(msgspec.convert(obj, PodGroup))
        elif kind == "Queue":
            world.set_queue(msgspec.convert(obj, Queue))
        elif kind == "PriorityClass":
            world.set_priority_class(msgspec.convert(obj, PriorityClass))
        elif kind == "ResourceQuota":
            world.set_quota(msgspec.convert(obj, ResourceQuota))


def outcome(ssn: Session) -> dict[str, Any]:
    """What the session decided, in the words of check_expect.py, before it is closed."""
    from strato.scheduler.status import decide_phase

    world, names = ssn.world, ssn.world.nodes.names
    statuses: dict[str, dict[str, int]] = {}
    for job in world.jobs.values():
        statuses[job.key] = {STATUS_NAMES[s]: n for s, n in enumerate(job.counts) if n}
    return {
        "binds": {b.task.key: b.node for b in ssn.plan.binds},
        "evicted": [e.task.key for e in ssn.plan.evictions],
        "pipelined": {t.key: names[t.row] for t in world.tasks.values() if STATUS_NAMES[t.status] == "Pipelined"},
        "phases": {
            job.key: (
                decide_phase(job, unschedulable=False)
                if job.queue is not None and job.queue.view is not None
                else job.phase
            )
            for job in world.jobs.values()
            if job.group is not None
        },
        "taskStatusNums": statuses,
    }


def run(case: Any) -> dict[str, Any]:
    world = World()
    document = dict(case["config"])
    document["actions"] = ", ".join(case["actions"])
    if not document.get("configurations"):
        document.pop("configurations", None)
    config = config_from(document, case["id"])
    feed(world, case["objects"])
    ssn = decide(world, config, now=1_700_000_000.0, rng=random.Random(0), uid="case", placer=Placer(world.nodes))
    return outcome(ssn)
