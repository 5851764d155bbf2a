"""How the scheduler's cost grows: with nodes, with pods and with classes, each alone; `python -m benchmarks.curves`.

Decision only, as `benchmarks.scheduler`, in CPU time. Per point: the cycle that places everything, a cycle in which
nothing changed, and a cycle for one pod that came since. ``--quick`` leaves out the million pods, ``--curve`` the other
curves; its results are those of this curve alone.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.report import check_writable, publish
from benchmarks.scheduler import build
from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup
from strato.scheduler.cache.world import World
from strato.scheduler.config import default_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.placement.placer import Placer, warm_up

NODES = (100, 300, 1000, 3000, 10_000)
PODS = (1000, 10_000, 100_000, 1_000_000)
CLASSES = (1, 10, 100, 1000, 5000)
GANG = 50
REPEATS = 9


def decide(world: World, config: Config, placer: Placer) -> tuple[int, float]:
    """Run a cycle; return how many pods it bound and its CPU seconds."""
    began = time.process_time()
    plan = run_cycle(world, config, now=1e9, rng=random.Random(1), placer=placer)
    return len(plan.binds), time.process_time() - began


def one_more(world: World, number: int) -> None:
    """Let one pod of a known class come."""
    meta = {"name": f"late-{number}", "namespace": "bench", "uid": f"late-{number}"}
    group = {"metadata": meta, "spec": {"minMember": 1, "queue": "q0"}, "status": {"phase": "Inqueue"}}
    world.set_group(msgspec.convert(group, PodGroup))
    like = next(iter(world.tasks.values())).pod
    annotations = {"scheduling.k8s.io/group-name": f"late-{number}"}
    view = {"metadata": {**meta, "annotations": annotations}, "status": {"phase": "Pending"}}
    pod = msgspec.convert(view, Pod)
    spec = msgspec.structs.replace(like.spec, node_name="")
    world.set_pod(msgspec.structs.replace(pod, spec=spec))


def point(curve: str, value: int, nodes: int, pods: int, classes: int) -> dict[str, object]:
    """Measure one point of a curve."""
    size = min(GANG, max(1, pods // classes))
    world = build(nodes, pods // size, size, classes=classes, step=1)
    placer, config = Placer(world.nodes), default_config()
    gc.collect()
    gc.freeze()
    placed, seconds = decide(world, config, placer)
    while decide(world, config, placer)[0]:
        pass
    idle = min(decide(world, config, placer)[1] for _ in range(REPEATS))
    single = []
    for number in range(REPEATS):
        one_more(world, number)
        bound, took = decide(world, config, placer)
        assert bound == 1, f"{bound} pods were bound where one had come"
        single.append(took)
    gc.unfreeze()
    return {
        "curve": curve,
        "value": value,
        "nodes": nodes,
        "pods": pods,
        "classes": classes,
        "bound": placed,
        "all ms": seconds * 1000,
        "us per pod": seconds / placed * 1e6,
        "unchanged ms": idle * 1000,
        "one pod ms": min(single) * 1000,
        "memory GiB": resident_gib(),
    }


def resident_gib() -> float:
    """Return the memory that this process, and with it the world, takes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


def main() -> int:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="up to 100,000 pods")
    parser.add_argument("--curve", choices=("nodes", "classes", "pods"), help="only this one; default is all three")
    chosen = parser.parse_args()
    check_writable()
    warm_up()
    points = [("nodes", n, n, 5000, 10) for n in NODES]
    points += [("classes", n, 1000, 10_000, n) for n in CLASSES]
    points += [("pods", n, 10_000, n, 10) for n in PODS if not chosen.quick or n <= 100_000]
    rows = [point(*values) for values in points if chosen.curve in (None, values[0])]
    publish(
        f"curves-{chosen.curve}" if chosen.curve else "curves",
        rows,
        "CPU time; each curve varies one number and keeps the other two.",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
