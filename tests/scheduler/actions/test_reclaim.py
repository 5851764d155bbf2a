"""reclaim: from whom it takes."""

from __future__ import annotations

from tests.scheduler.rules.deciding import Tier, decided, many, running
from tests.scheduler.worlds import group, node, queue

TIERS: list[Tier] = [["priority", {"name": "gang", "enableReclaimable": False}], ["predicates", "proportion"]]


def test_a_pod_whose_group_is_not_known_yet_stays() -> None:
    borrowed = (queue("x"), group("b", 0, queue="x", phase="Running"), *many(3, "b", "b"))
    wants = (queue("y"), group("w", 1, queue="y"), *many(2, "w", "w", waiting=True))
    unknown = running("a", "unknown")
    assert decided("reclaim", TIERS, node("n1", cpu="4"), unknown, *borrowed, *wants).evicted == ["b1"]
