"""How fast the scheduler decides: `python -m benchmarks.scheduler [--json FILE] [--only NAME]`.

Decision only: from a world in memory to a plan; no API. Every line names its bar. Time is CPU time: a decision is one
thread that waits for nothing. The first run on a machine compiles the kernel; that is not counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.crowded import backlog, cold_start, evicting, refused
from strato.api.core import Node, Pod
from strato.api.volcano.scheduling import NetworkTopologySpec, PodGroup, Queue
from strato.api.volcano.topology import HyperNode
from strato.scheduler.cache.world import World
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.placement.placer import Placer, warm_up

PLAIN = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: proportion}]
"""


def build(
    nodes: int,
    jobs: int,
    size: int,
    *,
    classes: int = 1,
    queues: int = 1,
    extra: int = 0,
    cpu: int = 64,
    minimum: int = -1,
    step: int = 10,
) -> World:
    """A world of equal nodes and of jobs × size pending pods in so many classes, ``step`` milli-cpu apart."""
    world = World()
    for q in range(queues):
        view = {"metadata": {"name": f"q{q}"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
        world.set_queue(msgspec.convert(view, Queue))
    more = {f"example.com/r{i}": "1000" for i in range(extra)}
    for n in range(nodes):
        allocatable = {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": "250", **more}
        view = {
            "metadata": {"name": f"node-{n}", "labels": {"zone": f"z{n % 10}"}},
            "status": {"allocatable": allocatable},
        }
        world.set_node(msgspec.convert(view, Node))
    for j in range(jobs):
        minimal = size if minimum < 0 else minimum
        view = {
            "metadata": {"name": f"job-{j}", "namespace": "bench", "uid": f"j{j}"},
            "spec": {"minMember": minimal, "queue": f"q{j % queues}"},
            "status": {"phase": "Inqueue"},
        }
        world.set_group(msgspec.convert(view, PodGroup))
        milli = 100 + (j % classes) * step
        requests = {"cpu": f"{milli}m", "memory": "256Mi"} | dict.fromkeys(more, "1")
        for p in range(size):
            view = {
                "metadata": {
                    "name": f"job-{j}-task-{p}",
                    "namespace": "bench",
                    "uid": f"{j}-{p}",
                    "annotations": {"scheduling.k8s.io/group-name": f"job-{j}"},
                },
                "spec": {
                    "schedulerName": "volcano",
                    "containers": [{"name": "main", "resources": {"requests": requests}}],
                },
                "status": {"phase": "Pending"},
            }
            world.set_pod(msgspec.convert(view, Pod))
    return world


def decide(world: World, config: Config, placer: Placer) -> tuple[int, float]:
    began = time.process_time()
    plan = run_cycle(world, config, now=1e9, rng=random.Random(1), placer=placer)
    return len(plan.binds), time.process_time() - began


def rate(world: World, config: Config) -> dict[str, Any]:
    placed, seconds = decide(world, config, Placer(world.nodes))
    return {"pods": placed, "seconds": seconds, "value": placed / seconds, "unit": "pods/s"}


def no_predicates() -> dict[str, Any]:
    return rate(build(5000, 20, 500, queues=2), parse_config(PLAIN))


def gangs() -> dict[str, Any]:
    return rate(build(1000, 20, 500), default_config())


def services(world: World, count: int) -> None:
    """Let pods of other people run there that avoid their like, a term each, as most Deployments have."""
    for i in range(count):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": f"s{i}"}}}
        wish = {"weight": 100, "podAffinityTerm": term}
        apart = {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
        if i % 2:
            apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        view = {
            "metadata": {"name": f"s{i}", "namespace": "bench", "uid": f"s{i}", "labels": {"app": f"s{i}"}},
            "spec": {
                "nodeName": f"node-{i % world.nodes.size}",
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}],
                "affinity": {"podAntiAffinity": apart},
            },
            "status": {"phase": "Running"},
        }
        world.set_pod(msgspec.convert(view, Pod))


def gangs_beside() -> dict[str, Any]:
    world = build(1000, 20, 500)
    services(world, 2000)
    return rate(world, default_config())


def apart() -> dict[str, Any]:
    """Jobs whose pods avoid each other, term by term of their own, where 100,000 pods run already."""
    world, config = build(5000, 100, 1000), default_config()
    placer = Placer(world.nodes)
    decide(world, config, placer)
    for j in range(50):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job": f"apart-{j}"}}}
        view = {
            "metadata": {"name": f"apart-{j}", "namespace": "bench", "uid": f"a{j}"},
            "spec": {"minMember": 10, "queue": "q0"},
            "status": {"phase": "Inqueue"},
        }
        world.set_group(msgspec.convert(view, PodGroup))
        for p in range(10):
            meta = {"name": f"apart-{j}-{p}", "namespace": "bench", "uid": f"a{j}-{p}", "labels": {"job": f"apart-{j}"}}
            meta["annotations"] = {"scheduling.k8s.io/group-name": f"apart-{j}"}
            spec = {
                "schedulerName": "volcano",
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            }
            world.set_pod(msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}, Pod))
    placed, seconds = decide(world, config, placer)
    return {"pods": placed, "seconds": seconds, "value": placed / seconds, "unit": "pods/s"}


