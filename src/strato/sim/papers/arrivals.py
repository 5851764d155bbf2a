"""Pods that arrive one by one and never leave: each gets one cycle of the scheduler, and goes away if it does not fit.

How the experiments of GPU-sharing papers fill a cluster. The world and the cycle are those of production.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

import msgspec

from strato.api.core import Node, Pod
from strato.api.meta import Json
from strato.api.volcano.scheduling import POD_GROUP_ANNOTATIONS, PodGroup, Queue
from strato.errors import InvariantError
from strato.scheduler.cache.world import World
from strato.scheduler.config import config_from
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.placement.placer import Placer
from strato.sim.nodes import NodeShape

_NAMESPACE: Final = "default"
_NOW: Final = 1_700_000_000.0


class ArrivingPod(NamedTuple):
    """What a pod asks for."""

    requests: Mapping[str, str]
    annotations: Mapping[str, str]


def config_of(plugins: Sequence[Json]) -> Config:
    """Return a configuration of one tier that only allocates."""
    return config_from({"actions": "allocate", "tiers": [{"plugins": list(plugins)}]})


class Arrivals:
    """A cluster that fills up.

    Args:
        nodes: Its machines; the first of equals is taken first where a plugin says so.
        config: The policy.
        seed: Decides what the policy leaves to chance.
    """

    def __init__(self, nodes: Sequence[NodeShape], config: Config, seed: int) -> None:
        self._world = World(())
        self._config = config
        self._rng = Random(seed)
        self._placer = Placer(self._world.nodes)
        self._number = 0
        self._world.set_queue(msgspec.convert({"metadata": {"name": "default"}, "spec": {"weight": 1}}, Queue))
        for shape in nodes:
            self._world.set_node(msgspec.convert(_node(shape), Node))

    @property
    def world(self) -> World:
        """What the scheduler knows."""
        return self._world

    def arrive(self, pods: Sequence[ArrivingPod], per_cycle: int = 500) -> list[str]:
        """Have pods arrive one after the other; return for each the node it was bound to, empty when it has gone.

        Args:
            pods: In their order.
            per_cycle: How many are decided in one cycle, one after the other; no node loses a pod meanwhile, so that
                it is the same as a cycle for each.
        """
        nodes: list[str] = []
        for first in range(0, len(pods), per_cycle):
            nodes += self._decide(pods[first : first + per_cycle])
        return nodes

    def _decide(self, pods: Sequence[ArrivingPod]) -> list[str]:
        names = [f"pod-{self._number + at:08}" for at in range(len(pods))]
        self._number += len(pods)
        for name, pod in zip(names, pods, strict=True):
            group, body = _objects(name, pod)
            self._world.set_group(group)
            self._world.set_pod(body)
        plan = run_cycle(self._world, self._config, now=_NOW, rng=self._rng, placer=self._placer)
        if plan.failures:
            raise InvariantError(f"a plugin failed: {plan.failures[0]}")
        nodes = {bind.task.name: bind.node for bind in plan.binds}
        for name in names:
            if name not in nodes:
                self._world.remove_pod(f"{_NAMESPACE}/{name}")
                self._world.remove_group(f"{_NAMESPACE}/{name}")
        return [nodes.get(name, "") for name in names]


def _node(shape: NodeShape) -> Json:
    offer = dict(shape.resources)
    meta = {"name": shape.name, "labels": {"kubernetes.io/hostname": shape.name, **shape.labels}}
    return {"metadata": meta, "spec": {}, "status": {"capacity": offer, "allocatable": offer}}


def _objects(name: str, asked: ArrivingPod) -> tuple[PodGroup, Pod]:
    requests = asked.requests
    notes = {**asked.annotations, POD_GROUP_ANNOTATIONS[0]: name}
    meta = {"name": name, "namespace": _NAMESPACE, "uid": name}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource}
    container = {"name": "main", "resources": {"requests": dict(requests), "limits": limits}}
    pod = {
        "metadata": {**meta, "annotations": notes},
        "spec": {"containers": [container], "schedulerName": "volcano"},
        "status": {"phase": "Pending"},
    }
    group = {
        "metadata": {**meta, "uid": f"group-{name}"},
        "spec": {"minMember": 1, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }
    return msgspec.convert(group, PodGroup), msgspec.convert(pod, Pod)
