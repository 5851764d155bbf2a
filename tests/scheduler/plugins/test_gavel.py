"""gavel: turns on GPUs of different speed, in the scheduler's own cycles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strato.errors import InvalidInput
from strato.scheduler.cache.world import World
from strato.scheduler.plugins.gavelrounds import RESET_SECONDS, Account, Rounds, fairness
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

GPU = "nvidia.com/gpu"
MODEL = "nvidia.com/gpu.product"
KIND = "strato.dev/job-kind"
TABLE = {
    "v100": {"('quick', 1)": {"null": 10}, "('slow', 1)": {"null": 2}, "('picky', 1)": {"null": 5}},
    "k80": {"('quick', 1)": {"null": 1}, "('slow', 1)": {"null": 1.8}, "('picky', 1)": {"null": 0}},
}
NOW = 1_700_000_000.0


def gavel(**more: Any) -> dict[str, Any]:
    return {"name": "gavel", "arguments": {"gavel.throughputs": TABLE} | {f"gavel.{k}": v for k, v in more.items()}}


def node(name: str, gpus: int, model: str) -> dict[str, Any]:
    return worlds.node(name, cpu="64", memory="256Gi", labels={MODEL: model}, **{GPU: gpus})


def job(name: str, kind: str, gpus: int = 1, on: str = "") -> list[dict[str, Any]]:
    where = {"phase": "Running", "nodeName": on} if on else {}
    notes = {KIND: kind} if kind else {}
    pod = worlds.pod(f"{name}-0", name, resources={GPU: str(gpus)}, annotations=notes, **where)
    pod["spec"]["containers"][0]["resources"]["limits"] = {GPU: str(gpus)}
    return [worlds.group(name, 1), pod]


def world_of(*jobs: list[dict[str, Any]]) -> World:
    nodes = [node("fast", 1, "Tesla-V100-SXM2-16GB"), node("old", 1, "Tesla-K80")]
    return worlds.world(worlds.queue(), *nodes, *[one for made in jobs for one in made])


def config(**more: Any) -> Any:
    return asking.config(gavel(**more), {"name": "gang"}, {"name": "predicates"}, actions="shuffle, allocate")


def test_jobs_run_where_they_are_fast() -> None:
    world = world_of(job("a", "slow"), job("b", "quick"))
    assert worlds.binds(worlds.cycle(world, config())) == {"ns/a-0": "old", "ns/b-0": "fast"}


def test_a_model_that_a_job_cannot_use_is_not_given_to_it() -> None:
    world = world_of(job("a", "picky"), job("b", "picky"))
    plan = worlds.cycle(world, config())
    assert list(worlds.binds(plan).values()) == ["fast"]
    (waiting,) = [verdict.message for verdict in plan.pods if verdict.task.key not in worlds.binds(plan)]
    assert "job waits for its turn" in waiting


@pytest.mark.parametrize("kind", ["", "unknown"])
def test_other_jobs_are_left_to_other_plugins(kind: str) -> None:
    world = world_of(job("a", kind), job("b", kind))
    assert sorted(worlds.binds(worlds.cycle(world, config())).values()) == ["fast", "old"]


def test_turns_change_when_a_round_ends_and_not_before() -> None:
    """Three equal jobs, two GPUs: who waits gets a GPU within two rounds, and one of those that run gives it up."""
    chosen = config(roundSeconds=60)
    world = world_of(job("a", "slow", on="fast"), job("b", "slow", on="old"), job("c", "slow"))
    worlds.cycle(world, chosen, now=NOW)
    evicted: list[str] = []
    for seconds in (30, 59):
        assert not worlds.cycle(world, chosen, now=NOW + seconds).evictions, "within the round nobody moves"
    for seconds in range(61, 2400, 61):
        evicted += [one.task.name for one in worlds.cycle(world, chosen, now=NOW + seconds).evictions]
        if evicted:
            break
    assert evicted
    assert set(evicted) <= {"a-0", "b-0"}


def test_a_job_that_comes_within_a_round_takes_what_is_idle() -> None:
    chosen, world = config(), world_of(job("a", "quick"))
    assert worlds.binds(worlds.cycle(world, chosen, now=NOW)) == {"ns/a-0": "fast"}
    worlds.feed(world, *job("b", "slow"))
    assert worlds.binds(worlds.cycle(world, chosen, now=NOW + 10)) == {"ns/b-0": "old"}


def test_models_that_are_gone_are_planned_anew_when_they_are_back() -> None:
    chosen, world = config(), world_of(job("a", "quick"))
    assert worlds.binds(worlds.cycle(world, chosen, now=NOW)) == {"ns/a-0": "fast"}
    world.remove_pod("ns/a-0")
    for gone in ("fast", "old"):
        world.nodes.remove_node(gone)
    worlds.feed(world, *job("b", "slow"))
    assert worlds.binds(worlds.cycle(world, chosen, now=NOW + 10)) == {}
    assert world.plugin_state["gavel"].plan == {}, "nobody has a turn on what is not there"
    worlds.feed(world, node("old", 1, "Tesla-K80"))
    assert worlds.binds(worlds.cycle(world, chosen, now=NOW + 20)) == {"ns/b-0": "old"}


def test_without_gpus_of_the_table_nothing_is_planned() -> None:
    world = worlds.world(worlds.queue(), node("x", 1, "A100"), *job("a", "quick"))
    assert worlds.binds(worlds.cycle(world, config())) == {}


WRONG = [
    ({"gavel.objective": "speed"}, "gavel.objective", "'speed' is none of"),
    ({"gavel.throughputs": "/no/such/file"}, "gavel.throughputs", "cannot be read"),
    ({"gavel.throughputs": {"v100": 3}}, "gavel.throughputs", "is no mapping of kinds"),
]


@pytest.mark.parametrize(("arguments", "where", "message"), WRONG)
def test_wrong_arguments_are_named(arguments: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        asking.config({"name": "gavel", "arguments": arguments})
    assert any(where in p.where and message in p.message for p in caught.value.problems), caught.value.problems


def test_an_allocation_stands_until_jobs_or_machines_change() -> None:
    rounds, long = Rounds(np.ones(2), fairness, 60.0), 2 * RESET_SECONDS
    rounds.add("a", Account(np.array([2.0, 1.0])))
    rounds.allocate(long)
    rounds.allocate(2 * long)
    assert rounds.solved == 1
    rounds.resize(np.array([1.0, 2.0]))
    rounds.allocate(3 * long)
    rounds.add("b", Account(np.array([1.0, 1.0])))
    rounds.allocate(4 * long)
    rounds.remove("a")
    rounds.allocate(5 * long)
    rounds.allocate(6 * long)
    assert rounds.solved == 4
