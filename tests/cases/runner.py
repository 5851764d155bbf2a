"""Runs one cycle case (neutral JSON taken from Volcano's tests) through the scheduler and compares the outcome."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import random
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from strato.errors import InvalidInput
from strato.scheduler.cache import kinds
from strato.scheduler.cache.shards import Shards
from strato.scheduler.cache.usage import NodeUsage
from strato.scheduler.cache.world import World
from strato.scheduler.config import config_from
from strato.scheduler.cycle import decide
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.tasks import STATUS_NAMES
from strato.scheduler.placement.placer import Placer
from strato.scheduler.registry import ACTIONS, PLUGINS
from strato.scheduler.reporting.status import close_session, decide_phase
from strato.scheduler.session import Session

Json = dict[str, Any]

_DEFAULT = Path(__file__).parents[3] / "shared" / "cases"
ROOT = Path(os.environ.get("STRATO_CASES", _DEFAULT))

NOW = 1_700_000_000.0


def paths(folder: str) -> list[Path]:
    """Return the case files of ``cycle`` or ``score``; none where the cases are not at hand."""
    return sorted((ROOT / folder).glob("*.json"))


def load(path: Path) -> Any:
    """Read one case."""
    return json.loads(path.read_text())


def checker() -> ModuleType:
    """Return the reference implementation of the comparison rules, which comes with the cases."""
    places = (folder / "check_expect.py" for folder in (ROOT, ROOT.parent, _DEFAULT))
    found = next((place for place in places if place.is_file()), ROOT / "check_expect.py")
    spec = importlib.util.spec_from_file_location("check_expect", found)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing_parts(case: Json) -> list[str]:
    """What the case needs that is not built yet."""
    tiers = case["config"]["tiers"]
    plugins = {p["name"] for tier in tiers for p in tier["plugins"]}
    actions = set(case.get("actions") or [])
    for step in case.get("runs", []):
        actions |= set(step.get("actions", []))
    read = {known.kind.name for known in kinds.KINDS}
    out = [f"plugin {name}" for name in sorted(plugins - set(PLUGINS))]
    out += [f"action {name}" for name in sorted(actions - set(ACTIONS))]
    out += [f"kind {kind}" for kind in sorted({obj["kind"] for obj in case["objects"]} - read)]
    return out


def world_of(case: Json) -> World:
    """Return the world a case describes."""
    world = World()
    sharding = case.get("sharding")
    if sharding:
        world.shards = Shards(world.nodes, sharding["mode"], sharding["shardName"])
        world.shards.use(sharding["nodesInShard"])
    feed(world, case["objects"])
    for name, usage in case.get("nodeUsage", {}).items():
        age = usage["metricsAgeSeconds"]
        at = 0.0 if age is None else NOW - age
        world.usages.take({name: NodeUsage(usage["cpu"], usage["mem"], at)})
    return world


def config_of(case: Json, actions: Iterable[str]) -> Config:
    """Return a case's configuration, read as a scheduler reads its file."""
    document = {**copy.deepcopy(case["config"]), "actions": ", ".join(actions)}
    if not document.get("configurations"):
        document.pop("configurations", None)
    try:
        return config_from(document, case["id"], combinations=False)
    except InvalidInput as error:
        _drop_bad_arguments(document, error)
        return config_from(document, case["id"], combinations=False)


_ARGUMENT = re.compile(r"tiers\[(\d+)\]\.plugins\[(\d+)\]\.arguments\.(.*)")


def _drop_bad_arguments(document: Json, error: InvalidInput) -> None:
    """Leave arguments out that Volcano ignores and we refuse."""
    for problem in error.problems:
        found = _ARGUMENT.fullmatch(problem.where)
        if found is None:
            raise error
        tier, plugin, key = found.groups()
        document["tiers"][int(tier)]["plugins"][int(plugin)]["arguments"].pop(key.split(".")[0], None)
        document["tiers"][int(tier)]["plugins"][int(plugin)]["arguments"].pop(key, None)


def feed(world: World, objects: Iterable[Json]) -> None:
    """Hand objects to a world, in their order."""
    for obj in objects:
        known = kinds.find(obj.get("apiVersion", ""), obj["kind"])
        assert known is not None, obj["kind"]
        known.take(world, msgspec.convert(obj, known.kind.view))


def outcome(ssn: Session) -> Json:
    """What the session decided, in the words of check_expect.py, before it is closed."""
    world, names = ssn.world, ssn.world.nodes.names
    groups = [job for job in world.jobs.values() if job.group is not None]
    return {
        "binds": {b.task.key: b.node for b in ssn.plan.binds if not _waits_for_volumes(b.task)},
        "evicted": [e.task.key for e in ssn.plan.evictions],
        "pipelined": {t.key: names[t.row] for t in world.tasks.values() if STATUS_NAMES[t.status] == "Pipelined"},
        "phases": {
            job.key: decide_phase(job, unschedulable=False) if job.queue and job.queue.view else job.phase
            for job in groups
        },
        "taskStatusNums": {
            job.key: {STATUS_NAMES[s]: n for s, n in enumerate(job.counts) if n} for job in world.jobs.values()
        },
        "allocated": {job.key: _allocated(ssn, job.used.tolist()) for job in groups},
    }


def _waits_for_volumes(task: Task) -> bool:
    """Whether a pod's bind request is held back until a controller that the cases do not have bound its volumes."""
    given = task.reservation
    return given is not None and bool(given.volumes or given.provisions)


def _allocated(ssn: Session, used: list[int]) -> Json:
    amounts = dict(zip(ssn.world.dims.names, used, strict=False))
    cpu, memory = amounts.pop("cpu"), amounts.pop("memory")
    return {"milliCPU": cpu, "memory": memory, "scalars": {name: n for name, n in amounts.items() if n}}


def run(case: Json) -> list[str]:
    """Run a case and return what is not as expected."""
    world = world_of(case)
    placer = Placer(world.nodes)
    complaints: list[str] = []
    binds: dict[str, str] = {}
    for number, step in enumerate(case.get("runs") or [{"actions": case["actions"]}]):
        feed(world, step.get("addObjects", ()))
        config = config_of(case, step["actions"])
        ssn = decide(world, config, now=NOW + number, rng=random.Random(0), uid="case", placer=placer)
        out = outcome(ssn)
        complaints += [str(failure) for failure in ssn.plan.failures]
        if "expectBinds" in step and sorted(out["binds"]) != sorted(step["expectBinds"]):
            complaints.append(f"binds of run {number + 1}: want {step['expectBinds']} got {out['binds']}")
        binds |= out["binds"]
        close_session(ssn, ssn.job_classes)
    return complaints + list(checker().matches(case["expect"], {**out, "binds": binds}, case))
