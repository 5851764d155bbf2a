"""Where a job's tasks are counted: the first node, the first domain, tasks that have no place."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from strato.scheduler.topology.domains import members
from tests.scheduler import worlds
from tests.scheduler.fabrics import fabric
from tests.scheduler.plugins import asking
from tests.scheduler.rules.deciding import running

LEAVES = ["l0-0", "l0-1"]


@pytest.mark.parametrize(
    ("places", "want"),
    [
        (["l0-0-n0"], {"l0-0": 1, "l0-1": 0, "b0": 1}),
        (["l0-0-n0", "l0-0-n1"], {"l0-0": 2, "l0-1": 0, "b0": 2}),
        (["l0-0-n0", "l0-1-n1"], {"l0-0": 1, "l0-1": 1, "b0": 2}),
        (["l0-1-n0", ""], {"l0-0": 0, "l0-1": 1, "b0": 1}),
        ([""], {"l0-0": 0, "l0-1": 0, "b0": 0}),
    ],
)
def test_tasks_are_counted_in_every_domain_around_their_node(places: list[str], want: dict[str, int]) -> None:
    pods = [running(f"p{at}", "g", place) if place else worlds.pod(f"p{at}", "g") for at, place in enumerate(places)]
    world = worlds.world(*fabric((2, 2, 1)), worlds.queue(), worlds.group("g", 1), *pods)
    tree = asking.session(world, "gang").tree
    assert world.nodes.row_of["l0-0-n0"] == 0
    counted = members(tree, SimpleNamespace(tasks=world.jobs["ns/g"].tasks))  # type: ignore[arg-type]  # looks at its tasks only
    assert {name: int(counted[tree.names.index(name)]) for name in want} == want
