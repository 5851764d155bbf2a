"""Calls of any content, in either form, at every endpoint: they are answered, never with a fault of ours."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api.meta import Json
from strato.api.wire import Request
from strato.interop.mesos.wire import JSON, PROTOBUF, message
from strato.interop.mesos.wire.messages import table
from tests.interop.mesos.worlds import World, task

_TEXTS = (
    "",
    "S0",
    "t",
    "u",
    "m-0000",
    "m-O0",
    "m-O1",
    "*",
    "a",
    "a/b",
    "/",
    "cpus",
    "mem",
    "ports",
    "x" * 300,
    "\x00",
    "é",
)
_NUMBERS = (0, 1, 2, 5, -1, 31000, 10**9, 2**31 - 1)


def anything(kind: str, rng: random.Random, depth: int = 0) -> Any:
    """Return a value of a type of the table."""
    known = table()
    if kind in known.enums:
        return rng.choice(sorted(known.enums[kind]))
    if kind not in known.messages:
        return {
            "string": lambda: rng.choice(_TEXTS),
            "bytes": lambda: base64.b64encode(rng.choice((b"", b"data", bytes(16)))).decode(),
            "bool": lambda: rng.random() < 0.5,
            "double": lambda: rng.choice((0.0, 0.5, 1.0, 32.0, -1.0, 1e18)),
        }.get(kind, lambda: abs(rng.choice(_NUMBERS)) if kind.startswith("u") else rng.choice(_NUMBERS))()
    found: Json = {}
    for name, inner, label in known.messages[kind].values():
        if label != "q" and rng.random() > (0.5 if depth < 3 else 0.15):
            continue
        if depth > 8 and label != "q":
            continue
        if label == "l":
            found[name] = [anything(inner, rng, depth + 1) for _ in range(rng.randrange(3))]
        elif label == "m":
            found[name] = {rng.choice(_TEXTS): anything(inner, rng, depth + 1)}
        else:
            found[name] = anything(inner, rng, depth + 1)
    return found


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/v1/scheduler", "scheduler.Call"),
        ("/api/v1/executor", "executor.Call"),
        ("/api/v1", "master.Call"),
        ("/slave(S0)/api/v1", "agent.Call"),
    ],
)
@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([JSON, PROTOBUF]))
def test_any_call_is_answered(path: str, kind: str, rng: random.Random, content_type: str) -> None:
    async def main() -> None:
        world = World()
        world.agent()
        framework, listener = world.subscribe(failover_timeout=10)
        executor = {"executor_id": {"value": "u"}, "command": {"value": "x"}}
        world.launch(framework, listener, task(), task("own", executor=executor))
        listener.events.clear()
        for _ in range(4):
            call = anything(kind, rng)
            if kind == "scheduler.Call" and rng.random() < 0.4:
                call["type"] = "ACCEPT"
            if rng.random() < 0.9:
                call["framework_id"] = {"value": framework.id}
            if rng.random() < 0.8 and call.get("type"):
                body = call["type"].lower()
                inner = next((row for row in table().messages[kind].values() if row[0] == body), None)
                if inner is not None:
                    call[body] = anything(inner[1], rng, 1)
            if call.get("type") == "ACCEPT" and framework.offers and rng.random() < 0.9:
                call.setdefault("accept", {})["offer_ids"] = [{"value": next(iter(framework.offers))}]
            headers = {"content-type": content_type, "mesos-stream-id": framework.stream_id}
            if rng.random() < 0.3:
                del headers["mesos-stream-id"]
            body_bytes = message(kind).encode(call, content_type)
            response = await world.endpoints.handle(Request("POST", path, headers=headers, body=body_bytes))
            assert 200 <= response.status < 502
            assert response.status != 500
            world.advance(rng.choice((0.1, 1.0, 20.0)))

    asyncio.run(main())


_FORMS = (
    b"[]",
    b"{}",
    b"null",
    b'[{"role":"a"}]',
    b'[{"role":"a","weight":-1}]',
    b'{"windows":[{"machine_ids":[{}]}]}',
    b"frameworkId=x",
    b"slaveId=S0&resources=[]",
    b'{"role":"a","guarantee":[{"name":"cpus"}]}',
)
_PATHS = ("/weights", "/quota", "/teardown", "/maintenance/schedule", "/machine/down", "/reserve")


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(_PATHS),
    st.sampled_from(("POST", "PUT", "DELETE", "PATCH")),
    st.binary(max_size=60) | st.sampled_from(_FORMS),
)
def test_any_form_is_answered(path: str, method: str, body: bytes) -> None:
    async def main() -> None:
        world = World()
        world.agent()
        response = await world.endpoints.handle(Request(method, path, body=body))
        assert response.status in (200, 202, 400, 404, 405, 409)

    asyncio.run(main())
