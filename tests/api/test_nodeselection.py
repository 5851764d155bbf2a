"""Taints, tolerations and node selection, as Kubernetes has them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Node, NodeSelectorTerm, Pod, Taint, Toleration
from strato.api.nodeselection import matches_node, matches_term, tolerates

Json = dict[str, Any]
HERE = {"key": "k", "value": "v", "effect": "NoSchedule"}

TOLERATIONS: list[tuple[list[Json], bool]] = [
    ([], False),
    ([{"key": "k", "operator": "Exists"}], True),
    ([{"operator": "Exists"}], True),
    ([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], True),
    ([{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
    ([{"key": "other", "operator": "Exists"}], False),
    ([{"key": "k", "value": "v"}], True),
    ([{"key": "k", "value": "v", "effect": "NoSchedule"}], True),
    ([{"key": "k", "operator": "Equal", "value": "v"}], True),
    ([{"key": "k", "operator": "Equal", "value": "other"}], False),
    ([{"key": "k", "operator": "Equal"}], False),
    ([{"operator": "Equal", "value": "v"}], False),
    ([{"key": "k", "operator": "Near", "value": "v"}], False),
    ([{"key": "other", "operator": "Exists"}, {"key": "k", "operator": "Exists"}], True),
    ([{"key": "k", "operator": "Exists"}, {"key": "other", "operator": "Exists"}], True),
]


@pytest.mark.parametrize(("given", "accepted"), TOLERATIONS, ids=str)
def test_tolerations(given: list[Json], accepted: bool) -> None:
    assert tolerates(msgspec.convert(given, list[Toleration]), msgspec.convert(HERE, Taint)) is accepted


NODE = msgspec.convert({"metadata": {"name": "n", "labels": {"zone": "z", "size": "5"}}}, Node)
BARE = msgspec.convert({"metadata": {"name": "n"}}, Node)


def label(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


TERMS: list[tuple[Json, bool]] = [
    ({}, False),
    (label("zone", "In", "z"), True),
    (label("zone", "In", "y", "z"), True),
    (label("zone", "In", "y"), False),
    (label("no", "In", "z"), False),
    (label("zone", "NotIn", "z"), False),
    (label("zone", "NotIn", "y"), True),
    (label("no", "NotIn", "z"), True),
    (label("zone", "Exists"), True),
    (label("no", "Exists"), False),
    (label("zone", "DoesNotExist"), False),
    (label("no", "DoesNotExist"), True),
    (label("size", "Gt", "4"), True),
    (label("size", "Gt", "5"), False),
    (label("size", "Lt", "6"), True),
    (label("size", "Lt", "5"), False),
    (label("zone", "Gt", "4"), False),
    (label("no", "Lt", "4"), False),
    ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True),
    ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}, False),
    ({**label("zone", "In", "z"), "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}, False),
    ({**label("zone", "In", "y"), "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, False),
    (
        {
            "matchExpressions": [
                *label("zone", "In", "z")["matchExpressions"],
                *label("no", "Exists")["matchExpressions"],
            ]
        },
        False,
    ),
    (
        {
            "matchExpressions": [
                *label("no", "Exists")["matchExpressions"],
                *label("zone", "In", "z")["matchExpressions"],
            ]
        },
        False,
    ),
]


@pytest.mark.parametrize(("term", "holds"), TERMS, ids=str)
def test_terms(term: Json, holds: bool) -> None:
    assert matches_term(msgspec.convert(term, NodeSelectorTerm), NODE) is holds


def required(*terms: Json) -> Json:
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


SPECS: list[tuple[Json, bool, bool]] = [
    ({}, True, True),
    ({"nodeSelector": {"zone": "z"}}, True, False),
    ({"nodeSelector": {"zone": "y"}}, False, False),
    ({"nodeSelector": {"zone": "z", "no": "z"}}, False, False),
    ({"affinity": {}}, True, True),
    ({"affinity": {"nodeAffinity": {}}}, True, True),
    (required(label("zone", "In", "z")), True, False),
    (required(label("zone", "In", "y")), False, False),
    (required(label("zone", "In", "y"), label("size", "Exists")), True, False),
    (required(label("zone", "In", "z"), label("no", "Exists")), True, False),
    (required(), False, False),
    ({"nodeSelector": {"zone": "y"}, **required(label("zone", "In", "z"))}, False, False),
]


@pytest.mark.parametrize(("spec", "labelled", "bare"), SPECS, ids=str)
def test_nodes(spec: Json, labelled: bool, bare: bool) -> None:
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [], **spec}}, Pod)
    assert (matches_node(pod.spec, NODE), matches_node(pod.spec, BARE)) == (labelled, bare)
