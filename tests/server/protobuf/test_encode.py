"""Protobuf answers, against bytes that Kubernetes' own Go types wrote (see ``golden/main.go``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.server import protobuf
from strato.server.protobuf import messages, special, wire

GOLDEN = Path(__file__).parent / "golden/data"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.pb"))
KINDS = sorted(messages.rows().kinds)
DEEPEST = 5
_SAMPLES = {
    "string": "text",
    "bytes": "AAEC",
    "bool": True,
    "int32": -7,
    "int64": 1 << 40,
    "double": 0.5,
    "Time": "2024-02-29T23:59:59Z",
    "MicroTime": "2024-02-29T23:59:59.123456Z",
    "Duration": "1h0m5.25s",
    "Quantity": "250m",
    "QuantityValue": "1Ti",
    "IntOrString": "25%",
    "JSONSchemaPropsOrBool": True,
    "JSONSchemaPropsOrArray": {"type": "string"},
    "JSONSchemaPropsOrStringArray": ["a", "b"],
}


def _sample(name: str, depth: int) -> Any:
    """Return a message as JSON with every field set that is less deep than `DEEPEST`."""
    short = name.rpartition(".")[2]
    if name in special.RAW:
        return {"any": [1, None, {"x": "y"}]}
    if name in special.STRUCTURED:
        return _SAMPLES[short]
    obj: dict[str, Any] = {}
    for field, kind, flags in messages.rows().messages[name].values():
        if kind in _SAMPLES and "." not in kind and kind[0].islower():
            value = _SAMPLES[kind]
        elif depth == DEEPEST:
            continue
        else:
            full = kind if "." in kind else f"{name.rpartition('.')[0]}.{kind}"
            value = ["a", "b"] if messages.table()[0][full].is_list else _sample(full, depth + 1)
        if "i" in flags:
            obj.update(value)
        else:
            obj[field] = {"k": value, "a": value} if "m" in flags else [value, value] if "l" in flags else value
    return obj


def _lost(sent: Any, got: Any, path: str = "") -> list[str]:
    """Return what of one value is not in the other."""
    if isinstance(sent, dict) and isinstance(got, dict):
        return [line for name, value in sent.items() for line in _lost(value, got.get(name), f"{path}.{name}")]
    if isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
        pairs = zip(sent, got, strict=True)
        return [line for index, (one, other) in enumerate(pairs) for line in _lost(one, other, f"{path}[{index}]")]
    return [] if sent == got or (sent == {} and got is None) else [f"{path}: {sent!r} became {got!r}"]


@pytest.mark.parametrize("name", NAMES)
def test_json_of_go_encodes_to_the_bytes_of_go(name: str) -> None:
    assert protobuf.encode(json.loads((GOLDEN / f"{name}.json").read_text())) == (GOLDEN / f"{name}.pb").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back_with_every_field(kind: str) -> None:
    api_version, _, name = kind.removeprefix("/").rpartition("/")
    if api_version.startswith("meta.k8s.io/") and name not in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        api_version = "v1"
    sent = {**_sample(messages.rows().kinds[kind], 0), "apiVersion": api_version, "kind": name}
    packed = protobuf.encode(sent)
    assert packed is not None
    got = protobuf.decode(packed)
    assert _lost(sent, got) == []
    assert protobuf.encode(got) == packed


def test_kinds_of_others_have_no_such_form() -> None:
    assert protobuf.encode({"apiVersion": "e.io/v1", "kind": "Status"}) is None
    assert protobuf.encode({"major": "1"}) is None


def test_what_the_table_does_not_know_is_left_out() -> None:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    odd = {**pod, "invented": 1, "spec": {"containers": [], "invented": {}, "volumes": None}}
    assert protobuf.encode(odd) == protobuf.encode(pod)


@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_integers_are_read_as_they_are_written(value: int) -> None:
    assert wire.varint(wire.varint_bytes(value), 0) == (value % (1 << 64), len(wire.varint_bytes(value)))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_durations_are_read_as_they_are_written(nanoseconds: int) -> None:
    assert special.duration_fields(special.duration({"duration": nanoseconds})) == {"duration": nanoseconds}


@pytest.mark.parametrize(("text", "nanoseconds"), [("1" * 1_000_000, 0), ("1.1.1s", 0), ("+1.5s", 1_500_000_000)])
def test_what_is_no_duration_counts_nothing_and_takes_linear_time(text: str, nanoseconds: int) -> None:
    assert special.duration_fields(text) == {"duration": nanoseconds}


@given(st.datetimes())
def test_times_are_read_as_they_are_written(moment: Any) -> None:
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
    fields = special.micro_time_fields(text)
    assert fields is not None
    assert special.micro_time(fields) == text
