"""nodeorder: Kubernetes' scoring of nodes (spec volcano-plugins 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strato.api.nodeselection import matches_term, tolerates
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import BALANCED, LEAST, MOST, ResourceTerm, StaticScore
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.resources import CPU, MEMORY, FloatArray
from strato.scheduler.model.tasks import TaskClass
from strato.scheduler.plugins import neighbourly

GPU = "nvidia.com/gpu"
_MIB = 1024 * 1024
_IMAGE_MIN_BYTES = 23 * _MIB
_IMAGE_MAX_BYTES = 1000 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrderArgs:
    """Arguments, as written under ``arguments:`` of this plugin: a weight per score, 0 switches it off."""

    least_requested: int = arg("leastrequested.weight", 1)
    most_requested: int = arg("mostrequested.weight", 0)
    node_affinity: int = arg("nodeaffinity.weight", 2)
    pod_affinity: int = arg("podaffinity.weight", 2)
    balanced_resource: int = arg("balancedresource.weight", 1)
    taint_toleration: int = arg("tainttoleration.weight", 3)
    image_locality: int = arg("imagelocality.weight", 1)
    pod_topology_spread: int = arg("podtopologyspread.weight", 2)


class NodeOrder(Plugin):
    """Prefer nodes as kube-scheduler would."""

    name = "nodeorder"
    job_facts = ()
    args_type = NodeOrderArgs

    def resources(self) -> Sequence[str]:
        """GPUs take part in the balance."""
        return (GPU,)

    def open(self, ssn: CycleContext) -> None:
        """Resolve the columns."""
        self._gpu = ssn.world.column(GPU)
        self._world = ssn.world

    def resource_terms(self) -> Sequence[ResourceTerm]:
        """Least and most allocated, and balance between resources."""
        args = self.args
        terms = (
            ResourceTerm(LEAST, float(args.least_requested), ((CPU, 50.0), (MEMORY, 50.0))),
            ResourceTerm(MOST, float(args.most_requested), ((CPU, 1.0), (MEMORY, 1.0))),
            ResourceTerm(BALANCED, float(args.balanced_resource), ((CPU, 1.0), (MEMORY, 1.0), (self._gpu, 1.0))),
        )
        return [term for term in terms if term.weight]

    def static_scores(self, cls: TaskClass, nodes: NodeTable, rows: Rows) -> Sequence[StaticScore]:
        """Preferred node affinity, soft taints, images at hand."""
        args = self.args
        scores = []
        affinity = cls.spec.affinity.node_affinity if cls.spec.affinity is not None else None
        if args.node_affinity and affinity is not None and affinity.preferred:
            raw = np.zeros(len(rows))
            for i, row in enumerate(rows):
                node = nodes.facts[row]
                if node is not None:
                    raw[i] = sum(p.weight for p in affinity.preferred if matches_term(p.preference, node))
            scores.append(StaticScore(raw, float(args.node_affinity), normalise=True))
        if args.taint_toleration:
            raw = self._soft_taints(cls, nodes, rows)
            scores.append(StaticScore(raw, float(args.taint_toleration), normalise=True, reverse=True))
        if args.image_locality:
            scores.append(StaticScore(image_scores(cls, nodes, rows), float(args.image_locality)))
        return scores

    def watches_pods(self, task: Task) -> bool:
        """Whether other pods matter for this task's score."""
        return bool(self._world.affinity) and neighbourly.concerns(self._world, task)

    def batch_score(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """Inter-pod affinity and topology spread."""
        total: FloatArray | None = None
        for weight, score in (
            (self.args.pod_affinity, neighbourly.score_affinity),
            (self.args.pod_topology_spread, neighbourly.score_spread),
        ):
            points = score(self._world, task, rows) if weight else None
            if points is not None:
                total = points * weight if total is None else total + points * weight
        return total

    @staticmethod
    def _soft_taints(cls: TaskClass, nodes: NodeTable, rows: Rows) -> FloatArray:
        raw = np.zeros(len(rows))
        soft = [t for t in cls.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
        for i in np.nonzero(nodes.tainted[rows])[0]:
            node = nodes.facts[rows[i]]
            if node is not None:
                raw[i] = sum(t.effect == "PreferNoSchedule" and not tolerates(soft, t) for t in node.spec.taints)
        return raw


def image_scores(cls: TaskClass, nodes: NodeTable, rows: Rows) -> FloatArray:
    """Return Kubernetes' ImageLocality in [0, 100]: bytes at hand, weighted by how many nodes have the image."""
    raw = np.zeros(len(rows))
    containers = (*cls.spec.init_containers, *cls.spec.containers)
    known = [nodes.images[name] for name in (image_name(c.image) for c in containers) if name in nodes.images]
    if not known:
        return raw
    present = max(int(nodes.present.sum()), 1)
    for i, row in enumerate(rows):
        raw[i] = sum(int(have[row] * (len(have) / present)) for have in known if row in have)
    most = _IMAGE_MAX_BYTES * len(containers)
    clipped = np.clip(raw, _IMAGE_MIN_BYTES, most)
    points: FloatArray = np.floor(100.0 * (clipped - _IMAGE_MIN_BYTES) / (most - _IMAGE_MIN_BYTES))
    return points


def image_name(image: str) -> str:
    """Return an image's name with its tag (``:latest`` when it has none)."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
