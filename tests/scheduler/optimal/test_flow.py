"""The action `flow`: one optimum for all that waits, under the session's rules."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.graph.python import min_cost_flow

from strato.mincost.kernels import paths, scaling
from strato.scheduler.config import parse_config
from strato.scheduler.cycle import decide
from strato.scheduler.optimal.kernels import trim
from strato.scheduler.optimal.loading import load
from strato.scheduler.optimal.plan import SCALE, FittingRows, FlowPlan, LoadPenalty, WaitingTasks, _waiting
from strato.scheduler.placement.placer import Placer
from tests.scheduler import worlds

FLOW = """
actions: "enqueue, flow, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
ALLOCATE = FLOW.replace("flow", "allocate")


def plan_for(*objects: dict[str, Any], config: str = FLOW) -> Any:
    world = worlds.world(worlds.queue(), *objects)
    plan = worlds.cycle(world, config)
    worlds.check_invariants(world)
    return plan


def test_flow_finds_the_placement_greed_spoils() -> None:
    """The picky pod comes last; whoever takes its node first, by score alone, leaves it without one."""
    nodes = [worlds.node("big", cpu="4", labels={"disk": "ssd"}), worlds.node("small", cpu="2")]
    easy = [worlds.group("easy", 1), worlds.pod("easy-0", "easy", cpu="2")]
    picky = [worlds.group("picky", 1), worlds.pod("picky-0", "picky", cpu="4", nodeSelector={"disk": "ssd"})]
    assert worlds.binds(plan_for(*nodes, *easy, *picky, config=ALLOCATE)) == {"ns/easy-0": "big"}
    assert worlds.binds(plan_for(*nodes, *easy, *picky)) == {"ns/easy-0": "small", "ns/picky-0": "big"}


def test_a_gang_that_does_not_fit_is_dropped_and_its_room_given_to_others() -> None:
    nodes = [worlds.node(f"n{i}", cpu="2") for i in range(2)]
    large = [worlds.group("large", 5), *(worlds.pod(f"large-{i}", "large") for i in range(5))]
    little = [worlds.group("little", 3), *(worlds.pod(f"little-{i}", "little") for i in range(3))]
    plan = plan_for(*nodes, *large, *little)
    assert sorted(worlds.binds(plan)) == ["ns/little-0", "ns/little-1", "ns/little-2"]


def test_what_is_scarce_goes_to_the_higher_priority() -> None:
    classes = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    low = [worlds.group("a", 1), worlds.pod("a-0", "a", cpu="2")]
    high = [worlds.group("b", 1, priorityClassName="high"), worlds.pod("b-0", "b", cpu="2")]
    assert worlds.binds(plan_for(*classes, worlds.node("n", cpu="2"), *low, *high)) == {"ns/b-0": "n"}


def test_every_dimension_is_checked_by_the_real_vectors() -> None:
    """Each class alone fits three times; six together would overdraw both cpu and memory."""
    nodes = [worlds.node("n", cpu="6", memory="6Gi")]
    cpus = [worlds.group("c", 0), *(worlds.pod(f"c-{i}", "c", cpu="2", memory="1Gi") for i in range(3))]
    memory = [worlds.group("m", 0), *(worlds.pod(f"m-{i}", "m", cpu="1", memory="2Gi") for i in range(3))]
    assert len(worlds.binds(plan_for(*nodes, *cpus, *memory))) == 4


def test_a_quota_holds() -> None:
    world = worlds.world(
        worlds.queue("q0", weight=1, capability={"cpu": "2"}),
        worlds.queue("q1", weight=1),
        worlds.node("n", cpu="8"),
        worlds.group("g", 1, queue="q0"),
        *(worlds.pod(f"g-{i}", "g", memory="") for i in range(6)),
    )
    assert len(worlds.cycle(world, FLOW).binds) == 2


def test_a_burst_spreads_where_the_score_wants_it_to() -> None:
    nodes = [worlds.node(f"n{i}", cpu="8") for i in range(4)]
    burst = [worlds.group("g", 8), *(worlds.pod(f"g-{i}", "g") for i in range(8))]
    placed = list(worlds.binds(plan_for(*nodes, *burst)).values())
    assert sorted(placed.count(f"n{i}") for i in range(4)) == [2, 2, 2, 2]


