"""Gangs for which others were evicted go where that was, all together or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.actions.gangsearch import from_nomination
from strato.scheduler.actions.placing import Work
from tests.scheduler import worlds
from tests.scheduler.fabrics import fabric, gang
from tests.scheduler.plugins import asking

Json = dict[str, Any]
FIRST, SECOND, ELSEWHERE = "l0-0-n0", "l0-0-n1", "l0-1-n0"


@pytest.mark.parametrize(
    ("nominated", "cpu", "stands"),
    [
        pytest.param([SECOND, FIRST], "1", True, id="as was planned"),
        pytest.param([FIRST, FIRST], "2", True, id="two on one node, just fitting"),
        pytest.param([FIRST, FIRST], "3", False, id="two that do not fit together"),
        pytest.param([FIRST, ELSEWHERE], "1", False, id="one was planned for another domain"),
        pytest.param([FIRST, "gone"], "1", False, id="one was planned for a node that is gone"),
        pytest.param([FIRST, ""], "1", False, id="one was not planned for"),
    ],
)
def test_a_plan_is_kept_as_a_whole(nominated: list[str], cpu: str, stands: bool) -> None:
    waiting = gang("g", 2, 2, 1, cpu=cpu)
    for pod, node in zip(waiting[1:], nominated, strict=True):
        pod["status"]["nominatedNodeName"] = node
    world = worlds.world(worlds.queue(), *fabric((2, 2, 1)), *waiting)
    before = worlds.fingerprint(world)
    ssn = asking.session(world, "gang", "predicates", "network-topology-aware")
    tasks = [world.tasks[f"ns/g-t-{i}"] for i in range(2)]
    work, domain = Work(tasks), ssn.tree.names.index("l0-0")
    stmt = from_nomination(ssn, world.queues["default"], work, domain)
    if stands:
        assert stmt is not None
        assert [world.nodes.names[task.row] for task in tasks] == nominated
        assert not work
    else:
        assert stmt is None
        assert [task.nominated for task in tasks] == ["", ""], "the plan is void"
        assert bool(work)
        assert worlds.fingerprint(world) == before
