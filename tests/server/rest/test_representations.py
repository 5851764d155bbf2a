"""What clients accept, and are given."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from strato.api.wire import Request
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from tests.server.asking import ADMIN


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
