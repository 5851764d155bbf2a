"""Bytes of real servers into views."""

from __future__ import annotations

import json

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import EventType
from strato.client.codec import codec_of, next_token


@pytest.mark.parametrize("kind", [Pod, catalog.POD])
def test_a_bookmark_counts_although_its_object_is_hollow(kind: type[Pod], caplog: pytest.LogCaptureFixture) -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "resourceVersion": "4"}, "spec": {}}
    mark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "5", "creationTimestamp": None}}
    hollow = {**mark, "spec": {"containers": None}, "status": {}}  # as kube-apiserver 1.36 writes it
    lines = [{"type": "ADDED", "object": pod}, {"type": "BOOKMARK", "object": hollow}]
    events = codec_of(kind).decode_events(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert [event.type for event in events] == [EventType.ADDED, EventType.BOOKMARK]
    last = events[1].object
    assert (last["metadata"]["resourceVersion"] if isinstance(last, dict) else last.metadata.resource_version) == "5"
    assert not caplog.records


@pytest.mark.parametrize(
    ("body", "token"),
    [
        pytest.param(
            b'{"kind":"PodList","metadata":{"continue":"go-on"},"items":[{}]}', "go-on", id="as servers say it"
        ),
        pytest.param(
            b'{"metadata":{"continue":"an \\"items\\": in it"},"items":[]}', 'an "items": in it', id="a quote"
        ),
        pytest.param(b'{"metadata":{},"items":[{"metadata":{"continue":"x"}}]}', "", id="the last page"),
        pytest.param(b'{"items":[],"metadata":{"continue":"late"}}', "", id="after the items"),
        pytest.param(b'{"items": [', "", id="cut off"),
        pytest.param(b"no JSON", "", id="no list"),
    ],
)
def test_where_a_list_goes_on_is_read_before_its_items(body: bytes, token: str) -> None:
    assert next_token(body) == token
