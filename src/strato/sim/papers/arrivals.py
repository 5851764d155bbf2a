"""`FillingCluster`: fills a cluster with pods that arrive one by one and never end; what fits nowhere is removed.

The experiments of papers on GPU sharing fill a cluster like this. World and cycle are those of the real scheduler.
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
from strato.node.shapes import NodeShape
from strato.scheduler.cache.world import World
from strato.scheduler.config import config_from
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.scheduler.placement.placer import Placer

_NAMESPACE: Final = "default"
_NOW: Final = 1_700_000_000.0
_JOB: Final = "job"


class ArrivingPod(NamedTuple):
    """Requests and annotations of a pod."""

    requests: Mapping[str, str]
    annotations: Mapping[str, str]


def config_of(plugins: Sequence[Json]) -> Config:
    """Return a configuration with the action allocate only and the plugins in one tier."""
    return config_from({"actions": "allocate", "tiers": [{"plugins": list(plugins)}]})


class FillingCluster:
    """A cluster that fills up.

    Args:
        nodes: Its nodes; a plugin that breaks ties by order takes the first of equals.
        config: The policy.
        seed: Seeds the scheduler's random numbers.
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
        """The scheduler's World."""
        return self._world

    def arrive(self, pods: Sequence[ArrivingPod], per_cycle: int = 4000) -> list[str]:
        """Place pods one after the other; return the node of each, empty for those that fitted nowhere.

        Args:
            pods: The pods, in the order in which they arrive.
            per_cycle: Pods that one cycle decides, in their order. As no pod ends meanwhile, the decisions are those of
                one cycle for each pod.
        """
        nodes: list[str] = []
        for first in range(0, len(pods), per_cycle):
            nodes += self._decide(pods[first : first + per_cycle])
        return nodes

    def share_out(self, jobs: Mapping[str, Sequence[ArrivingPod]]) -> list[str]:
        """Let jobs arrive together, and run one cycle; return the job of each pod placed, in the order of placement."""
        for job, pods in jobs.items():
            name = self._next_name()
            self._add(name, job, pods)
        return [bind.task.pod.metadata.labels[_JOB] for bind in self._run().binds]  # type: ignore[index]  # `_add` sets

    def _decide(self, pods: Sequence[ArrivingPod]) -> list[str]:
        names = [self._next_name() for _ in pods]
        for name, pod in zip(names, pods, strict=True):
            self._add(name, name, (pod,))
        nodes = {bind.task.name: bind.node for bind in self._run().binds}
        for name in names:
            if f"{name}-0" not in nodes:
                self._world.remove_pod(f"{_NAMESPACE}/{name}-0")
                self._world.remove_group(f"{_NAMESPACE}/{name}")
        return [nodes.get(f"{name}-0", "") for name in names]

    def _next_name(self) -> str:
        self._number += 1
        return f"job-{self._number:08}"

    def _add(self, name: str, job: str, pods: Sequence[ArrivingPod]) -> None:
        group, bodies = _objects(name, job, pods)
        self._world.set_group(group)
        for body in bodies:
            self._world.set_pod(body)

    def _run(self) -> Plan:
        plan = run_cycle(self._world, self._config, now=_NOW, rng=self._rng, placer=self._placer)
        if plan.failures:
            raise InvariantError(f"a plugin failed: {plan.failures[0]}")
        return plan


def _node(shape: NodeShape) -> Json:
    offer = dict(shape.resources)
    meta = {"name": shape.name, "labels": {"kubernetes.io/hostname": shape.name, **shape.labels}}
    return {"metadata": meta, "spec": {}, "status": {"capacity": offer, "allocatable": offer}}


def _objects(name: str, job: str, pods: Sequence[ArrivingPod]) -> tuple[PodGroup, list[Pod]]:
    group = {
        "metadata": {"name": name, "namespace": _NAMESPACE, "uid": name},
        "spec": {"minMember": 1, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }
    return msgspec.convert(group, PodGroup), [_pod(f"{name}-{at}", name, job, asked) for at, asked in enumerate(pods)]


def _pod(name: str, group: str, job: str, asked: ArrivingPod) -> Pod:
    limits = {resource: amount for resource, amount in asked.requests.items() if "/" in resource}
    container = {"name": "main", "resources": {"requests": dict(asked.requests), "limits": limits}}
    pod = {
        "metadata": {
            "name": name,
            "namespace": _NAMESPACE,
            "uid": name,
            "labels": {_JOB: job},
            "annotations": {**asked.annotations, POD_GROUP_ANNOTATIONS[0]: group},
        },
        "spec": {"containers": [container], "schedulerName": "volcano"},
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(pod, Pod)
