"""The order of checks, statuses and texts of the scheduler's endpoint; redirects; credentials; pages; streams."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from strato.api.wire import Request, Response
from strato.clock import SystemClock
from strato.http.listen import serve
from strato.http.plain import PlainService
from strato.interop.mesos.endpoints.service import MasterEndpoints
from strato.interop.mesos.wire import JSON, PROTOBUF, message
from strato.testing.mesosframework import FrameworkClient
from tests.interop.mesos.worlds import World, read_events

SUBSCRIBE: dict[str, Any] = {"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "u", "name": "n"}}}


def _ask(world: World, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(world.endpoints.handle(Request(method, path, headers=named, body=body)))


@pytest.mark.parametrize(
    ("method", "headers", "body", "status", "text"),
    [
        ("GET", {}, b"", 405, "Expecting one of { 'POST' }, but received 'GET'"),
        ("POST", {}, b"x", 400, "Expecting 'Content-Type' to be present"),
        ("POST", {"content_type": JSON}, b"x", 400, "Failed to parse body into JSON: "),
        ("POST", {"content_type": JSON}, b"[]", 400, "Failed to convert JSON into Call protobuf: "),
        ("POST", {"content_type": PROTOBUF}, b"\xff", 400, "Failed to parse body into Call protobuf"),
        ("POST", {"content_type": "text/plain"}, b"{}", 415, "Expecting 'Content-Type' of application/json or"),
        ("POST", {"content_type": JSON}, b"{}", 400, "Failed to validate scheduler::Call: Expecting 'type' to be"),
        ("POST", {"content_type": JSON}, b'{"type": "ACCEPT"}', 400,
         "Failed to validate scheduler::Call: Expecting 'framework_id' to be present"),
        ("POST", {"content_type": JSON}, b'{"type": "ACCEPT", "framework_id": {"value": "f"}}', 400,
         "Failed to validate scheduler::Call: Expecting 'accept' to be present"),
        ("POST", {"content_type": JSON}, b'{"type": "REVIVE", "framework_id": {"value": "f"}}', 400,
         "Framework cannot be found"),
        ("POST", {"content_type": JSON, "accept": "text/html"}, msgspec.json.encode(SUBSCRIBE), 406,
         "Expecting 'Accept' to allow"),
        ("POST", {"content_type": JSON, "mesos_stream_id": "x"}, msgspec.json.encode(SUBSCRIBE), 400,
         "Subscribe calls should not include the 'Mesos-Stream-Id' header"),
        ("POST", {"content_type": JSON}, b'{"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "u"}}}', 400,
         "Failed to validate scheduler::Call: Not initialized: subscribe.framework_info.name"),
    ],
)  # fmt: skip
def test_first_failure_wins(method: str, headers: dict[str, str], body: bytes, status: int, text: str) -> None:
    response = _ask(World(), method, "/api/v1/scheduler", body, **headers)
    assert response.status == status
    assert response.body.decode().startswith(text)
    if status == 405:
        assert response.headers["Allow"] == "POST"


def test_calls_need_the_stream_they_belong_to() -> None:
    world = World()
    framework, listener = world.subscribe(failover_timeout=10)
    body = msgspec.json.encode({"type": "REVIVE", "framework_id": {"value": framework.id}})
    without = _ask(world, "POST", "/api/v1/scheduler", body, content_type=JSON)
    other = _ask(world, "POST", "/api/v1/scheduler", body, content_type=JSON, mesos_stream_id="x")
    right = _ask(world, "POST", "/api/v1/scheduler", body, content_type=JSON, mesos_stream_id=framework.stream_id)
    assert (without.status, other.status, right.status, right.body) == (400, 400, 202, b"")
    assert without.body.startswith(b"All non-subscribe calls should include")
    assert other.body.startswith(b"The stream ID 'x' included in this request didn't match")
    world.master.disconnect(listener, world.now)
    gone = _ask(world, "POST", "/api/v1/scheduler", body, content_type=JSON, mesos_stream_id=framework.stream_id)
    assert (gone.status, gone.body) == (403, b"Framework is not subscribed")


def test_a_protobuf_stream_is_protobuf() -> None:
    world = World()
    body = message("scheduler.Call").to_protobuf(SUBSCRIBE)
    response = _ask(world, "POST", "/master/api/v1/scheduler", body, content_type=PROTOBUF, accept=PROTOBUF)
    assert (response.status, response.content_type) == (200, PROTOBUF)


def test_a_refusal_is_an_error_and_the_end_comes_a_second_later() -> None:
    world = World()

    async def main() -> None:
        call = {**SUBSCRIBE, "subscribe": {"framework_info": {"user": "u", "name": "n", "role": "/"}}}
        response = await world.post(call)
        assert [event["type"] for event in read_events(response)] == ["ERROR"]
        assert not response.stream.ended  # type: ignore[union-attr]  # it is one

    asyncio.run(main())


def test_who_does_not_lead_says_who_does() -> None:
    endpoints = MasterEndpoints({})
    assert asyncio.run(endpoints.handle(Request("GET", "/state"))).status == 503
    endpoints.find_leader = lambda: "other:5050"
    response = asyncio.run(endpoints.handle(Request("POST", "/api/v1/scheduler")))
    assert (response.status, response.headers["Location"]) == (307, "//other:5050/api/v1/scheduler")
    assert asyncio.run(endpoints.handle(Request("GET", "/version"))).status == 200
    endpoints.leads = True
    response = asyncio.run(endpoints.handle(Request("POST", "/api/v1/scheduler")))
    assert (response.status, response.body) == (503, b"Master has not finished recovery")


@pytest.mark.parametrize(
    ("header", "status"),
    [("", 401), ("Basic !", 401), ("Bearer x", 401), (b"p:wrong", 401), (b"q:s", 401), (b"p:s", 200)],
)
def test_credentials(header: str | bytes, status: int) -> None:
    world = World()
    serving = world.endpoints.serving
    world.endpoints = MasterEndpoints({"p": "s"})
    world.endpoints.leads, world.endpoints.serving = True, serving
    value = header if isinstance(header, str) else f"Basic {base64.b64encode(header).decode()}"
    body = msgspec.json.encode(SUBSCRIBE)
    response = _ask(world, "POST", "/api/v1/scheduler", body, content_type=JSON, authorization=value)
    assert response.status == status
    if status == 401:
        assert response.headers["WWW-Authenticate"] == 'Basic realm="mesos-master-scheduler"'
    else:
        [framework] = world.state.frameworks.values()
        assert framework.principal == "p"


@pytest.mark.parametrize(
    "path",
    ["/state", "/master/state", "/state.json", "/state-summary", "/slaves", "/frameworks", "/tasks", "/roles", "/flags",
     "/metrics/snapshot", "/weights", "/quota", "/maintenance/schedule", "/maintenance/status", "/version", "/health"],
)  # fmt: skip
def test_pages_are_there(path: str) -> None:
    world = World()
    world.agent()
    assert _ask(world, "GET", path).status == 200


def test_paths_lose_their_ends_until_one_is_known() -> None:
    world = World()
    body = msgspec.json.encode({"type": "GET_VERSION"})
    response = _ask(world, "POST", "/api/v1/operator", body, content_type=JSON)
    assert msgspec.json.decode(response.body)["get_version"]["version_info"]["version"] == "1.11.0"
    assert _ask(world, "GET", "/nothing").status == 404


async def test_a_framework_over_sockets_sees_its_stream_and_its_end() -> None:
    """The end of the connection is the end of the framework, without a failover timeout."""
    world = World()
    world.agent()
    server = await serve(PlainService(world.endpoints.handle), "127.0.0.1", 0, clock=SystemClock())
    seen: list[str] = []
    client = FrameworkClient(
        f"127.0.0.1:{server.port}", {"user": "u", "name": "n"}, lambda _, event: seen.append(event["type"])
    )
    try:
        await asyncio.to_thread(client.connect)
        await asyncio.to_thread(client.subscribed.wait, 10)
        await asyncio.to_thread(client.call, "SUPPRESS")
        assert seen[:1] == ["SUBSCRIBED"]
        assert world.state.frameworks.keys() == {client.id}
        await asyncio.to_thread(client.close)
        async with asyncio.timeout(10):
            while world.state.frameworks:
                await asyncio.sleep(0)
    finally:
        await server.stop()
    assert client.errors == []
