"""What we make of a real kube-apiserver's JSON is, byte for byte, what it answers in protobuf."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.rest.record import kube_apiserver
from tests.server.rest.servers import Remote

from strato.server import protobuf
from strato.server.negotiation import JSON, PROTOBUF

pytestmark = [pytest.mark.kube, pytest.mark.timeout(600)]

GOLDEN = Path(__file__).parent / "golden/data"
META = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
META_LIST = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TRIES = 5
"""An object may change between two questions."""


@pytest.fixture(scope="module")
def server() -> Iterator[Remote]:
    """A real server with an object of many kinds."""
    with kube_apiserver() as remote:
        paths = {kind: path for path, kind, _ in _resources(remote)}
        for source in sorted(GOLDEN.glob("*.json")):
            obj = json.loads(source.read_text())
            path = paths.get((obj["apiVersion"], obj["kind"]))
            if path is not None:  # some are refused: they set what does not go together
                _ask(remote, "POST", path, body=msgspec.json.encode(obj))
        yield remote


def _ask(server: Remote, method: str, path: str, query: str = "", accept: str = JSON, body: bytes = b"") -> bytes:
    headers = {"accept": accept, "content-type": JSON}
    return server.ask_now(method, path, query, headers, body).body


def _resources(server: Remote) -> Iterator[tuple[str, tuple[str, str], list[str]]]:
    """Yield path, kind and verbs of what is served; what has namespaces in the default one."""
    groups = json.loads(_ask(server, "GET", "/apis"))["groups"]
    versions = ["v1", *(version["groupVersion"] for group in groups for version in group["versions"])]
    for version in versions:
        root = f"/{'api' if version == 'v1' else 'apis'}/{version}"
        for found in json.loads(_ask(server, "GET", root))["resources"]:
            if "/" not in found["name"]:
                middle = "/namespaces/default" if found["namespaced"] else ""
                yield f"{root}{middle}/{found['name']}", (version, found["kind"]), found["verbs"]


def _pairs(server: Remote, path: str, query: str = "", form: str = "") -> tuple[Any, bytes]:
    """Return the same answer in JSON and in protobuf."""
    for _ in range(_TRIES):
        before = _ask(server, "GET", path, query, JSON + form)
        packed = _ask(server, "GET", path, query, PROTOBUF + form)
        if before == _ask(server, "GET", path, query, JSON + form):
            break
    return json.loads(before), packed


def test_lists_and_objects_of_every_kind(server: Remote) -> None:
    compared = 0
    for path, (version, kind), verbs in _resources(server):
        if "list" not in verbs or kind == "ComponentStatus":  # which is measured anew each time
            continue
        everywhere = path.replace("/namespaces/default", "")
        listed, packed = _pairs(server, everywhere)
        assert protobuf.encode(listed) == packed, everywhere
        for item in listed["items"][:3]:
            namespace = item["metadata"].get("namespace", "")
            middle = f"/namespaces/{namespace}" if namespace else ""
            root, _, plural = everywhere.rpartition("/")
            one = f"{root}{middle}/{plural}/{item['metadata']['name']}"
            obj, packed = _pairs(server, one)
            assert (obj["apiVersion"], obj["kind"]) == (version, kind)
            assert protobuf.encode(obj) == packed, one
            obj, packed = _pairs(server, one, form=META)
            assert protobuf.encode(obj) == packed, one
            compared += 1
        listed, packed = _pairs(server, everywhere, "limit=1", META_LIST)
        if "continue" not in listed["metadata"]:  # a token has the time in it
            assert protobuf.encode(listed) == packed, everywhere
    assert compared > 40


def test_what_is_no_object_of_a_kind(server: Remote) -> None:
    for path in ("/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1/pods/a/b/c", "/api/v1/namespaces/missing"):
        obj, packed = _pairs(server, path)
        assert protobuf.encode(obj) == packed, path


@pytest.mark.parametrize("form", ["", META])
def test_watches(server: Remote, form: str) -> None:
    for path in ("/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/services"):
        query = "watch=true&timeoutSeconds=1&resourceVersion=0"
        events = [json.loads(line) for line in _ask(server, "GET", path, query, JSON + form).splitlines()]
        packed = _ask(server, "GET", path, query, PROTOBUF + form)
        frames = [protobuf.watch_frame(event["type"], protobuf.encode(event["object"]) or b"") for event in events]
        assert len(frames) >= 1
        assert sorted(frames) == sorted(_frames(packed)), path


def _frames(stream: bytes) -> Iterator[bytes]:
    while stream:
        size = 4 + int.from_bytes(stream[:4], "big")
        yield stream[:size]
        stream = stream[size:]
