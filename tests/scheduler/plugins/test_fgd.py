"""fgd: GPUs card by card, scored by what stays usable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.scheduler.cache.world import World
from strato.scheduler.plugins import fgdkernels as kernels
from strato.scheduler.plugins.fgd import POLICIES
from strato.scheduler.plugins.fgdworkload import Typical, accepts, arranged, most_frequent, read_workload
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

PRE = "volcano.sh/"
INDEX = PRE + "gpu-index"
MODEL = "nvidia.com/gpu.product"


def fgd(policy: str = "fragmentation", **arguments: Any) -> dict[str, Any]:
    return {"name": "fgd", "arguments": {"fgd.policy": policy} | {f"fgd.{k}": v for k, v in arguments.items()}}


def gpus(name: str, cards: int, *, cpu: str = "64", model: str = "", unit: int = 1000) -> dict[str, Any]:
    offer = {PRE + "gpu-memory": cards * unit, PRE + "gpu-number": cards} if cards else {}
    made = worlds.node(name, cpu=cpu, memory="512Gi", **offer)
    if model:
        made["metadata"]["labels"] = {**made["metadata"].get("labels", {}), MODEL: model}
    return made


def pod(
    name: str, group: str = "g", *, cpu: str = "1", share: int = 0, whole: int = 0, on: str = "", cards: str = "",
    models: str = "", resource: str = PRE + "gpu-number",
) -> dict[str, Any]:  # fmt: skip
    where = {"phase": "Running", "nodeName": on} if on else {}
    amounts = {PRE + "gpu-memory": str(share)} if share else {resource: str(whole)} if whole else {}
    notes = {INDEX: cards} if cards else {}
    if models:
        notes["nvidia.com/use-gputype"] = models
    made = worlds.pod(name, group, cpu=cpu, resources=amounts, annotations=notes, **where)
    made["spec"]["containers"][0]["resources"]["limits"] = amounts
    return made


def chosen(world: World, plugin: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Run a cycle; return by pod the node and the cards it got."""
    plan = worlds.cycle(world, asking.config(plugin, {"name": "gang"}))
    return {b.task.name: (b.node, (b.task.bind_annotations() or {}).get(INDEX, "")) for b in plan.binds}


def world_of(*objects: dict[str, Any]) -> World:
    return worlds.world(worlds.queue(), worlds.group("g", 0), *objects)


HALF = [{"gpus": 1, "share": 500, "cpu": "1"}]
WHOLE = [{"gpus": 1, "cpu": "1"}]

PLACES = [
    pytest.param(
        fgd(workload=WHOLE), [gpus("a", 2), gpus("b", 2)], [pod("old", on="b", share=500, cards="1")],
        pod("p", share=500), ("b", "1"), id="a broken card is filled before a whole one is broken",
    ),
    pytest.param(
        fgd(workload=WHOLE), [gpus("a", 1, cpu="2"), gpus("b", 1)], [],
        pod("p", cpu="2"), ("b", ""), id="a pod without GPUs leaves them the cpu they need",
    ),
    pytest.param(
        fgd(workload=HALF), [gpus("a", 1), gpus("b", 1)], [pod("old", on="b", share=600, cards="0")],
        pod("p", share=300), ("b", "0"), id="what nobody can use any more is used up",
    ),
    pytest.param(
        fgd("best-fit"), [gpus("a", 4), gpus("b", 2)], [], pod("p", whole=1), ("b", "0"), id="the tightest node",
    ),
    pytest.param(
        fgd("packing"), [gpus("a", 2), gpus("b", 2)], [pod("old", on="b", share=500, cards="1")],
        pod("p", share=200), ("b", "1"), id="used cards before idle ones",
    ),
    pytest.param(
        fgd("packing"), [gpus("a", 2), gpus("b", 2)], [pod("old", on="b", share=500, cards="1")],
        pod("p", whole=1), ("b", "0"), id="used nodes before idle ones",
    ),
    pytest.param(
        fgd("clustering"), [gpus("a", 4), gpus("b", 4), gpus("c", 4)],
        [pod("one", on="b", whole=1, cards="0"), pod("part", on="c", share=100, cards="0")],
        pod("p", share=100), ("c", "0"), id="beside pods of its own kind",
    ),
    pytest.param(
        fgd("dot-product"), [gpus("a", 8), gpus("b", 1)], [], pod("p", whole=1), ("b", "0"), id="least aligned",
    ),
    pytest.param(
        fgd("best-fit"), [gpus("a", 2, model="T4"), gpus("b", 8, model="V100M32")], [],
        pod("p", whole=1, models="V100M16, V100M32"), ("b", "0"), id="of a model that it accepts",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "nodes", "there", "new", "want"), PLACES)
def test_policies_choose_node_and_card(
    plugin: dict[str, Any], nodes: list[Any], there: list[Any], new: dict[str, Any], want: tuple[str, str]
) -> None:
    assert chosen(world_of(*nodes, *there, new), plugin) == {"p": want}


