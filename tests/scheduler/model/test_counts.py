"""Minima by role: which of a gang's tasks count towards them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds

PLACED: dict[str, Any] = {"nodeName": "n", "phase": "Running"}


def of_role(name: str, **more: Any) -> dict[str, Any]:
    return worlds.pod(name, "g", annotations={"volcano.sh/task-spec": "w"}, **more)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        pytest.param({**PLACED}, True, id="runs"),
        pytest.param({**PLACED, "phase": "Pending"}, True, id="is bound"),
        pytest.param({**PLACED, "phase": "Succeeded"}, True, id="has ended well"),
        pytest.param({**PLACED, "phase": "Failed"}, False, id="has failed"),
        pytest.param({**PLACED, "leaving": True}, False, id="is leaving"),
        pytest.param({"cpu": "", "memory": ""}, True, id="waits, and asks for nothing"),
        pytest.param({"cpu": "8"}, False, id="waits, and fits nowhere"),
    ],
)
def test_a_task_of_a_role_is_placed_when_another_one_makes_up_its_minimum(other: dict[str, Any], counts: bool) -> None:
    group = worlds.group("g", 2, minTaskMember={"w": 2})
    world = worlds.world(worlds.queue(), worlds.node("n"), group, of_role("other", **other), of_role("waits"))
    assert ("ns/waits" in worlds.binds(worlds.cycle(world))) == counts