@pytest.mark.parametrize("name", ["poseidon", "volcano"])
def test_pods_of_poseidon_are_placed_by_flow_under_allocate(name: str) -> None:
    pods = [worlds.pod(f"p{i}", scheduler=name) for i in range(3)]
    grouped = [worlds.group("g", 1), worlds.pod("g-0", "g", scheduler=name)]
    plan = plan_for(worlds.node("n", cpu="8"), *pods, *grouped, config=ALLOCATE)
    assert set(plan.choices) == ({"ns/p0", "ns/p1", "ns/p2", "ns/g-0"} if name == "poseidon" else set())


def test_a_placement_says_which_arcs_and_prices_decided() -> None:
    nodes = [worlds.node("a", cpu="4"), worlds.node("b", cpu="8")]
    plan = plan_for(*nodes, worlds.group("g", 1), worlds.pod("g-0", "g", cpu="2"))
    text = str(plan.choices["ns/g-0"])
    assert worlds.binds(plan) == {"ns/g-0": "b"}
    assert text.startswith("flow: place 0 + load 0 + scarcity 0; next a at ")
    assert "; waiting " in text


def test_a_waiting_job_says_what_it_would_pay() -> None:
    gang = [worlds.group("g", 3), *(worlds.pod(f"g-{i}", "g", cpu="2") for i in range(3))]
    plan = plan_for(worlds.node("n", cpu="4"), *gang)
    said = {v.plugin: v for v in plan.verdicts["ns/g"]}
    assert not plan.binds
    assert said["flow"].numbers["waiting"] > said["flow"].numbers["place"]


# -- the plan itself ---------------------------------------------------------------------------------------------------


def some_plan(rng: random.Random) -> tuple[list[WaitingTasks], list[FittingRows], LoadPenalty, Any]:
    rows, classes = rng.randint(1, 8), rng.randint(1, 3)
    offers = []
    for _ in range(classes):
        chosen = np.array(sorted(rng.sample(range(rows), rng.randint(1, rows))), np.int64)
        score = np.array([float(rng.choice([0, 10, 10, 50])) for _ in chosen])
        offers.append(FittingRows(chosen, score, np.array([rng.randint(1, 3) for _ in chosen], np.int64)))
    asks = [
        WaitingTasks(rng.randrange(classes), n := rng.randint(1, 5), rng.randint(0, n), rank)
        for rank in range(rng.randint(1, 5))
    ]
    steps = np.cumsum([[0.0] * rows, [rng.choice([0.0, 3.0])] * rows, [rng.choice([0.0, 5.0])] * rows], axis=0)
    return (
        asks,
        offers,
        LoadPenalty(np.array([0, 1, 2], np.int64), steps),
        np.array([rng.randint(0, 4) for _ in range(rows)]),
    )


def unlimited(offers: list[FittingRows], slots: Any) -> tuple[Any, Any]:
    """Requests and room that no vector limits."""
    return np.zeros((len(offers), 1), np.int64), np.ones((len(slots), 1), np.int64)