def test_random_is_seeded_and_uses_every_card() -> None:
    nodes = [gpus("a", 4), gpus("b", 4)]
    pods = [pod(f"p{i}", share=1000) for i in range(8)]
    first, second = (chosen(world_of(*nodes, *pods), fgd("random")) for _ in range(2))
    assert first == second
    assert sorted(first.values()) == [(node, str(card)) for node in "ab" for card in range(4)]


REFUSED = [
    pytest.param(pod("p", share=600), "too few idle GPUs, or too little of one, on node", True, id="no card with room"),
    pytest.param(pod("p", whole=2), "too few idle GPUs, or too little of one, on node", True, id="too few idle cards"),
    pytest.param(
        pod("p", share=100, models="A100"), "node has no GPU of a model that the pod accepts", False, id="model"
    ),
]


@pytest.mark.parametrize(("new", "text", "curable"), REFUSED)
def test_refusals_say_why(new: dict[str, Any], text: str, curable: bool) -> None:
    there = [pod("x", on="n", share=500, cards="0"), pod("y", on="n", share=500, cards="1")]
    ssn = asking.session(world_of(gpus("n", 2, model="T4"), *there, new), fgd())
    assert asking.refusals(ssn, "p")["n"] == (text, curable)


def test_cards_of_other_sizes_count_by_their_memory() -> None:
    """A share is memory of the card: 8 of 16 is half of one card and a quarter of another."""
    pods = [pod(f"p{i}", share=8) for i in range(7)]
    got = chosen(world_of(gpus("a", 1, unit=16), gpus("b", 1, unit=32), *pods), fgd("best-fit"))
    assert sorted(node for node, _ in got.values()) == ["a"] * 2 + ["b"] * 4


def test_whole_cards_of_a_vendor_are_not_numbered() -> None:
    nodes = [worlds.node("a", cpu="9", **{"nvidia.com/gpu": 2}), worlds.node("b", cpu="9", **{"nvidia.com/gpu": 4})]
    there = pod("old", on="b", whole=3, resource="nvidia.com/gpu")
    new = pod("p", whole=1, resource="nvidia.com/gpu")
    assert chosen(world_of(*nodes, there, new), fgd("packing")) == {"p": ("b", "")}


def test_finished_and_evicted_pods_free_their_cards() -> None:
    done = pod("done", on="n", share=1000, cards="0") | {"status": {"phase": "Succeeded"}}
    assert chosen(world_of(gpus("n", 1), done, pod("p", share=1000)), fgd()) == {"p": ("n", "0")}


def test_without_a_workload_the_pods_that_are_there_are_typical() -> None:
    """All known pods use whole GPUs, so that a broken card is worthless and is filled."""
    whole = [pod(f"w{i}", whole=1) for i in range(3)]
    broken = pod("old", on="b", share=500, cards="0")
    got = chosen(world_of(gpus("a", 4), gpus("b", 4), broken, *whole, pod("p", share=400)), fgd())
    assert got["p"] == ("b", "0")


WRONG = [
    ({"fgd.policy": "tight"}, "fgd.policy", "'tight' is none of"),
    ({"fgd.workload": 3}, "fgd.workload", "3 is not a list"),
    ({"fgd.workload": [{"gpus": 2, "share": 500}]}, "fgd.workload[0].share", "a share is of one card, not of 2"),
    ({"fgd.workload": [{"cpu": "x"}]}, "fgd.workload[0].cpu", "'x' is not an amount of cpu"),
    ({"fgd.workload": [{"gpu": 1}]}, "fgd.workload[0].gpu", "no such argument"),
]


