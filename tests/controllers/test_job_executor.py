"""The executor: plans side by side, calls of one sort together, and nobody pays for another's failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import ConfigMap
from strato.api.wire import Request, Response
from strato.client.cluster import Created
from strato.clock import Clock
from strato.controllers.job.calls import Call, Compute, Create, Delete, Get, PatchCall, Plan, Set, ask
from strato.controllers.job.executor import CONCURRENT_CALLS, Executor
from strato.errors import AlreadyExists, ApiError, InvariantError, NotFound
from tests.controllers.world import ADMIN, MeddlingCluster, World, play


def settings(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}


class Together(MeddlingCluster):
    """Notes how many requests were sent at a time."""

    def __init__(self, world: World, at_once: int) -> None:
        super().__init__(world.server, ADMIN)
        self.at_once = at_once
        self.sent: list[int] = []

    async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
        self.sent.append(len(requests))
        return await super().exchange_all(requests)


def make(name: str) -> Plan[str]:
    """Create, set, read, change and delete an object, one after the other."""
    made = yield from ask(Create(catalog.CONFIGMAP, "default", settings(name)))
    assert isinstance(made, Created)
    yield from ask(Set(catalog.CONFIGMAP, "default", name, {"data": {"a": "c"}}))
    found = yield from ask(Get(catalog.CONFIGMAP, "default", name))
    changed = yield from ask(PatchCall(ConfigMap, "default", name, {"data": {"b": "d"}}))
    assert changed.metadata.name == name
    yield from ask(Delete(ConfigMap, "default", name, made.uid))
    return str(found["data"]["a"])


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_plans_go_side_by_side_and_their_calls_together(at_once: int) -> None:
    async def scenario(world: World) -> None:
        cluster = Together(world, at_once)
        executor = Executor(cluster, world.clock)
        assert await executor.run([make(f"m{number}") for number in range(7)]) == ["c"] * 7
        whole, rest = divmod(7, min(at_once, 7))
        assert sorted(cluster.sent, reverse=True) == [min(at_once, 7)] * 4 * whole + [rest] * 4 * bool(rest)

    play(scenario)


def test_plans_of_all_workers_share_one_bound_of_calls_in_flight() -> None:
    def wide(name: str) -> Plan[int]:
        answers = yield [Create(catalog.CONFIGMAP, "default", settings(f"{name}{number}")) for number in range(50)]
        return sum(isinstance(answer, Created) for answer in answers)

    class Counting(Together):
        in_flight = most = 0

        async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            await clock.sleep(0.01)
            try:
                return await super().exchange_all(requests)
            finally:
                self.in_flight -= 1

    async def scenario(world: World) -> None:
        nonlocal clock
        clock = world.clock
        cluster = Counting(world, 1)
        executor = Executor(cluster, clock)
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(executor.run([wide(name)])) for name in "abcde"]
        assert [run.result() for run in runs] == [[50]] * 5
        assert cluster.most == CONCURRENT_CALLS

    clock: Clock
    play(scenario)


def test_what_fails_is_answered_to_who_asked_and_to_nobody_else() -> None:
    def twice(name: str) -> Plan[list[type]]:
        calls: list[Call] = [Create(catalog.CONFIGMAP, "default", settings(name)) for _ in range(2)]
        calls += [Delete(ConfigMap, "default", "nobody", ""), Compute(lambda: 1 / 0), Compute(lambda: 7)]
        answers = yield calls
        return [type(answer) for answer in answers]

    def broken() -> Plan[str]:
        yield ()
        raise InvariantError("a bug")

    async def scenario(world: World) -> None:
        executor = Executor(Together(world, 64), world.clock)
        kinds, error, refused, value = await executor.run([twice("a"), broken(), make("a"), make("b")])
        assert kinds == [Created, AlreadyExists, NotFound, ZeroDivisionError, int]
        assert isinstance(error, InvariantError)
        assert isinstance(refused, AlreadyExists)
        assert value == "c"

    play(scenario)


def test_plans_are_closed_when_the_executor_is_stopped() -> None:
    closed: list[bool] = []

    def endless() -> Plan[None]:
        try:
            while True:
                yield from ask(Get(catalog.NAMESPACE, "", "default"))
        finally:
            closed.append(True)

    class Silent(MeddlingCluster):
        async def exchange(self, request: Request, *, stream: bool = False) -> Response:
            await asyncio.Event().wait()
            raise AssertionError

    async def scenario(world: World) -> None:
        running = asyncio.create_task(Executor(Silent(world.server, ADMIN), world.clock).run([endless(), endless()]))
        await world.clock.sleep(1)
        running.cancel()
        await asyncio.wait((running,))
        assert closed == [True, True]

    play(scenario)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["set first", "change first"])
def test_a_set_and_a_change_of_one_kind_in_one_round_are_each_answered_in_its_way(order: tuple[int, int]) -> None:
    def both() -> Plan[Any]:
        yield from ask(Create(catalog.CONFIGMAP, "default", settings("a")))
        patch = {"data": {"b": "d"}}
        calls = (Set(catalog.CONFIGMAP, "default", "a", patch), PatchCall(catalog.CONFIGMAP, "default", "a", patch))
        answers = yield [calls[at] for at in order]
        return dict(zip(order, answers, strict=True))

    async def scenario(world: World) -> None:
        (answers,) = await Executor(Together(world, 64), world.clock).run([both()])
        assert answers[0] is None
        assert answers[1]["data"] == {"a": "b", "b": "d"}

    play(scenario)
