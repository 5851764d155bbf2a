"""Small worlds for both plugins: applications, nodes, and what cycles decide about them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from strato.scheduler.config import parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.dryrun.run import load, settle
from strato.scheduler.dryrun.states import START
from strato.scheduler.model.plan import Plan
from strato.scheduler.placement.placer import Placer
from strato.testing import Decisions, decide, manifests

Json = dict[str, Any]


def config(plugin: str, actions: str = "enqueue, allocate", gang: str = "", **arguments: Any) -> str:
    """Return a configuration of the scheduler; arguments are those of the plugin, without its name before them."""
    written = {f"{plugin}.{name}": value for name, value in arguments.items()}
    return (
        f'actions: "{actions}"\ntiers:\n- plugins:\n  - name: {plugin}\n'
        f"    arguments: {repr(written).replace('True', 'true').replace('False', 'false')}\n"
        f"  - {{name: gang, enableJobStarving: false{gang}}}\n- plugins:\n  - name: predicates\n"
    )


def write_capacity(file: Path, settings: Mapping[str, str]) -> None:
    """Write a ``capacity-scheduler.xml``; names are below ``yarn.scheduler.capacity.`` unless they begin with yarn."""
    written = {
        name if name.startswith("yarn.") else f"yarn.scheduler.capacity.{name}": value
        for name, value in settings.items()
    }
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n" for k, v in written.items())
    file.write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")


def capacity_config(
    file: Path, settings: Mapping[str, str], actions: str = "enqueue, allocate", **arguments: Any
) -> str:
    """Write a ``capacity-scheduler.xml`` and return a configuration of the scheduler that names it."""
    write_capacity(file, settings)
    gang = ", enablePreemptable: false, enableReclaimable: false"
    return config("yarncapacity", actions, gang, file=str(file), **arguments)


def app(
    name: str,
    where: str,
    count: int,
    *,
    cpu: str = "1",
    memory: str = "1Gi",
    minimum: int = 1,
    on: str = "",
    labels: Mapping[str, str] | None = None,
    selector: Mapping[str, str] | None = None,
    prefers: Mapping[str, str] | None = None,
    first: int = 0,
    **meta: Any,
) -> list[Json]:
    """Return an application: its PodGroup and pods, which run on a node if one is named."""
    group: Json = dict(manifests.podgroup(name, min_member=minimum, queue=where))
    group["spec"]["minResources"] = {"cpu": cpu}
    group["metadata"].update(meta)
    pods = []
    for number in range(first, first + count):
        pod: Json = dict(manifests.pod(f"{name}-{number}", cpu=cpu, memory=memory, group=name, labels=labels))
        if "creationTimestamp" in meta:
            pod["metadata"]["creationTimestamp"] = meta["creationTimestamp"]
        if selector:
            pod["spec"]["nodeSelector"] = dict(selector)
        if prefers:
            wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in prefers.items()]
            term = {"weight": 1, "preference": {"matchExpressions": wanted}}
            pod["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        if on:
            pod["spec"]["nodeName"] = on
            pod["status"] = {"phase": "Running"}
        pods.append(pod)
    if on:
        group["status"] = {"phase": "Running"}
    return [group, *pods]


def node(name: str = "n", cpu: str = "16", memory: str = "16Gi", **labels: str) -> Json:
    """Return a node."""
    return dict(manifests.node(name, cpu=cpu, memory=memory, labels=labels or None))


def queues(*names: str) -> list[Json]:
    """Return queues without settings."""
    return [dict(manifests.queue(name)) for name in names]


def flat(objects: Iterable[Any]) -> list[Any]:
    """Return objects of lists of objects."""
    return [one for item in objects for one in (item if isinstance(item, list) else [item])]


def run(objects: Iterable[Any], text: str, cycles: int = 1) -> Decisions:
    """Run cycles, a second apart."""
    return decide(flat(objects), config=text, cycles=cycles)


def verdicts(objects: Iterable[Any], text: str) -> str:
    """Return all that one cycle says about jobs."""
    world = load([(f"object {number}", dict(obj)) for number, obj in enumerate(flat(objects))])
    plan = run_cycle(
        world, parse_config(text), now=START, rng=random.Random(0), uid="cycle", placer=Placer(world.nodes, 0)
    )
    assert plan.failures == []
    return "\n".join(f"{key}: {one.code}: {one.text}" for key, found in plan.verdicts.items() for one in found)


def placed(made: Decisions) -> dict[str, int]:
    """Return how many pods of each application were placed."""
    assert made.failures == []
    return dict(Counter(key.partition("/")[2].rpartition("-")[0] for key in made.binds))


class Cluster:
    """A world that goes on from cycle to cycle, and its scheduler, which may start again.

    Args:
        objects: What there is.
        text: The scheduler's configuration.
    """

    def __init__(self, objects: Iterable[Any], text: str) -> None:
        self.world = load([(f"object {number}", dict(obj)) for number, obj in enumerate(flat(objects))])
        self._config = parse_config(text)
        self._placer = Placer(self.world.nodes, 0)
        self.evicted: list[str] = []

    def cycle(self, seconds: float) -> Plan:
        """Run a cycle at a time, in seconds from the start; what it decides comes about."""
        plan = run_cycle(
            self.world, self._config, now=START + seconds, rng=random.Random(0), uid="cycle", placer=self._placer
        )
        assert plan.failures == []
        self.evicted += [eviction.task.key for eviction in plan.evictions]
        settle(plan, self.world)
        for name, noted in plan.queue_annotations.items():
            queue = self.world.queues[name]
            assert queue.view is not None
            annotations = {**(queue.view.metadata.annotations or {}), **noted}
            metadata = msgspec.structs.replace(queue.view.metadata, annotations=annotations)
            queue.view = msgspec.structs.replace(queue.view, metadata=metadata)
        return plan

    def restart(self) -> None:
        """Forget what only a running scheduler knows."""
        self.world.plugin_state.clear()

    def end(self, *pods: str) -> None:
        """Let pods of the namespace ``default`` end."""
        for pod in pods:
            self.world.remove_pod(f"default/{pod}")

    @property
    def running(self) -> dict[str, str]:
        """The node of every pod that has one, by name."""
        names = self.world.nodes.names
        return {task.name: names[task.row] for task in self.world.tasks.values() if task.row >= 0}


def said(plan: Plan, job: str) -> str:
    """Return all that a cycle says about a job of the namespace ``default``."""
    return "\n".join(f"{one.code}: {one.text}" for one in plan.verdicts.get(f"default/{job}", ()))