@pytest.mark.parametrize(("arguments", "where", "message"), WRONG)
def test_wrong_arguments_are_named(arguments: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        asking.config({"name": "fgd", "arguments": arguments})
    assert any(p.where.endswith(where) and message in p.message for p in caught.value.problems)


def test_typical_pods_are_the_most_frequent() -> None:
    kinds = [
        Typical(cpu_millicores=1, count=90),
        Typical(cpu_millicores=2, count=6),
        Typical(cpu_millicores=3, count=4),
    ]
    assert [pod.cpu_millicores for pod in most_frequent(kinds, 95)] == [1, 2]
    assert [pod.cpu_millicores for pod in most_frequent(kinds, 100)] == [1, 2, 3]


def test_models_match_by_part_of_the_name() -> None:
    assert accepts("", "T4")
    assert accepts("a100, t4", "NVIDIA-T4")
    assert not accepts("A100", "")


def test_a_workload_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 4096"):
        read_workload([{}] * 4097)


# -- the kernels against the definition --------------------------------------------------------------------------------

PODS = st.builds(
    lambda cpu, cards, share, count: Typical(
        cpu_millicores=cpu, cards=cards, share=share if cards == 1 else 1000, count=count
    ),
    st.sampled_from([0, 1000, 4000, 8000]),
    st.sampled_from([0, 1, 1, 1, 2, 4]),
    st.sampled_from([100, 250, 500, 1000]),
    st.integers(1, 5),
)
LEFT = st.lists(st.sampled_from([-1, 0, 100, 300, 500, 900, 1000]), min_size=1, max_size=8)


def fragments_by_definition(left: list[int], cpu: int, typical: list[Typical]) -> float:
    """Section 4.1 of the paper, word by word."""
    there = [card for card in left if card > 0]
    total, lost = sum(pod.count for pod in typical), 0.0
    for pod in typical:
        fits = pod.cards > 0 and cpu >= pod.cpu_millicores and sum(c >= pod.share for c in there) >= pod.cards
        lost += pod.count / total * sum(c for c in there if not fits or c < pod.share)
    return lost


@given(LEFT, st.integers(0, 9000), st.lists(PODS, min_size=1, max_size=6))
def test_fragments_follow_the_definition(left: list[int], cpu: int, typical: list[Typical]) -> None:
    got = kernels.fragments_of(np.array(left), cpu, 0, arranged(typical, ("",)))
    assert math.isclose(got, fragments_by_definition(left, cpu, typical), abs_tol=1e-6)


@given(LEFT, st.integers(1, 1000), st.integers(1000, 9000), st.lists(PODS, min_size=1, max_size=6))
def test_the_card_given_is_the_best_one(left: list[int], share: int, cpu: int, typical: list[Typical]) -> None:
    workload = arranged(typical, ("",))
    state = kernels.NodeArrays(
        np.array([left]), np.array([1000]), np.array([0]), np.zeros((1, len(left) + 1), np.int64), np.zeros(1)
    )
    kernels.refresh(np.array([0]), np.array([cpu]), state, workload)
    ask = kernels.PodRequest(1000, share, 0)
    card = kernels.card_for_share(kernels.FRAGMENTATION, ask, 0, cpu, state, workload)
    out = np.zeros(1, np.int64)
    kernels.judge(kernels.FRAGMENTATION, np.array([0]), ask, np.array([cpu]), state, workload, 9000, 8, out)
    points = {}
    for at, free in enumerate(left):
        if free >= share:
            after = [c - share * (at == n) for n, c in enumerate(left)]
            change = fragments_by_definition(left, cpu, typical) - fragments_by_definition(after, cpu - 1000, typical)
            points[at] = 100.0 / (1.0 + math.exp(-change / 1000))
    if not points:
        assert card == -1
        assert out[0] == -1
    else:
        assert points[card] >= max(points.values()) - 1.0 - 1e-6  # whole points
        assert abs(out[0] - max(points.values())) < 1.0 + 1e-6
    assert state.left[0].tolist() == left


@given(st.lists(st.sampled_from([100, 300, 500, 1000]), min_size=1, max_size=25), st.sampled_from(sorted(POLICIES)))
def test_no_card_is_given_away_twice(shares: list[int], policy: str) -> None:
    pods = [pod(f"p{i}", share=share, cpu="1m") for i, share in enumerate(shares)]
    got = chosen(world_of(gpus("a", 2), gpus("b", 3), *pods), fgd(policy))
    held: dict[tuple[str, str], int] = {}
    for name, place in got.items():
        held[place] = held.get(place, 0) + shares[int(name[1:])]
    assert all(amount <= 1000 for amount in held.values())
    if len(got) < len(shares):
        least = min(share for i, share in enumerate(shares) if f"p{i}" not in got)
        every = {(n, str(c)) for n, cards in (("a", 2), ("b", 3)) for c in range(cards)}
        assert all(held.get(place, 0) + least > 1000 for place in every)


@pytest.mark.parametrize("asked", [{"share": 10**40}, {"whole": 10**40}, {"cpu": "9e15", "share": 10}])
def test_a_pod_that_asks_for_more_than_there_can_be_waits(asked: dict[str, Any]) -> None:
    assert chosen(world_of(gpus("n", 2), pod("p", **asked), pod("q", share=500)), fgd()) == {"q": ("n", "0")}


def test_a_node_that_says_its_cards_have_any_memory_at_all_costs_none() -> None:
    odd = gpus("odd", 3)
    odd["status"]["allocatable"][PRE + "gpu-memory"] = "9E"
    world = world_of(gpus("n", 2), odd, pod("p", share=500))
    assert chosen(world, fgd())["p"][0] == "n"
    # so many more that the typical pods are counted again, now with the cards of nodes
    worlds.feed(world, *(pod(name, share=500) for name in "abcd"))
    assert chosen(world, fgd()).keys() == {"a", "b", "c", "d"}


def test_cards_beyond_one_that_is_ill_are_given() -> None:
    ill = gpus("n", 3)
    ill["metadata"].setdefault("annotations", {})[PRE + "gpu-unhealthy-ids"] = "0,1"
    assert chosen(world_of(ill, pod("p", share=500)), fgd()) == {"p": ("n", "2")}
