"""A busy hour on a small cluster, recorded: gangs, preemption, a drained node, another configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from strato.api.core import Node
from strato.clock import VirtualClock, run_virtual
from strato.scheduler.config import parse_config
from strato.sim.recording.recorder import Hiding, LogRecorder
from strato.sim.recording.segments import LogFiles
from strato.testing.harness import Harness
from strato.testing.manifests import vcjob
from strato.testing.scenes import cluster

START = 1_700_000_000.0

PREEMPTING = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
PACKING = PREEMPTING.replace("nodeorder", "binpack")
NEVER_PREEMPTING = PREEMPTING.replace("preempt, reclaim, ", "")

SCENE = cluster().priority_class("high", 1000).priority_class("low", 1).queue("a").queue("b", weight=3)


async def busy_hour(h: Harness, seed: int = 0) -> None:
    """Submit, drain, reload and wait."""
    chance = Random(seed)
    for number in range(30):
        priority = "high" if number % 7 == 3 else "low"
        size = chance.choice((1, 1, 2, 3, 5))
        job = vcjob(f"job-{number}", queue=chance.choice("ab"), min_available=size, priority_class=priority)
        cpu = chance.choice(("500m", "1", "2"))
        await h.apply(job.task("worker", size, cpu=cpu, run_seconds=chance.choice((20, 60, 300))))
        await h.clock.sleep(chance.choice((0.0, 0.01, 3.0, 20.0)))
        if number == 10:
            await h.cluster.patch(Node, "node-1", "", {"spec": {"unschedulable": True}})
            for pod in h.pods():
                if pod.spec.node_name == "node-1":
                    await h.cluster.delete(type(pod), pod.metadata.name, pod.metadata.namespace)
        if number == 15 and h.world.scheduler is not None:
            h.world.scheduler._reconfigure(parse_config(PACKING))
        if number == 20:
            await h.cluster.patch(Node, "node-1", "", {"spec": {"unschedulable": None}})
    await h.clock.sleep(1200.0)


def record(
    log: Path,
    story: Callable[[Harness], Awaitable[None]] = busy_hour,
    *,
    seed: int = 0,
    nodes: str = "4x4cpu,16Gi",
    config: str = PREEMPTING,
    hiding: Hiding | None = None,
    snapshot_bytes: int = 16 << 20,
    file_bytes: int = 256 << 20,
    keep: int = 0,
) -> None:
    """Play a story in virtual time and write what the scheduler's journal says of it."""
    clock = VirtualClock(START)
    files = LogFiles(log, file_bytes=file_bytes, keep=keep)
    recorder = LogRecorder(files, clock, hiding=hiding, snapshot_bytes=snapshot_bytes)

    async def main() -> None:
        h = Harness(SCENE, nodes=nodes, clock=clock, seed=seed, scheduler_config=config)
        h.world.options = replace(h.world.options, journal=recorder)
        async with h:
            await story(h)

    run_virtual(clock, main())
    assert not recorder.failure
    recorder.close()
