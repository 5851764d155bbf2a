"""Answers in protobuf over real connections, by what clients accept."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from strato.api.wire import User
from strato.clock import SystemClock
from strato.errors import Gone
from strato.http import listen
from strato.server import http, protobuf
from strato.server.embedded import in_memory_server
from strato.server.negotiation import PROTOBUF, Accepted, accepted
from strato.server.protobuf.wire import blobs
from strato.server.rest.reframing import reframed
from strato.server.rest.watching import ended_with
from tests.server.asking import ADMIN

JSON, META = "application/json", "g=meta.k8s.io;v=v1"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    core = in_memory_server(SystemClock(), random.Random(1))

    def authenticate(headers: object, peer: object) -> User:
        return ADMIN

    server = await listen.serve(http.create_app(core, authenticate, flows=core.state.flows))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield session
    await server.stop()


async def asked(
    session: aiohttp.ClientSession, path: str, accept: str = PROTOBUF, method: str = "GET", body: Any = None
) -> tuple[int, str, bytes]:
    headers = {"Accept": accept, "Content-Type": JSON}
    data = None if body is None else json.dumps(body)
    async with session.request(method, path, headers=headers, data=data) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.read()


def frames(stream: bytes) -> list[tuple[str, Any]]:
    found = []
    while stream:
        end = 4 + int.from_bytes(stream[:4], "big")
        (event_type, obj) = _event(stream[4:end])
        found.append((event_type, protobuf.decode(obj)))
        stream = stream[end:]
    return found


def _event(data: bytes) -> tuple[str, bytes]:
    fields = blobs(data)
    return fields[1].decode(), blobs(fields[2])[1]


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", Accepted()),
        ("*/*", Accepted()),
        (PROTOBUF, Accepted(PROTOBUF)),
        (f"{PROTOBUF}, */*", Accepted(PROTOBUF)),
        (f"*/*,{PROTOBUF}", Accepted(PROTOBUF)),
        (f"{JSON},{PROTOBUF}", Accepted()),
        (f"{JSON};q=0.5,{PROTOBUF};q=0.9", Accepted(PROTOBUF)),
        (f"{PROTOBUF};stream=watch,{JSON}", Accepted(PROTOBUF)),
        (f"{PROTOBUF};stream=other,{JSON}", Accepted()),
        (f"{PROTOBUF};as=Table;{META},{JSON};as=Table;{META},{JSON}", Accepted(JSON, "Table")),
        (f"{PROTOBUF};as=PartialObjectMetadataList;{META}", Accepted(PROTOBUF, "PartialObjectMetadataList")),
        (f"{JSON};as=Table;g=other;v=v1", None),
        (f"{JSON};as=Chair;{META},{PROTOBUF}", Accepted(PROTOBUF)),
        ("text/html", None),
        (",;q=x,", None),
        ("a," * 10_000 + JSON, None),
    ],
)
def test_the_first_that_there_is_of_what_is_accepted(accept: str, wanted: Accepted | None) -> None:
    assert accepted(accept) == wanted


def test_custom_kinds_have_their_metadata_alone_in_protobuf() -> None:
    assert accepted(PROTOBUF, in_protobuf=False) is None
    assert accepted(f"{PROTOBUF},{JSON}", in_protobuf=False) == Accepted()
    only_metadata = f"{PROTOBUF};as=PartialObjectMetadata;{META}"
    assert accepted(only_metadata, in_protobuf=False) == Accepted(PROTOBUF, "PartialObjectMetadata")


async def test_all_verbs_answer_what_their_json_says(session: aiohttp.ClientSession) -> None:
    made = {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v" * 100_000}}
    for method, path, body, code in (
        ("POST", MAPS, made, 201),
        ("POST", MAPS, made, 409),
        ("PUT", f"{MAPS}/a", {**made, "data": {"k": "w"}}, 200),
        ("GET", f"{MAPS}/a", None, 200),
        ("GET", MAPS, None, 200),
        ("GET", f"{MAPS}/none", None, 404),
        ("GET", "/api/v1/nonsense", None, 404),
        ("GET", "/apis/apps/v1", None, 200),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}}, 422),
        ("DELETE", f"{MAPS}/a", None, 200),
    ):
        status, media, packed = await asked(session, path, f"{PROTOBUF}, */*", method, body)
        assert (status, media, packed[:4]) == (code, PROTOBUF, b"k8s\0"), path
        if method == "GET":
            _, media, text = await asked(session, path, JSON)
            assert media == JSON
            assert protobuf.encode(json.loads(text)) == packed, path


async def test_what_has_no_protobuf_stays_json_or_is_refused_before_anything_is_done(
    session: aiohttp.ClientSession,
) -> None:
    definition = {
        "metadata": {"name": "things.e.io"},
        "spec": {
            "group": "e.io",
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Status", "listKind": "ThingList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    crds, things = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/e.io/v1/things"
    status, media, _ = await asked(session, crds, PROTOBUF, "POST", definition)
    assert (status, media) == (201, PROTOBUF)
    thing = {"apiVersion": "e.io/v1", "kind": "Status", "metadata": {"name": "a"}}
    status, _, refusal = await asked(session, things, PROTOBUF, "POST", thing)
    assert (status, protobuf.decode(refusal)["reason"]) == (406, "NotAcceptable")
    status, _, listed = await asked(session, things, JSON)
    assert json.loads(listed)["items"] == []
    status, media, _ = await asked(session, things, f"{PROTOBUF},{JSON}", "POST", thing)
    assert (status, media) == (201, JSON)
    for path, suffix in ((things, "List"), (f"{things}/a", "")):
        status, media, _ = await asked(session, path, f"{PROTOBUF},{JSON}")
        assert (status, media) == (200, JSON)
        status, media, packed = await asked(session, path, f"{PROTOBUF};as=PartialObjectMetadata{suffix};{META}")
        assert (status, media) == (200, PROTOBUF)
        found = protobuf.decode(packed)
        assert [one["metadata"]["name"] for one in found.get("items", [found])] == ["a"]
    status, media, packed = await asked(session, f"{things}?watch=1&timeoutSeconds=1", f"{PROTOBUF},{JSON}")
    assert media == JSON


async def test_long_lists_and_watches_come_whole(session: aiohttp.ClientSession) -> None:
    for number in range(300):
        size = 70_000 if number % 100 == 7 else 2_000
        made = {"metadata": {"name": f"m{number:03}"}, "data": {"k": "v" * size}}
        assert (await asked(session, MAPS, JSON, "POST", made))[0] == 201
    _, _, text = await asked(session, MAPS, JSON)
    _, media, packed = await asked(session, MAPS)
    assert media == PROTOBUF
    assert protobuf.encode(json.loads(text)) == packed
    _, _, packed = await asked(session, f"{MAPS}?limit=2")
    assert len(protobuf.decode(packed)["items"]) == 2
    status, media, stream = await asked(session, f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0")
    assert (status, media) == (200, f"{PROTOBUF};stream=watch")
    events = frames(stream)
    assert {event_type for event_type, _ in events} == {"ADDED"}
    wanted = [(item["metadata"]["name"], item["data"]) for item in json.loads(text)["items"]]
    assert [(obj["metadata"]["name"], obj["data"]) for _, obj in events] == wanted


async def test_a_watch_from_too_long_ago_ends_with_a_status() -> None:
    flows = in_memory_server(SystemClock(), random.Random(1)).state.flows
    flow = flows.assigned(ADMIN, "GET", MAPS).flow
    end = ended_with(Gone("too old resource version"))
    answer = reframed(end, flows.dispatcher, flow, convert=None, in_protobuf=True)
    assert answer.stream is not None
    ((event_type, obj),) = frames(b"".join([chunk async for chunk in answer.stream]))
    assert (event_type, obj["kind"], obj["code"]) == ("ERROR", "Status", 410)
