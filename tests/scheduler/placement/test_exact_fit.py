"""A node that is just full: what fits to the last unit, what asks for nothing of a resource that is used up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.rules.deciding import NOTHING, Json, decided, running
from tests.scheduler.worlds import group, node, pod, queue

GPU = "nvidia.com/gpu"


def gpus(count: str) -> Json:
    return {"resources": {GPU: count}}


FITS: list[Any] = [
    pytest.param([node("n1", cpu="1")], pod("p", "g"), True, id="to the last thousandth"),
    pytest.param([node("n1", cpu="999m")], pod("p", "g"), False, id="a thousandth less"),
    pytest.param([node("n1", memory="1Gi")], pod("p", "g"), True, id="to the last byte"),
    pytest.param([node("n1", memory="1073741823")], pod("p", "g"), False, id="a byte less"),
    pytest.param([node("n1", cpu="1"), running("r", "")], pod("p", "g", cpu=""), True, id="none asked of none left"),
    pytest.param([node("n1", cpu="1"), running("r", "")], pod("p", "g", cpu="1m"), False, id="some asked of none left"),
    pytest.param([node("n1", cpu="0")], pod("p", "g", cpu=""), True, id="a node without any"),
    pytest.param([node("n1", cpu="0", memory="0")], pod("p", "g", **NOTHING), True, id="nothing asked of nothing"),
    pytest.param([node("n1", pods="1")], pod("p", "g"), True, id="the last place for a pod"),
    pytest.param([node("n1", pods="0")], pod("p", "g"), False, id="no place for a pod"),
    pytest.param([node("n1", pods="1"), running("r", "")], pod("p", "g"), False, id="the only place is taken"),
    pytest.param([node("n1", **{GPU: 1})], pod("p", "g", **gpus("1")), True, id="the last GPU"),
    pytest.param([node("n1", **{GPU: 0})], pod("p", "g", **gpus("1")), False, id="no GPU"),
    pytest.param([node("n1")], pod("p", "g", **gpus("1")), False, id="GPUs are not known there"),
    pytest.param([node("n1")], pod("p", "g", **gpus("0")), True, id="no GPU is asked for"),
    pytest.param(
        [node("n1", **{GPU: 1}), running("r", "", **gpus("1"))],
        pod("p", "g"),
        True,
        id="GPUs are used up, none is asked",
    ),
    pytest.param(
        [node("n1", **{GPU: 1}), running("r", "", **gpus("1"))],
        pod("p", "g", **gpus("1")),
        False,
        id="the GPU is taken",
    ),
]


@pytest.mark.parametrize(("objects", "waiting", "fits"), FITS)
def test_a_pod_and_a_node(objects: list[Json], waiting: Json, fits: bool) -> None:
    tiers: list[Any] = [["gang"], ["predicates", "nodeorder"]]
    found = decided("allocate, backfill", tiers, queue(), group("g", 1), *objects, waiting)
    assert found.binds == ({"p": "n1"} if fits else {})


def test_a_gang_fits_to_the_last_unit_or_not_at_all() -> None:
    tiers: list[Any] = [["gang"], ["predicates"]]
    for cpu, bound in (("3", 3), ("2999m", 0)):
        pods = [pod(f"p{at}", "g") for at in range(3)]
        assert len(decided("allocate", tiers, queue(), group("g", 3), node("n1", cpu=cpu), *pods).binds) == bound
    assert worlds.binds(worlds.cycle(worlds.world(queue(), group("g", 1), node("n1", cpu="1"), pod("p", "g")))) == {
        "ns/p": "n1"
    }
