"""Which changes of a pod may make others schedulable, so that a cycle decides on them at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds


@pytest.mark.parametrize(
    ("before", "after", "opens"),
    [
        pytest.param("Pending", {"phase": "Running"}, False, id="a bound pod runs"),
        pytest.param("Running", {"phase": "Running"}, False, id="a pod runs on"),
        pytest.param("Running", {"phase": "Running", "leaving": True}, True, id="a pod is leaving"),
        pytest.param("Running", {"phase": "Succeeded"}, True, id="a pod has ended"),
    ],
)
def test_pods_open_what_they_will_hold_no_longer(before: str, after: dict[str, Any], opens: bool) -> None:
    world = worlds.world(worlds.node("n"), worlds.pod("p", nodeName="n", phase=before))
    openings = world.schedulable_generation
    worlds.feed(world, worlds.pod("p", nodeName="n", **after))
    assert (world.schedulable_generation > openings) == opens
