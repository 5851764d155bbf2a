"""The dry run: cycles on plain manifests, with virtual time, and their decisions as plain data.

It uses the same session code as in a cluster. Between cycles it assumes that the plan was carried out: bound pods run,
evicted ones are gone. It writes nothing to any cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from strato.admission.kube import SYSTEM_PRIORITIES
from strato.api.core import Pod
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.api.scheduling import PriorityClass
from strato.errors import InvalidInput, Problem
from strato.scheduler.cache import kinds
from strato.scheduler.cache.accounts import DEFAULT_QUEUE
from strato.scheduler.cache.kinds import WorldKind
from strato.scheduler.cache.shards import Shards
from strato.scheduler.cache.world import World
from strato.scheduler.cycle import run_cycle
from strato.scheduler.dryrun.decisions import to_json
from strato.scheduler.dryrun.decoding import decode
from strato.scheduler.dryrun.manifests import Json, Located, describe
from strato.scheduler.dryrun.states import START, UNSHARED, Sharding
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Failure, Plan
from strato.scheduler.model.tasks import AGENT_SCHEDULER, BINDING, RELEASING, RUNNING
from strato.scheduler.placement.placer import Placer

SOLO = ("", "volcano", "default-scheduler", "poseidon", AGENT_SCHEDULER)
"""Scheduler names whose pods are jobs of their own when they have no group."""


class Decoded(NamedTuple):
    """An object as the scheduler reads it, and where it was found."""

    where: str
    known: WorldKind
    view: Object


def load(objects: Sequence[Located], problems: Sequence[Problem] = (), sharding: Sharding = UNSHARED) -> World:
    """Build a world from manifests.

    Args:
        objects: Pairs of where an object was found (``file: document``) and the object. Kinds the scheduler does not
            read are ignored. Queues ``root`` and ``default`` are added when missing, as a scheduler would.
        problems: Problems that are known already; listed first.
        sharding: Which part of the nodes is the scheduler's.

    Raises:
        InvalidInput: Listing everything that is wrong with any object, each with its place and path.
    """
    return build(decode_all(objects, problems), sharding)


def decode_all(objects: Sequence[Located], problems: Sequence[Problem] = ()) -> list[Decoded]:
    """Decode manifests as for `load`.

    Raises:
        InvalidInput: Listing everything that is wrong with any object, each with its place and path.
    """
    problems = list(problems)
    seen: dict[tuple[str, str, str], str] = {}
    decoded: list[Decoded] = []
    for where, obj in [*_defaults(objects), *objects]:
        known = kinds.find(str(obj.get("apiVersion", "")), str(obj.get("kind")))
        if known is None:
            continue
        problems += _version(known.kind, obj, where) + _identity(known.kind, obj, where, seen)
        view, wrong = decode(known.kind.view, _named(obj, known.kind), where)
        problems += wrong
        if view is not None:
            decoded.append(Decoded(where, known, view))
    if problems:
        _try(decoded, problems)
        raise InvalidInput("the state", problems)
    classes = [one.view for one in decoded if isinstance(one.view, PriorityClass)]
    return [
        one._replace(view=_with_priority(one.view, classes)) if isinstance(one.view, Pod) else one for one in decoded
    ]


def build(decoded: Iterable[Decoded], sharding: Sharding = UNSHARED) -> World:
    """Build a world of decoded objects.

    Raises:
        InvalidInput: Listing every object that cannot be used.
    """
    problems: list[Problem] = []
    world = _try(decoded, problems, sharding)
    if problems:
        raise InvalidInput("the state", problems)
    return world


def _try(decoded: Iterable[Decoded], problems: list[Problem], sharding: Sharding = UNSHARED) -> World:
    world = World(solo=SOLO)
    world.shards = Shards(world.nodes, sharding.mode, sharding.name, AGENT_SCHEDULER)
    for where, known, view in decoded:
        try:
            known.take(world, view)
        except (ValueError, OverflowError) as error:
            problems.append(Problem(where, str(error)))
    return world


def _identity(kind: Kind, obj: Json, where: str, seen: dict[tuple[str, str, str], str]) -> list[Problem]:
    """Return what is wrong with an object's name, or where the same object was found before."""
    meta = obj.get("metadata", {})
    if not isinstance(meta, dict):
        return []  # decoding says so
    name = meta.get("name", "")
    namespace = meta.get("namespace") or "default"
    if name == "":
        return [Problem(f"{where}: metadata.name", "is missing")]
    if not isinstance(name, str) or not isinstance(namespace, str):
        return []  # decoding says so
    key = (kind.name, namespace if kind.namespaced else "", name)
    before = seen.setdefault(key, where)
    if before != where:
        return [Problem(f"{where}: metadata.name", f"{kind.name} {'/'.join(filter(None, key[1:]))} is in {before} too")]
    return []


