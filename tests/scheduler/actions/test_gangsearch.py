"""What allocate says of gangs with a topology that it could not place."""

from __future__ import annotations

from tests.scheduler import worlds
from tests.scheduler.fabrics import TOPOLOGY, fabric, gang


def test_a_gang_that_runs_already_lacks_the_next_task() -> None:
    full = [worlds.pod(f"g-r-{i}", "g", memory="", phase="Running", nodeName="l0-0-n0") for i in range(2)]
    world = worlds.world(worlds.queue(), *fabric((1, 2, 1), cpu="2"), *gang("g", 1, 2, 1), *full)
    (verdict,) = [v for v in worlds.cycle(world, TOPOLOGY).verdicts["ns/g"] if v.code == "Topology"]
    assert verdict.text.endswith("l0-0 takes 0 of 1 tasks")
    assert verdict.numbers["missing"] == 1