def one_pod_jobs() -> dict[str, Any]:
    return rate(build(1000, 10_000, 1), default_config())


def one_pod_jobs_many_classes() -> dict[str, Any]:
    return rate(build(1000, 10_000, 1, classes=50), default_config())


def many_classes() -> dict[str, Any]:
    return rate(build(10_000, 50, 400, classes=50, extra=5), default_config())


def elastic_jobs() -> dict[str, Any]:
    return rate(build(1000, 20, 500, minimum=1), default_config())


def unchanged() -> dict[str, Any]:
    world = build(10_000, 250, 400, classes=50)
    placer, config = Placer(world.nodes), default_config()
    while decide(world, config, placer)[0]:
        pass
    _, seconds = decide(world, config, placer)
    return {"pods": 0, "seconds": seconds, "value": seconds * 1000, "unit": "ms"}


TOPOLOGY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: TAIL}]
""".replace("TAIL", "network-topology-aware")


def fabric(world: World, per_leaf: int, per_block: int) -> None:
    """Put the nodes into leaves (tier 1), the leaves into blocks (tier 2), the blocks under one spine (tier 3)."""
    nodes = [name for name in world.nodes.names if name]
    level, tier = [("Node", nodes[i : i + per_leaf]) for i in range(0, len(nodes), per_leaf)], 1
    while True:
        names = [f"t{tier}-{i}" for i in range(len(level))]
        for name, (kind, members) in zip(names, level, strict=True):
            chosen = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
            view = {"metadata": {"name": name}, "spec": {"tier": tier, "members": chosen}}
            world.set_hyper_node(msgspec.convert(view, HyperNode))
        if tier == 3:
            return
        size = per_block if tier == 1 else len(names)
        level, tier = [("HyperNode", names[i : i + size]) for i in range(0, len(names), size)], tier + 1


def require(world: World, tier: int) -> None:
    """Let every gang stay within a tier."""
    for job in list(world.jobs.values()):
        group = job.group
        if group is not None:
            spec = msgspec.structs.replace(group.spec, network_topology=NetworkTopologySpec(highest_tier_allowed=tier))
            world.set_group(msgspec.structs.replace(group, spec=spec))


def topology() -> dict[str, Any]:
    """Gangs that fit into a leaf."""
    world = build(1000, 100, 100)
    fabric(world, 10, 10)
    require(world, 1)
    return rate(world, parse_config(TOPOLOGY))


def topology_tight() -> dict[str, Any]:
    """Gangs that fit into no leaf: every block has to be tried."""
    world = build(1000, 20, 500, cpu=2)
    fabric(world, 10, 10)
    require(world, 2)
    return rate(world, parse_config(TOPOLOGY))


def topology_beside() -> dict[str, Any]:
    """Gangs without a topology, with the plugin on: they fill up leaves."""
    world = build(1000, 20, 500)
    fabric(world, 10, 10)
    return rate(world, parse_config(TOPOLOGY))


BENCHMARKS: list[tuple[str, str, Callable[[], dict[str, Any]], float]] = [
    ("no-predicates", "5,000 nodes, 10,000 pods, 2 queues, no predicates", no_predicates, 40_000),
    ("gangs", "default plugins, 1,000 nodes, 20 gangs x 500", gangs, 5_000),
    ("gangs-beside", "the same, beside 2,000 pods that each avoid their like", gangs_beside, 5_000),
    ("apart", "50 gangs x 10 whose pods avoid each other, among 100,000 pods on 5,000 nodes", apart, 500),
    ("one-pod-jobs", "default plugins, 1,000 nodes, 10,000 one-pod jobs", one_pod_jobs, 2_000),
    ("one-pod-jobs-50", "the same in 50 classes", one_pod_jobs_many_classes, 2_000),
    ("elastic", "default plugins, 1,000 nodes, 20 x 500 with minMember 1", elastic_jobs, 5_000),
    ("classes", "10,000 nodes x 8 resources, 20,000 pods, 50 classes", many_classes, 100_000),
    ("topology", "3 tiers, 1,000 nodes, 100 hard gangs x 100 in leaves of 10", topology, 10_000),
    ("topology-tight", "the same, 20 x 500, no leaf but a block holds each", topology_tight, 10_000),
    ("topology-beside", "the same, 20 x 500 without topology fill up leaves", topology_beside, 10_000),
    ("unchanged", "nothing changed, 10,000 nodes, 100,000 pods", unchanged, 5),
    ("backlog", "full cluster, 2,000 one-pod jobs wait for room; one pod goes on", lambda: backlog("room"), 50),
    ("backlog-queue", "the same, they wait for their queue", lambda: backlog("queue"), 50),
    ("backlog-new", "2,000 one-pod jobs wait for room, and a job comes that fits", lambda: backlog("new"), 50),
    ("backlog-gangs", "2,000 gangs of 8 wait, of which 5 fit; one pod goes on", lambda: backlog("gangs"), 50),
    ("backlog-first", "2,000 one-pod jobs that do not fit are looked at first", lambda: backlog("first"), 500),
    ("preempt", "full cluster, 1,000 nodes, a gang of 200 preempts", lambda: evicting("preempt"), 50),
    ("reclaim", "full cluster, 1,000 nodes, a gang of 200 reclaims", lambda: evicting("reclaim"), 50),
    ("refused", "full cluster, 1,000 nodes, 500 jobs of 500 sizes may preempt nobody", lambda: refused(500), 500),
    ("cold-start", "5,000 nodes, 140,000 pods, 87,000 jobs to the first plan", cold_start, 15_000),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", type=argparse.FileType("a"), default=None, help="also write the results here; - is standard output"
    )
    parser.add_argument("--only", default="", help="run one benchmark")
    options = parser.parse_args()
    gc.set_threshold(50_000, 20, 50)  # as in every process that serves
    warm_up()
    results = []
    print(f"{'benchmark':<18} {'result':>14} {'bar':>12}   what")
    for name, what, run, bar in BENCHMARKS:
        if options.only and options.only != name:
            continue
        result = {"name": name, "what": what, "bar": bar, **run()}
        good = result["value"] <= bar if result["unit"] == "ms" else result["value"] >= bar
        print(
            f"{name:<18} {result['value']:>10,.1f} {result['unit']:<6} {bar:>8,.0f} {'ok' if good else 'LOW'}   {what}"
        )
        results.append(result)
    if options.json is not None:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        about = {"commit": commit, "cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        if options.json.seekable():
            options.json.truncate(0)  # what an earlier run wrote stayed until now
        options.json.write(json.dumps({**about, "results": results}, indent=1) + "\n")
        options.json.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