def _version(kind: Kind, obj: Json, where: str) -> list[Problem]:
    given = obj.get("apiVersion")
    if not given or given == kind.api_version:
        return []  # that a file leaves it out was reported when it was read
    return [Problem(f"{where}: apiVersion", f"is {describe(given)}; the scheduler reads {kind.api_version}")]


def _defaults(objects: Iterable[Located]) -> list[Located]:
    metas = (obj.get("metadata") for _, obj in objects if obj.get("kind") == "Queue")
    names = [meta.get("name") for meta in metas if isinstance(meta, dict)]
    specs = {"root": False, DEFAULT_QUEUE: True}
    return [
        ("built in", {"kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": reclaimable}})
        for name, reclaimable in specs.items()
        if name not in names
    ]


def _named(obj: Json, kind: Kind) -> Json:
    """Give a namespaced object its namespace and every object an identity, as an API server would."""
    given = obj.get("metadata", {})
    if not isinstance(given, dict):
        return obj
    meta = dict(given)
    if kind.namespaced and not meta.get("namespace"):
        meta["namespace"] = "default"
    if not meta.get("uid"):
        meta["uid"] = f"{meta.get('namespace', '')}-{meta.get('name', '')}"
    return {**obj, "metadata": meta}


def _with_priority(pod: Pod, classes: Sequence[PriorityClass]) -> Pod:
    """Resolve a pod's priority class, as admission does when a pod is created."""
    spec = pod.spec
    if spec.priority is not None:
        return pod
    name = spec.priority_class_name
    value = SYSTEM_PRIORITIES.get(name)
    for found in classes:
        if found.metadata.name == name or (not name and found.global_default):
            value = found.value
    return pod if value is None else structs.replace(pod, spec=structs.replace(spec, priority=value))


def dry_run(
    world: World,
    config: Config,
    *,
    cycles: int = 1,
    seed: int = 0,
    now: float = START,
    failures: list[Failure] | None = None,
) -> Json:
    """Run cycles on a world and return the decisions of each; see the module.

    Args:
        world: The state; changed to what it is after the last cycle.
        config: The configuration.
        cycles: Number of cycles; one second passes between two.
        seed: Seed of the random generator.
        now: Seconds since the epoch at the first cycle.
        failures: Receives the plugins and actions that raised and were left out.
    """
    rng = random.Random(seed)
    placer = Placer(world.nodes, seed)
    out = []
    for number in range(cycles):
        plan = run_cycle(world, config, now=now + number, rng=rng, uid=f"session-{number + 1}", placer=placer)
        out.append(to_json(plan, world))
        if failures is not None:
            failures += plan.failures
        settle(plan, world)
    return {"cycles": out}


def settle(plan: Plan, world: World) -> None:
    """Apply a plan to the world: bound pods run, evicted and leaving ones are gone, groups get their conditions."""
    for bind in plan.binds:
        if bind.task.status == BINDING:
            world.move(bind.task, RUNNING, bind.task.row)
    for key in [task.key for task in world.tasks.values() if task.status == RELEASING]:
        world.remove_pod(key)
    for task in plan.admitted.values():
        world.remove_pod(task.key)
        world.set_pod(structs.replace(task.pod, spec=structs.replace(task.pod.spec, scheduling_gates=())))
    for status in plan.groups:
        if status.condition is not None:
            condition = status.condition
            status.job.conditions[condition.type] = (condition.status, condition.reason, condition.message)
    world.schedulable_generation += 1
