"""Objects of one template share their spec, and are what they would be if each were decoded for itself."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.batch import Job
from strato.client import specs
from strato.client.cluster import WatchEvent
from strato.client.codec import Codec

_ODD = ("", "n1", "n2", "é", 'a"b', "a\\b", '"nodeName":"n1"', "nodeName", "\\u0041")
_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "schedulerName": st.sampled_from(("volcano", *_ODD)),
        "nodeName": st.sampled_from(_ODD),
        "nodeSelector": st.dictionaries(st.sampled_from(("zone", "nodeName")), st.sampled_from(_ODD), max_size=2),
        "containers": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("ab"), "image": st.sampled_from(("i", *_ODD))}), max_size=2
        ),
        "unknown": st.dictionaries(st.just("nodeName"), st.sampled_from(_ODD)),
    },
)
_POD = st.tuples(
    st.lists(_SPEC.flatmap(lambda spec: st.permutations(list(spec.items())).map(dict)), min_size=1, max_size=2),
    st.fixed_dictionaries(
        {"metadata": st.fixed_dictionaries({"name": st.sampled_from("pq"), "namespace": st.just("ns")})},
        optional={"status": st.fixed_dictionaries({"phase": st.sampled_from(("Pending", "Running"))})},
    ),
    st.booleans(),
)
"""Specs, the other members, and whether the writer leaves spaces and escapes what is not ASCII."""


def frame(kind: str, pod: dict[str, Any], spaces: bool = False) -> bytes:
    body = {"type": kind, "object": {"apiVersion": "v1", "kind": "Pod", **pod}}
    return (json.dumps(body).encode() if spaces else msgspec.json.encode(body)) + b"\n"


@given(st.lists(_POD, max_size=6))
def test_what_is_decoded_is_what_plain_decoding_gives(pods: list[Any]) -> None:
    codec: Codec[Pod] = Codec(catalog.POD, Pod)
    plain = msgspec.json.Decoder(WatchEvent[Pod])
    for several, members, spaces in pods:
        for spec in (*several, *reversed(several)):  # each is met again, after another one
            lines = frame("ADDED", {**members, "spec": spec}, spaces)
            assert codec.decode_events(lines) == plain.decode_lines(lines)
            body = msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **members, "spec": spec})
            assert codec.decode_object(body) == msgspec.json.decode(body, type=Pod)


def pod(name: str, spec: dict[str, Any] | None, **members: Any) -> dict[str, Any]:
    whole = {"metadata": {"name": name, "namespace": "ns"}, **members}
    return whole if spec is None else {**whole, "spec": spec}


TEMPLATE: dict[str, Any] = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}


def test_pods_of_one_template_share_what_is_not_their_own() -> None:
    codec: Codec[Pod] = Codec(catalog.POD, Pod)
    bodies = [pod("a", TEMPLATE), pod("b", TEMPLATE)]
    bodies += [pod(name, {**TEMPLATE, "nodeName": node}) for name, node in (("a", "n1"), ("b", "n2"), ("b", "n2"))]
    first, second, *placed = (
        event.object.spec for event in codec.decode_events(b"".join(frame("ADDED", b) for b in bodies))
    )
    assert first is second
    assert [spec.node_name for spec in placed] == ["n1", "n2", "n2"]
    assert all(spec.containers is placed[0].containers for spec in placed)


@pytest.mark.parametrize(
    "name",
    ['a"b', "a\\b", "é"],
    ids=["a quote in the name", "a backslash in the name", "a letter beyond ASCII in the name"],
)
def test_a_name_that_no_node_has_is_read_as_it_is(name: str) -> None:
    codec: Codec[Pod] = Codec(catalog.POD, Pod)
    bodies = [pod("a", {**TEMPLATE, "nodeName": node}) for node in ("n1", name, "n1", name)]
    events = codec.decode_events(b"".join(frame("ADDED", body) for body in bodies))
    assert [event.object.spec.node_name for event in events] == ["n1", name, "n1", name]


def test_objects_without_a_spec_have_the_default_one() -> None:
    codec: Codec[Pod] = Codec(catalog.POD, Pod)
    events = codec.decode_events(
        frame("ADDED", pod("a", None)) + frame("ADDED", pod("b", TEMPLATE)) + frame("ADDED", pod("c", None))
    )
    assert [event.object.spec.scheduler_name for event in events] == ["", "volcano", ""]


def test_a_spec_that_does_not_fit_leaves_out_its_own_object_only(caplog: pytest.LogCaptureFixture) -> None:
    codec: Codec[Pod] = Codec(catalog.POD, Pod)
    bad = {**TEMPLATE, "nodeName": 3}
    items = [pod("a", TEMPLATE), pod("bad", bad), pod("b", TEMPLATE)]
    events = codec.decode_events(b"".join(frame("ADDED", item) for item in items))
    page = codec.decode_list(msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items}))
    assert [event.object.metadata.name for event in events] == [item.metadata.name for item in page.items] == ["a", "b"]
    assert [record.getMessage().count("name=ns/bad") for record in caplog.records] == [1, 1]


def test_items_of_a_list_say_what_they_are() -> None:
    codec: Codec[Job] = Codec(catalog.VCJOB, Job)
    page = codec.decode_list(msgspec.json.encode({"metadata": {}, "items": [{"metadata": {"name": "j"}}]}))
    assert [(job.api_version, job.kind) for job in page.items] == [("batch.volcano.sh/v1alpha1", "Job")]


def test_specs_that_all_differ_are_forgotten_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs, "_BYTES", 8000)
    sharing = specs.SpecSharing(catalog.POD, Pod)
    decode = msgspec.json.Decoder(sharing.frame).decode
    for number in range(100):
        for node in ("n1", "n2"):
            spec = {**TEMPLATE, "nodeName": node, "hostname": f"h{number}"}
            whole = sharing.whole(decode(msgspec.json.encode(pod("a", spec))))
            assert (whole.spec.node_name, whole.spec.hostname) == (node, f"h{number}")
    assert 1 < len(sharing) < 20


def test_the_bytes_of_a_spec_are_known_as_long_as_it_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view leaves out most of a template; whoever makes pods of it needs all."""
    monkeypatch.setattr(specs, "_BYTES", 8000)
    codec: Codec[Job] = Codec(catalog.VCJOB, Job)
    jobs = []
    for number in range(20):
        spec = {"minAvailable": number, "tasks": [{"template": {"spec": {"containers": [{"args": ["x"]}]}}}]}
        raw = msgspec.json.encode({"metadata": {"name": "j"}, "spec": spec})
        jobs.append(codec.decode_object(raw))
        assert codec.written_spec(jobs[-1].spec) == msgspec.json.encode(spec)
        assert codec.decode_object(raw).spec is jobs[-1].spec
    assert codec.written_spec(jobs[0].spec) is None
    assert codec.written_spec(Job().spec) is None
    long = msgspec.json.encode({"spec": {"tasks": [{"name": "x" * 9000}]}})
    assert codec.written_spec(codec.decode_object(long).spec) is None


def test_of_pods_no_bytes_are_known() -> None:
    codec: Codec[Pod] = Codec(catalog.POD, Pod)
    assert codec.written_spec(codec.decode_object(msgspec.json.encode(pod("a", TEMPLATE))).spec) is None
