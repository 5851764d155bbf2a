"""Messages of Mesos in JSON and protobuf: one form in memory, and nothing hostile gets in."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.mesos.wire import JSON, PROTOBUF, MalformedMessage, MissingFields, NotJson, enum_names, message

CALL = message("scheduler.Call")
SUBSCRIBE = {
    "type": "SUBSCRIBE",
    "subscribe": {
        "framework_info": {
            "user": "u",
            "name": "n",
            "failover_timeout": 100.5,
            "checkpoint": True,
            "roles": ["a", "b/c"],
            "capabilities": [{"type": "MULTI_ROLE"}],
            "offer_filters": {
                "a": {"min_allocatable_resources": {"quantities": [{"quantities": {"cpus": {"value": 1.0}}}]}}
            },
        },
        "suppressed_roles": ["a"],
    },
}


def test_bytes_on_the_wire_are_protobufs() -> None:
    """Type = SUBSCRIBE (field 2, value 1), framework_id (field 1) of value 'f' (field 1)."""
    data = CALL.to_protobuf({"type": "SUBSCRIBE", "framework_id": {"value": "f"}})
    assert data == b"\x0a\x03\x0a\x01f\x10\x01"


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
def test_a_call_survives_either_form(content_type: str) -> None:
    assert CALL.decode(CALL.encode(SUBSCRIBE, content_type), content_type) == SUBSCRIBE


def test_unknown_fields_and_values_of_enums_are_left_out() -> None:
    body = b'{"type": "NO_SUCH", "command.environment": {"a": 1}, "subscribe": {"x": null, "suppressed_roles": null}}'
    assert CALL.from_json(body) == {"subscribe": {}}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"[]", "Expected a JSON object for scheduler.Call"),
        (b'{"type": 1}', "Expected the name of a value for type"),
        (b'{"accept": {"offer_ids": {}}}', "Expected a JSON array for accept.offer_ids"),
        (b'{"acknowledge": {"uuid": "!"}}', "Failed to base64 decode the bytes of acknowledge.uuid"),
        (
            b'{"accept": {"filters": {"refuse_seconds": "5"}}}',
            "Expected a JSON number for accept.filters.refuse_seconds",
        ),
        (
            b'{"accept": {"filters": {"refuse_seconds": true}}}',
            "Expected a JSON number for accept.filters.refuse_seconds",
        ),
    ],
)
def test_what_is_no_call_names_its_field(body: bytes, text: str) -> None:
    with pytest.raises(MalformedMessage, match="^" + text.replace("[", r"\[")):
        CALL.from_json(body)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_said_to_be(body: bytes) -> None:
    with pytest.raises(NotJson):
        CALL.from_json(body)


@pytest.mark.parametrize(
    "body", [b"\x0a", b"\x0a\x05\x0a", b"\x0a\xff\xff\xff\xff\x7f", b"\x08\x01", b"\x12\x01a", b"\xff" * 20, b"\x0b"]
)
def test_broken_protobuf_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        CALL.from_protobuf(body)


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
def test_depth_is_bounded(content_type: str) -> None:
    kind = message("ContainerID")
    value: dict[str, object] = {"value": "x"}
    for _ in range(100):
        value = {"value": "x", "parent": value}
    with pytest.raises(MalformedMessage, match="levels deep"):
        kind.decode(kind.encode(value, content_type), content_type)


def test_missing_fields_are_named_all_at_once() -> None:
    call = CALL.from_json(b'{"subscribe": {"framework_info": {"capabilities": [{}, {"type": "MULTI_ROLE"}]}}}')
    with pytest.raises(MissingFields) as caught:
        CALL.check_required(call)
    assert sorted(caught.value.paths) == ["subscribe.framework_info.name", "subscribe.framework_info.user"]


def test_enums_have_their_names() -> None:
    assert "TASK_RUNNING" in enum_names("TaskState")


_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_RESOURCES = st.lists(
    st.fixed_dictionaries(
        {
            "name": _TEXT,
            "type": st.sampled_from(["SCALAR", "RANGES", "SET"]),
        },
        optional={
            "scalar": st.fixed_dictionaries({"value": st.floats(allow_nan=False, allow_infinity=False)}),
            "ranges": st.fixed_dictionaries(
                {
                    "range": st.lists(
                        st.fixed_dictionaries({"begin": st.integers(0, 2**64 - 1), "end": st.integers(0, 9)}),
                        min_size=1,
                    )
                }
            ),
            "set": st.fixed_dictionaries({"item": st.lists(_TEXT, min_size=1)}),
        },
    ),
    min_size=1,
    max_size=3,
)


@given(
    st.fixed_dictionaries(
        {"name": _TEXT, "task_id": st.fixed_dictionaries({"value": _TEXT}), "resources": _RESOURCES},
        optional={
            "data": st.binary().map(lambda data: base64.b64encode(data).decode()),
            "limits": st.dictionaries(_TEXT, st.fixed_dictionaries({"value": st.floats(0, 1e6)}), min_size=1),
        },
    )
)
def test_tasks_are_the_same_after_protobuf_and_json(task: dict[str, object]) -> None:
    kind = message("TaskInfo")
    assert kind.from_protobuf(kind.to_protobuf(task)) == task
    assert kind.from_json(kind.encode(task, JSON)) == task


@given(st.binary(max_size=200))
def test_noise_is_a_message_or_refused(noise: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        CALL.from_protobuf(noise)
