"""GPUs shared by memory or given whole: what a pod asks for, what a node has, and which cards a pod gets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Node, PodSpec
from strato.scheduler.plugins import gpushare
from strato.scheduler.plugins.gpushare import Cards, GpuShareRequest

Json = dict[str, Any]


def spec(*main: int, init: tuple[int, ...] = (), name: str = gpushare.MEMORY) -> PodSpec:
    def containers(amounts: tuple[int, ...]) -> list[Json]:
        return [{"name": f"c{i}", "resources": {"limits": {name: str(n)} if n else {}}} for i, n in enumerate(amounts)]

    return msgspec.convert({"containers": containers(main), "initContainers": containers(init)}, PodSpec)


WANTS: list[Any] = [
    pytest.param(spec(5), GpuShareRequest(5, 0), id="memory"),
    pytest.param(spec(2, name=gpushare.NUMBER), GpuShareRequest(0, 2), id="whole cards"),
    pytest.param(spec(2, 3), GpuShareRequest(5, 0), id="containers add up"),
    pytest.param(spec(2, init=(7, 1)), GpuShareRequest(7, 0), id="init containers run one after another"),
    pytest.param(spec(4, init=(3,)), GpuShareRequest(4, 0), id="the larger of both"),
    pytest.param(spec(0), None, id="nothing"),
]


@pytest.mark.parametrize(("pod", "want"), WANTS)
def test_what_a_pod_asks_for(pod: PodSpec, want: GpuShareRequest | None) -> None:
    assert gpushare.wanted(pod, memory=True, number=True) == want


def test_what_is_switched_off_is_not_asked_for() -> None:
    assert gpushare.wanted(spec(5), memory=False, number=True) is None
    assert gpushare.wanted(spec(2, name=gpushare.NUMBER), memory=True, number=False) is None


def node(capacity: Json, allocatable: Json | None = None, sick: str = "") -> Node:
    named = {gpushare.NUMBER if key == "number" else gpushare.MEMORY: str(n) for key, n in capacity.items()}
    more = {gpushare.NUMBER if key == "number" else gpushare.MEMORY: str(n) for key, n in (allocatable or {}).items()}
    meta = {"name": "n", "annotations": {gpushare.UNHEALTHY: sick}}
    return msgspec.convert({"metadata": meta, "status": {"capacity": named, "allocatable": more}}, Node)


NODES: list[Any] = [
    pytest.param(node({"number": 2, "memory": 20}), Cards(10, {0: 0, 1: 0}, set()), id="two cards"),
    pytest.param(node({"number": 3, "memory": 20}), Cards(6, {0: 0, 1: 0, 2: 0}, set()), id="rounded down"),
    pytest.param(node({"number": 2, "memory": 20}, sick="1"), Cards(10, {0: 0}, set()), id="one is not healthy"),
    pytest.param(node({"number": 2, "memory": 20}, sick="0, 1"), Cards(10, {}, set()), id="none is healthy"),
    pytest.param(node({}, {"number": 1, "memory": 5}), Cards(5, {0: 0}, set()), id="only allocatable is said"),
    pytest.param(node({"number": 1, "memory": 0}), None, id="no memory"),
    pytest.param(node({"number": 0, "memory": 5}), None, id="no cards"),
    pytest.param(node({}), None, id="nothing"),
]


@pytest.mark.parametrize(("made", "cards"), NODES)
def test_what_a_node_has(made: Node, cards: Cards | None) -> None:
    assert gpushare.cards_of(made) == cards


def test_cards_are_taken_by_memory_or_whole() -> None:
    cards = Cards(10, {0: 0, 1: 0, 2: 0}, set())
    assert cards.choose(GpuShareRequest(4, 0)) == (0,)
    cards.take((0,), GpuShareRequest(4, 0))
    assert cards.choose(GpuShareRequest(6, 0)) == (0,), "just what is left"
    assert cards.choose(GpuShareRequest(7, 0)) == (1,)
    assert cards.choose(GpuShareRequest(0, 2)) == (1, 2), "whole cards only while nobody has a part"
    assert cards.choose(GpuShareRequest(0, 3)) is None
    cards.take((1, 9), GpuShareRequest(0, 1))
    assert cards.used == {0: 4, 1: 10, 2: 0}, "a card that is not there counts nowhere"
    assert (
        cards.choose(GpuShareRequest(7, 0)),
        cards.choose(GpuShareRequest(0, 1)),
        cards.choose(GpuShareRequest(11, 0)),
    ) == ((2,), (2,), None)


@pytest.mark.parametrize(("text", "ids"), [("", ()), ("3", (3,)), ("0,2", (0, 2)), (" 1 ,x,-1", (1,))])
def test_which_cards_a_pod_was_given(text: str, ids: tuple[int, ...]) -> None:
    assert gpushare.ids_of({gpushare.INDEX: text} if text else {}) == ids
    if ids and text[0] != " ":
        assert gpushare.annotations_for(ids, 1.5) == {gpushare.INDEX: text, gpushare.TIME: "1500000000"}
