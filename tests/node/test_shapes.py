"""Shapes of nodes: what is read, what the nodes take by turns, what is refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.node.hollow import offers
from strato.node.shapes import RACK, REGION, ZONE, parse_nodes

PLAIN = {"cpu": "32", "memory": "256Gi"}


def test_shapes_say_places_labels_taints_and_failures() -> None:
    text = "6x32cpu,256Gi+4x96cpu,1Ti,8gpu,zone=a..c,rack=40,label:disk=ssd,taint:gpu=yes:NoSchedule,mtbf=30d,mttr=1h"
    plain, gpus = parse_nodes(text)
    assert (plain.labels_of(3), plain.taints, plain.spread) == ({}, (), {})
    assert gpus.resources == {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
    assert gpus.labels_of(1) == {"disk": "ssd", ZONE: "b", RACK: "r2"}
    assert gpus.taints == ({"key": "gpu", "value": "yes", "effect": "NoSchedule"},)
    assert (gpus.mtbf_seconds, gpus.mttr_seconds) == (30 * 86400, 3600)


@given(racks=st.integers(1, 50), zones=st.integers(1, 9), nodes=st.integers(1, 300))
def test_a_rack_is_in_one_zone_and_racks_are_of_about_equal_size(racks: int, zones: int, nodes: int) -> None:
    (shape,) = parse_nodes(f"{nodes}x4cpu,rack={racks},zone=1..{zones}")
    labels = [shape.labels_of(index) for index in range(nodes)]
    zones_of: dict[str, set[str]] = {}
    for one in labels:
        zones_of.setdefault(one[RACK], set()).add(one[ZONE])
    assert all(len(found) == 1 for found in zones_of.values())
    sizes = Counter(one[RACK] for one in labels)
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert len(sizes) == min(racks, nodes)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("zone=a", ["a", "a"], id="one value"),
        pytest.param("zone=a|x9", ["a", "x9"], id="a list"),
        pytest.param("zone=eu-1..2", ["eu-1", "eu-2"], id="a range of numbers after a prefix"),
        pytest.param("zone=eu-b..c|us", ["eu-b", "eu-c"], id="a range in a list"),
        pytest.param("zone=9..10", ["9", "10"], id="a range over the number of digits"),
    ],
)
def test_values_of_a_label_go_round(text: str, want: list[str]) -> None:
    (shape,) = parse_nodes(f"4x1cpu,{text}")
    assert [shape.labels_of(index)[ZONE] for index in range(2)] == want


def test_a_number_alone_is_nodes_of_the_plain_kind_where_there_is_one() -> None:
    first, second = parse_nodes("10 + 2x4cpu,region=eu|us", PLAIN)
    assert (first.count, first.resources) == (10, {**PLAIN, "pods": "110"})
    assert [second.labels_of(index)[REGION] for index in range(2)] == ["eu", "us"]
    with pytest.raises(InvalidInput):
        parse_nodes("10")


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        pytest.param("zone=c..a", "'c..a' is no list of values", id="a range that runs backwards"),
        pytest.param("rack=0", "is no list of values", id="no rack"),
        pytest.param("label:x=1..999999", "is no list of values", id="a range without end"),
        pytest.param("label:a b=x", "'a b' is no label", id="a key that is none"),
        pytest.param("label:a=x y", "is no value of label a", id="a value that is none"),
        pytest.param("zone=a,zone=b", "given twice", id="a label twice"),
        pytest.param("taint:a=b", "is no taint", id="a taint without effect"),
        pytest.param("taint:a=b:Never", "is no taint", id="an effect that is none"),
        pytest.param("mtbf=soon", "mtbf=soon is no time", id="a time that is none"),
        pytest.param("mttr=0s", "mttr=0s is no time above zero", id="no time"),
    ],
)
def test_bad_items_are_named(item: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_nodes(f"2x4cpu,{item}")
    assert problem in str(refused.value)


def test_all_problems_of_all_shapes_are_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_nodes("2x4cores,mtbf=no+x+3x1cpu,taint:a=b")
    assert len(refused.value.problems) == 4


def test_more_nodes_than_a_process_can_hold_are_refused() -> None:
    with pytest.raises(InvalidInput, match="more than 1000000 nodes"):
        parse_nodes("999999x1cpu+2x1cpu")


def test_nodes_of_equal_labels_share_what_they_offer() -> None:
    found = offers((f"n-{number}" for number in range(100)), parse_nodes("6x4cpu,zone=a|b+1x8cpu"), {"mine": ""})
    assert list(found) == [f"n-{number}" for number in range(7)]
    assert len({id(one) for one in found.values()}) == 3
    assert found["n-1"].labels == {ZONE: "b", "mine": ""}
    assert found["n-6"].capacity["cpu"] == "8"
