"""proportion and drf give what the slow, literal reference gives, on random clusters."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.plugins.drf import Drf
from strato.scheduler.plugins.proportion import Proportion
from tests.scheduler import worlds
from tests.scheduler.plugins.asking import session
from tests.scheduler.rules import literal
from tests.scheduler.rules.literal import SlowQueue, Vector
from tests.scheduler.worlds import group, node, pod, queue

GPU = "nvidia.com/gpu"
GIB = 1 << 30
Json = dict[str, Any]


def amounts(cpu: int, memory: int, gpus: int, pods: int = 0) -> Vector:
    """Return a vector of whole units in internal ones; no key for GPUs or pods that are not there."""
    out: Vector = {"cpu": cpu * 1000.0, "memory": memory * float(GIB)}
    return out | ({GPU: gpus * 1000.0} if gpus else {}) | ({"pods": float(pods)} if pods else {})


def wire(cpu: int, memory: int, gpus: int) -> Json:
    return {"cpu": str(cpu), "memory": f"{memory}Gi"} | ({GPU: str(gpus)} if gpus else {})


class Cluster:
    """A random cluster as objects, and as the reference sees it."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.objects: list[Json] = []
        self.total = literal.empty()
        self.queues: dict[str, SlowQueue] = {}
        self.jobs: dict[str, Vector] = {}
        for number in range(rng.randint(1, 3)):
            size = rng.choice((4, 8)), rng.choice((8, 16)), rng.choice((0, 0, 4))
            more = {GPU: str(size[2])} if size[2] else {}
            self.objects.append(node(f"n{number}", cpu=str(size[0]), memory=f"{size[1]}Gi", pods="110", **more))
            self.total = literal.added(self.total, amounts(*size, 110))
        for number in range(rng.randint(1, 4)):
            self._queue(rng, f"q{number}")

    def _queue(self, rng: random.Random, name: str) -> None:
        weight = rng.randint(1, 5)
        limit = (rng.randint(0, 8), rng.randint(0, 16), rng.choice((0, 0, 2))) if rng.random() < 0.4 else None
        kept = (rng.randint(0, 2), rng.randint(0, 2), 0) if rng.random() < 0.4 else None
        spec: Json = {"capability": wire(*limit)} if limit is not None else {}
        if kept is not None:
            spec["guarantee"] = {"resource": wire(*kept)}
        self.objects.append(queue(name, weight=weight, **spec))
        held = {"running": literal.empty(), "waiting": literal.empty()}
        for job in range(rng.randint(1, 2)):
            key = f"{name}-{job}"
            self.objects.append(group(key, 1, queue=name))
            self.jobs[key] = literal.empty()
            for number in range(rng.randint(0, 4)):
                size = rng.randint(0, 3), rng.randint(0, 4), rng.choice((0, 0, 1))
                runs = rng.random() < 0.5
                more: Json = {"phase": "Running", "nodeName": "n0"} if runs else {}
                extra = {GPU: str(size[2])} if size[2] else {}
                made = pod(f"{key}-{number}", key, str(size[0]), f"{size[1]}Gi", resources=extra, **more)
                self.objects.append(made)
                at = "running" if runs else "waiting"
                held[at] = literal.added(held[at], amounts(*size, 1))
                if runs:
                    self.jobs[key] = literal.added(self.jobs[key], amounts(*size, 1))
        self.queues[name] = SlowQueue(
            weight,
            amounts(*limit) if limit is not None else None,
            amounts(*kept) if kept is not None else literal.empty(),
            held["running"],
            held["waiting"],
        )


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_proportion_equals_the_reference(seed: int) -> None:
    cluster = Cluster(seed)
    ssn = session(worlds.world(*cluster.objects), "proportion")
    literal.water_fill(cluster.queues, cluster.total)
    plugin = next(plugin for plugin in ssn.plugins if isinstance(plugin, Proportion))
    for name, slow in cluster.queues.items():
        mine = plugin.of(ssn.world.queues[name])
        assert mine is not None
        deserved = {ssn.world.dims.names[c]: a for c, a in enumerate(mine.deserved.tolist()) if a}
        assert deserved == pytest.approx({n: a for n, a in slow.deserved.items() if a}, rel=1e-9)
        assert mine.share == pytest.approx(slow.share, rel=1e-9)
        assert ssn.overused(ssn.world.queues[name]) == slow.overused


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_drf_equals_the_reference(seed: int) -> None:
    cluster = Cluster(seed)
    ssn = session(worlds.world(*cluster.objects), "drf")
    plugin = next(plugin for plugin in ssn.plugins if isinstance(plugin, Drf))
    for key, held in cluster.jobs.items():
        job = ssn.world.jobs[f"ns/{key}"]
        assert plugin.job_order(job) == pytest.approx(literal.dominant(held, cluster.total), rel=1e-12)
