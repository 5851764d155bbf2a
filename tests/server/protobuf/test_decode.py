"""Protobuf request bodies, against bytes and JSON that Kubernetes' own Go types wrote (see ``golden/main.go``)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import ApiError, BadRequest
from strato.server import bodies, protobuf
from strato.server.jsonbodies import MAX_VALUES
from strato.server.negotiation import PROTOBUF
from strato.server.protobuf import messages, special

GOLDEN = Path(__file__).parent / "golden/data"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.pb"))


def _without_nothing(value: Any) -> Any:
    """Drop nulls and empty objects, which say the same as a missing field does."""
    if isinstance(value, list):
        return [_without_nothing(inner) for inner in value]
    if isinstance(value, dict):
        inner = {name: _without_nothing(part) for name, part in value.items()}
        return {name: part for name, part in inner.items() if part is not None and part != {}}
    return value


ZERO_STATUS = {
    "statefulset": {"replicas": 0, "availableReplicas": 0},
    "autoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "access": {"allowed": False},
    "access-user": {"allowed": False},
    "crd": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
}
"""Structures that Go writes though every field is zero; here they are left out, and nobody else can tell."""


@pytest.mark.parametrize("name", NAMES)
def test_bytes_of_go_decode_to_the_json_of_go(name: str) -> None:
    expected = json.loads((GOLDEN / f"{name}.json").read_text())
    if name in ZERO_STATUS:
        assert expected.pop("status") == ZERO_STATUS[name]
    found = protobuf.decode((GOLDEN / f"{name}.pb").read_bytes())
    assert _without_nothing(found) == _without_nothing(expected)


def test_presence_is_kept_where_it_means_something() -> None:
    pod = protobuf.decode((GOLDEN / "pod.pb").read_bytes())["spec"]
    assert pod["terminationGracePeriodSeconds"] == 0  # a pointer to zero
    assert pod["securityContext"] == {}  # a pointer to nothing set
    assert pod["volumes"][0] == {"name": "e", "emptyDir": {}}
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == {}  # selects everything, a missing one nothing
    assert protobuf.decode((GOLDEN / "pod-empty.pb").read_bytes()) == {"apiVersion": "v1", "kind": "Pod"}
    assert protobuf.decode((GOLDEN / "claim.pb").read_bytes())["spec"]["storageClassName"] == ""


def test_the_body_reader_takes_the_media_type_with_parameters() -> None:
    body = (GOLDEN / "namespace.pb").read_bytes()
    found = bodies.read_body(body, f"{PROTOBUF}; stream=watch")
    assert found["kind"] == "Namespace"
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert not bodies.is_json(PROTOBUF)


def test_every_message_decodes_when_empty_and_shares_nothing() -> None:
    types, kinds = messages.table()
    for name, message in types.items():
        found = message.decode(b"")
        assert not any(isinstance(part, list) for part in found.values()), name
        message.decode(b"").clear()
        assert message.decode(b"") == found, name
    assert set(kinds.values()) <= set(types)


# ── broken bodies ─────────────────────────────────────────────────────────────────────────────────────────────────


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _body(raw: bytes, api_version: str = "v1", kind: str = "Pod", *more: bytes) -> bytes:
    type_meta = _field(1, api_version.encode()) + _field(2, kind.encode())
    return b"k8s\x00" + _field(1, type_meta) + _field(2, raw) + b"".join(more)


def _deep(levels: int) -> bytes:
    schema = b""
    for _ in range(levels):
        schema = _field(29, _field(1, b"a") + _field(2, schema))
    versions = _field(7, _field(4, _field(1, schema)))
    return _body(_field(2, versions), "apiextensions.k8s.io/v1", "CustomResourceDefinition")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "does not start with", id="nothing at all"),
        pytest.param(b'{"kind":"Pod"}', "does not start with", id="JSON under the wrong media type"),
        pytest.param(
            _body(b"", "e.io/v1", "Widget"), 'no kind "Widget" is registered for version "e.io/v1"', id="custom"
        ),
        pytest.param(b"k8s\x00", 'no kind ""', id="an envelope with nothing in it"),
        pytest.param(_body(b"")[:-1] + b"\x05", "ends within a field", id="a length past the end"),
        pytest.param(_body(b"\xff" * 11), "over ten bytes", id="an endless integer"),
        pytest.param(_body(b"\x80"), "ends within an integer", id="half an integer"),
        pytest.param(_body(b"\x08\x01"), "field 1 of api.core.v1.Pod has the wrong type 0", id="metadata as a number"),
        pytest.param(_body(b"\x0b"), "wire type 3 is not used", id="a group"),
        pytest.param(_body(b"\x02\x00"), "number 0", id="field zero"),
        pytest.param(_body(_field(1, _field(1, b"\xff"))), "not UTF-8", id="a name in Latin-1"),
        pytest.param(_body(b"", "v1", "Pod", _field(3, b"gzip")), "encoded as 'gzip'", id="compressed content"),
        pytest.param(_body(b"", "v1", "Pod", _field(4, b"text/x")), "of type 'text/x'", id="content of another type"),
        pytest.param(_body(b"[]", "v1", "Pod", _field(4, b"application/json")), "no object", id="a JSON list inside"),
        pytest.param(_deep(120), "over 100 levels deep", id="a schema that never ends"),
        pytest.param(_body(_field(1, _field(8, b"\x08" + _varint(1 << 62)))), "years 1 to 9999", id="a far future"),
        pytest.param(
            _body(_field(2, _field(1, b"{")), "apps/v1", "ControllerRevision"), "not JSON", id="raw JSON cut short"
        ),
    ],
)
def test_broken_bodies_are_bad_requests_that_say_what_is_wrong(body: bytes, said: str) -> None:
    with pytest.raises(BadRequest, match=said.replace("(", r"\(")):
        protobuf.decode(body)


def test_numbers_that_json_cannot_hold_are_refused() -> None:
    schema = b"\x49" + struct.pack("<d", float("inf"))  # field 9, maximum
    versions = _field(7, _field(4, _field(1, schema)))
    with pytest.raises(BadRequest, match="inf is not a number"):
        protobuf.decode(_body(_field(2, versions), "apiextensions.k8s.io/v1", "CustomResourceDefinition"))


def test_fields_from_the_future_are_skipped() -> None:
    unknown = b"\xf8\x7f\x01" + b"\xf9\x7f" + b"\0" * 8 + b"\xfd\x7f" + b"\0" * 4 + b"\xfa\x7f\x01x"
    assert protobuf.decode(_body(unknown + _field(1, _field(1, b"p"))))["metadata"] == {"name": "p"}


def test_packed_numbers_are_read_as_unpacked_ones() -> None:
    types, _ = messages.table()
    requirement = types["api.batch.v1.PodFailurePolicyOnExitCodesRequirement"]
    assert requirement.decode(b"\x18\x01\x18\x2a") == requirement.decode(b"\x1a\x02\x01\x2a")
    assert requirement.decode(b"\x1a\x02\x01\x2a")["values"] == [1, 42]


def test_options_exist_in_every_group() -> None:
    body = _body(b"\x08\x00", "apps/v1", "DeleteOptions")
    assert protobuf.decode(body) == {"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("nanoseconds", "said"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (2_000_000, "2ms"),
        (1_000_000_000, "1s"),
        (90_250_000_000, "1m30.25s"),
        (3_600_000_000_000, "1h0m0s"),
        (-5_000_000_000, "-5s"),
    ],
)
def test_durations_read_as_go_writes_them(nanoseconds: int, said: str) -> None:
    assert special.duration({"duration": nanoseconds}) == said


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_a_bad_request(content: bytes) -> None:
    for body in (content, b"k8s\x00" + content, _body(content), _body(content, "apps/v1", "ControllerRevision")):
        _decodes_or_is_refused(body)


@given(st.sampled_from(NAMES), st.data())
def test_damaged_objects_decode_or_are_a_bad_request(name: str, data: st.DataObject) -> None:
    body = bytearray((GOLDEN / f"{name}.pb").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not body:
            break
    _decodes_or_is_refused(bytes(body))


def _decodes_or_is_refused(body: bytes) -> None:
    try:
        found = protobuf.decode(body)
    except BadRequest:
        return
    assert isinstance(found, dict)
    json.dumps(found, allow_nan=False)  # and it is JSON


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b'{"a":[' + b",".join([b"[]"] * 200_000) + b"]}", f"limit is {MAX_VALUES} values", id="values"),
        pytest.param(b'{"a":[' + b",".join([b"1" * 500] * 200) + b"]}", "more than 400 characters", id="digits"),
        pytest.param(b'{"a":' * 200 + b"1" + b"}" * 200, "nested too deeply", id="depth"),
    ],
)
def test_json_in_protobuf_has_the_limits_of_json(text: bytes, said: str) -> None:
    with pytest.raises(ApiError, match=said):
        protobuf.decode(_envelope(text))


def _envelope(text: bytes) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        size, length = len(data), b""
        while size > 127:
            length, size = length + bytes((size & 127 | 128,)), size >> 7
        return bytes((number << 3 | 2,)) + length + bytes((size,)) + data

    kind = field(1, b"v1") + field(2, b"ConfigMap")
    return b"k8s\0" + field(1, kind) + field(2, text) + field(4, b"application/json")