def oracle(asks: list[WaitingTasks], offers: list[FittingRows], load: LoadPenalty, slots: Any) -> int:
    """The same problem, one node per ask and row, nothing merged or left out, by another solver."""
    rows = len(slots)
    most_room = np.zeros(rows, np.int64)
    for offer in offers:
        most_room[offer.rows] = np.maximum(most_room[offer.rows], offer.room)
    slots = np.minimum(slots, most_room)  # a row takes no more tasks than of the class it takes most of
    best = [offer.score.max() for offer in offers]
    price = [np.rint((b - offer.score) * SCALE).astype(int) for b, offer in zip(best, offers, strict=True)]
    steps = np.rint(load.points * SCALE).astype(int)
    used = np.unique(np.concatenate([offer.rows for offer in offers]))
    spread = int(max(p.max() for p in price) + steps[:, used].max()) + 1
    ask, cost, room = _waiting(asks, spread)
    solver = min_cost_flow.SimpleMinCostFlow()
    sink = len(asks) + len(offers) * rows + rows
    for i, a in enumerate(asks):
        for row, p in zip(offers[a.offer].rows.tolist(), price[a.offer].tolist(), strict=True):
            solver.add_arc_with_capacity_and_unit_cost(i, len(asks) + a.offer * rows + row, a.size, p)
        solver.set_node_supply(i, a.size)
    for c, offer in enumerate(offers):
        for row, most in zip(offer.rows.tolist(), offer.room.tolist(), strict=True):
            node = len(asks) + len(offers) * rows + row
            solver.add_arc_with_capacity_and_unit_cost(len(asks) + c * rows + row, node, most, 0)
    for row in range(rows):
        for level in range(3):
            width = 1 if level < 2 else 1000
            most = max(0, min(width, int(slots[row]) - int(load.begins[level])))
            node = len(asks) + len(offers) * rows + row
            solver.add_arc_with_capacity_and_unit_cost(node, sink, most, int(steps[level, row]))
    for i, c, r in zip(ask.tolist(), cost.tolist(), room.tolist(), strict=True):
        solver.add_arc_with_capacity_and_unit_cost(i, sink, r, c)
    solver.set_node_supply(sink, -sum(a.size for a in asks))
    assert solver.solve() == solver.OPTIMAL
    return int(solver.optimal_cost())


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_the_merged_plan_is_the_optimum_of_the_whole_and_deals_out_within_bounds(seed: int) -> None:
    asks, offers, load, slots = some_plan(random.Random(seed))
    plan = FlowPlan(asks, offers, load, slots)
    placed = plan.solve()
    assert plan.network.objective == oracle(asks, offers, load, slots)
    per_row = np.zeros(len(slots), np.int64)
    per_class = [np.zeros(len(slots), np.int64) for _ in offers]
    for ask, share, count in zip(asks, plan.shares(*unlimited(offers, slots)), placed.tolist(), strict=True):
        assert share.counts.sum() == count <= ask.size
        np.add.at(per_row, share.rows, share.counts)
        np.add.at(per_class[ask.offer], share.rows, share.counts)
    assert (per_row <= slots).all()
    for offer, counts in zip(offers, per_class, strict=True):
        assert (counts[offer.rows] <= offer.room).all()
        assert counts.sum() == counts[offer.rows].sum()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_dropping_warm_is_leaving_out_from_the_start(seed: int) -> None:
    rng = random.Random(seed)
    asks, offers, load, slots = some_plan(rng)
    plan = FlowPlan(asks, offers, load, slots)
    plan.solve()
    gone = rng.randrange(len(asks))
    plan.drop([gone])
    assert plan.solve()[gone] == 0


def test_nothing_is_undone_wrongly_when_the_session_stays_open() -> None:
    world = worlds.world(
        worlds.queue(), worlds.node("n"), worlds.group("g", 3), *(worlds.pod(f"g-{i}", "g") for i in range(5))
    )
    ssn = decide(world, parse_config(FLOW), now=0.0, rng=random.Random(0), uid="u", placer=Placer(world.nodes))
    assert len(ssn.plan.binds) == 4


@pytest.mark.parametrize("config", [FLOW, ALLOCATE], ids=["configured", "asked for by a pod"])
def test_allocate_places_while_kernels_are_loaded(config: str) -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="8"), worlds.pod("p", scheduler="poseidon"))
    world.flow_loaded = False
    plan = worlds.cycle(world, config)
    assert worlds.binds(plan) == {"ns/p": "n"}
    assert not plan.choices
    assert world.flow_wanted


def test_what_a_cycle_uses_is_loaded_before() -> None:
    load()
    known = {kernel: len(kernel.signatures) for kernel in (trim, paths.solve, scaling.solve)}
    assert all(known.values())
    assert worlds.binds(plan_for(worlds.node("n", cpu="8"), worlds.pod("p", scheduler="poseidon"), config=ALLOCATE))
    assert known == {kernel: len(kernel.signatures) for kernel in known}


def test_nobody_wants_kernels_where_nobody_asks_for_flow() -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="8"), worlds.pod("p", scheduler="volcano"))
    world.flow_loaded = False
    worlds.cycle(world, ALLOCATE)
    assert not world.flow_wanted
