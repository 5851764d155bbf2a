"""Amplified allocatable amounts, and the annotations that carry ratios."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.amplification import (
    FACTOR,
    RATIO,
    RAW,
    InvalidFactor,
    amplified,
    amplify_amount,
    amplify_status,
    check_metadata,
    published,
    ratios_text,
    read_factor,
    written_ratio,
)
from strato.api.meta import ObjectMeta
from strato.api.quantity import milli, parse

Json = dict[str, Any]


def node(cpu: str, ratio: float | None = None, raw: str | None = None) -> Json:
    annotations = {}
    if ratio is not None:
        annotations[RATIO] = ratios_text({"cpu": ratio})
    if raw is not None:
        annotations[RAW] = f'{{"cpu":"{raw}"}}'
    return {"metadata": {"annotations": annotations}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"}}}


@pytest.mark.parametrize(
    ("old", "new", "cpu", "raw"),
    [
        pytest.param(None, node("4", 2), "8", "4", id="a node that is new"),
        pytest.param({"metadata": {}}, node("4", 2), "8", "4", id="one that had said nothing"),
        pytest.param({"metadata": {}, "status": {}}, node("8", 2, "4"), "16", "8", id="one that had no amounts"),
        pytest.param(node("4"), node("4", 2), "8", "4", id="the first time everything is raw"),
        pytest.param(node("8", 2, "4"), node("4", 2, "4"), "8", "4", id="the kubelet writes what it has"),
        pytest.param(node("8", 2, "4"), node("8", 2, "4"), "8", "4", id="somebody echoes what is stored"),
        pytest.param(node("8", 2, "4"), node("3", 2, "4"), "6", "3", id="the kubelet has less than before"),
        pytest.param(node("8", 2, "4"), node("8", 3, "4"), "12", "4", id="another ratio and the old amount"),
        pytest.param(node("8", 3, "4"), node("12", 3, "4"), "12", "4", id="the amplified amount is not raw"),
        pytest.param(node("7", 2, "4"), node("8", 2), "8", "4", id="an echo that lost the annotation"),
        pytest.param(node("8", 2, "4"), node("4", None, "4"), "4", None, id="no ratio any more"),
        pytest.param(node("8", 2, "4"), node("8", None, "4"), "4", None, id="an echo when there is no ratio any more"),
        pytest.param(node("8", 2, "4"), node("8", 1, "4"), "4", "4", id="an echo when the ratio is one"),
    ],
)
def test_a_written_status_is_amplified(old: Json | None, new: Json, cpu: str, raw: str | None) -> None:
    amplify_status(new, old)
    assert new["status"]["allocatable"]["cpu"] == cpu
    assert (RAW in new["metadata"]["annotations"]) == (raw is not None)
    if raw is not None:
        assert f'"cpu":"{raw}"' in new["metadata"]["annotations"][RAW]
    assert new["status"]["allocatable"]["memory"] == "8Gi"


@pytest.mark.parametrize("status", [{}, {"allocatable": {}}, {"allocatable": None}])
def test_a_status_without_amounts_stays_without(status: Json) -> None:
    new = node("4", 2) | {"status": dict(status)}
    amplify_status(new, None)
    assert new["status"] == status


@given(st.integers(1, 10**9), st.floats(1, 10), st.integers(1, 10**9))
def test_amplifying_again_changes_nothing(raw: int, factor: float, other: int) -> None:
    ratio, stored = written_ratio(factor), node(f"{other}m")
    for cpu in (f"{raw}m", None, f"{raw}m"):
        new = node(cpu or stored["status"]["allocatable"]["cpu"], ratio)
        new["metadata"]["annotations"] |= {RAW: text} if (text := stored["metadata"]["annotations"].get(RAW)) else {}
        amplify_status(new, stored)
        assert milli(new["status"]["allocatable"]["cpu"]) == amplified(raw, ratio)
        stored = new


@given(st.integers(0, 10**12), st.floats(0.01, 10), st.floats(0.01, 10))
def test_amplified_is_never_less_and_grows_with_the_factor(raw: int, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert raw <= amplified(raw, low) <= amplified(raw, high)


def test_decimal_factors_are_taken_as_written() -> None:
    assert amplified(1000, 1.1) == 1100
    assert amplified(24000, 2.0, 1.0) == 48000
    assert amplified(32000, 2.0, 1.5) == 96000


@pytest.mark.parametrize(("amount", "resource"), [("1500u", "cpu"), ("1.5", "memory")])
def test_a_ratio_of_one_leaves_fractions_as_they_are(amount: str, resource: str) -> None:
    raw = parse(amount)
    assert amplify_amount(raw, resource, 1.0) is raw
    assert amplify_amount(raw, resource, 2.0) == parse("4m" if resource == "cpu" else "4")  # whole units, rounded up


@pytest.mark.parametrize(("length", "is_whole"), [(78, True), (79, False)])
def test_a_long_value_is_shown_in_part(length: int, is_whole: bool) -> None:
    with pytest.raises(InvalidFactor) as caught:
        read_factor("x" * length, "--here")
    assert (repr("x" * length) in str(caught.value)) is is_whole


def test_memory_stays_whole_bytes_and_other_resources_raw() -> None:
    offer = published({"cpu": "4", "memory": "1001", "pods": "110"}, {"cpu": 1.5, "memory": 1.01, "pods": 2})
    assert offer.allocatable == {"cpu": "6", "memory": "1012", "pods": "110"}
    assert offer.raw == '{"cpu":"4","memory":"1001"}'


@pytest.mark.parametrize(
    "value", ["", "two", "0", "-1", "0.5", "10.01", "nan", "inf", None, True, [], "1e999", "9" * 5000]
)
def test_a_bad_factor_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(InvalidFactor, match=r"--here = .*must be a number from 1 to 10, for example 1.5") as caught:
        read_factor(value, "--here")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("labels", "annotations", "place"),
    [
        ({FACTOR: "zero"}, {}, rf"metadata.labels\[{FACTOR}\] = 'zero'"),
        ({}, {FACTOR: "0"}, rf"metadata.annotations\[{FACTOR}\] = '0'"),
        ({}, {RATIO: "[1]"}, rf"metadata.annotations\[{RATIO}\]"),
        ({}, {RATIO: '{"cpu":0.5}'}, rf"metadata.annotations\[{RATIO}\].cpu = 0.5"),
        ({}, {RATIO: "{" * 10_000}, "must be a JSON object"),
    ],
)
def test_metadata_of_nodes_is_checked(labels: dict[str, str], annotations: dict[str, str], place: str) -> None:
    with pytest.raises(InvalidFactor, match=place):
        check_metadata(ObjectMeta(name="n", labels=labels, annotations=annotations))
