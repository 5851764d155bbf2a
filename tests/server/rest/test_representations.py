"""What clients accept, and are given."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from strato.api.wire import Request
from strato.clock import SystemClock, VirtualClock
from strato.server.embedded import in_memory_server
from tests.server.asking import ADMIN, Client


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json;as=Table;v=v1;g=meta.k8s.io", 406),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 201),
        ("application/json", 201),
    ],
)
def test_questions_have_no_tables(accept: str, status: int) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = json.dumps({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).encode()
    headers = {"content-type": "application/json", "accept": accept}
    server = in_memory_server(VirtualClock(), random.Random(1))
    answer = asyncio.run(server.handle(Request("POST", path, {}, headers, body, ADMIN)))
    assert answer.status == status


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_tables_are_of_the_version_asked_for(version: str) -> None:
    headers = {"accept": f"application/json;as=Table;v={version};g=meta.k8s.io"}
    server = in_memory_server(VirtualClock(), random.Random(1))
    answer = asyncio.run(server.handle(Request("GET", "/api/v1/namespaces", {}, headers, b"", ADMIN)))
    assert json.loads(answer.body)["apiVersion"] == f"meta.k8s.io/{version}"


ENV = [{"name": f"V{number}", "value": "x"} for number in range(4_000)]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("path", "plural", "accept", "shown"),
    [
        pytest.param(
            "/api/v1/namespaces/default/pods", "pods", TABLE, lambda obj: obj["rows"][0]["cells"][0], id="a table"
        ),
        pytest.param(
            "/apis/events.k8s.io/v1/namespaces/default/events",
            "events",
            "application/json",
            lambda obj: obj["regarding"]["name"],
            id="another version",
        ),
    ],
)
async def test_large_objects_of_a_watch_are_converted_in_slices(
    path: str, plural: str, accept: str, shown: Callable[[Any], str]
) -> None:
    client = Client(in_memory_server(SystemClock(), random.Random(1)))
    core = f"/api/v1/namespaces/default/{plural}"
    for name in ("a", "b"):
        metadata = {"name": name, "labels": {f"l-{number}": "x" for number in range(6_000)}}
        made = {"metadata": metadata, "involvedObject": {"name": name, "namespace": "default"}, "reason": "r"}
        if plural == "pods":
            made = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "env": ENV}]}}
        await client.ask("POST", core, made)
    dispatcher = client.server.state.flows.dispatcher
    query = {"watch": ["true"], "timeoutSeconds": ["1"], "resourceVersion": ["0"], "allowWatchBookmarks": ["true"]}
    answer = await client.server.handle(Request("GET", path, query, {"accept": accept}, b"", ADMIN))
    assert answer.stream is not None
    before = dispatcher.slices
    events = [json.loads(line) async for chunk in answer.stream for line in chunk.splitlines()]
    assert [(event["type"], shown(event["object"])) for event in events] == [("ADDED", "a"), ("ADDED", "b")]
    assert dispatcher.slices - before > 4
