"""Checks of cases about HTTP: statuses and first events, calls of pymesos, a session of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.interop.mesos.wire import JSON, PROTOBUF, RecordReader, message
from tests.interop.mesos.worlds import World

CALL, EVENT = message("scheduler.Call"), message("scheduler.Event")
_INFO = {"user": "user", "name": "default", "roles": ["*"], "capabilities": [{"type": "MULTI_ROLE"}]}


def check(kind: str, case: dict[str, Any]) -> list[str]:
    """Return what is wrong with how we do a case of ``scheduler-http``, ``pymesos-call`` or ``pymesos-session``."""
    return CHECKS[kind](case)


# -- statuses and first events -----------------------------------------------------------------------------------------


def _scheduler_http(case: dict[str, Any]) -> list[str]:
    return asyncio.run(_steps(case))


async def _steps(case: dict[str, Any]) -> list[str]:
    world, wrong = World(), list[str]()
    saved: dict[str, Any] = {}
    streams = []  # kept open, as the tests' clients do
    for number, step in enumerate(case["steps"]):
        request = step["request"]
        headers = {name.lower(): value for name, value in request.get("headers", {}).items()}
        content_type = headers.get("content-type", JSON)
        body = _body(request.get("body"), saved, headers)
        data = body if isinstance(body, bytes) else CALL.encode(body, content_type)
        given = Request(request["method"], request["path"], headers=headers, body=data)
        response = await world.endpoints.handle(given)
        streams.append(response)
        events = _events(response)
        wrong += [f"step {number}: {text}" for text in _compare(step["expect"], response, events, saved)]
        for event in events:
            if event["type"] == "SUBSCRIBED":
                saved.setdefault("framework_id", event["subscribed"]["framework_id"])
                saved["stream_id"] = response.headers.get("Mesos-Stream-Id", "")
    return wrong


def _body(body: Any, saved: dict[str, Any], headers: dict[str, str]) -> Any:
    """Return a body with what was saved put in; texts describe calls of frameworks that have subscribed."""
    if isinstance(body, dict):
        filled = {name: saved.get("framework_id") if value == "saved" else value for name, value in body.items()}
        if filled.get("type") not in (None, "SUBSCRIBE") and "stream_id" in saved:
            headers.setdefault("mesos-stream-id", saved["stream_id"])
        return filled
    if body is None:
        return b""
    if not isinstance(body, str):
        return msgspec.json.encode(body)
    kind = body.split()[0]
    if kind not in message_types():
        return body.encode()
    identifier = saved.get("framework_id")
    if kind == "SUBSCRIBE":
        info = {**_INFO, "id": identifier} if "framework_info.id" in body else dict(_INFO)
        return {"type": kind, "framework_id": identifier, "subscribe": {"framework_info": info}}
    without = "without Mesos-Stream-Id" in body
    if not without and "mesos-stream-id" not in headers:
        other = any(
            word in body.lower()
            for word in ("wrong", "different", "another", "incorrect", "other stream", "random", "invalid", "unknown")
        )
        headers["mesos-stream-id"] = "11111111-2222-4333-8444-555555555555" if other else saved.get("stream_id", "")
    return {"type": kind, "framework_id": identifier}


def message_types() -> frozenset[str]:
    """Return the types of calls."""
    from strato.interop.mesos.wire import enum_names

    return enum_names("scheduler.Call.Type")


def _events(response: Response) -> list[Json]:
    if response.stream is None:
        return []
    records = RecordReader().feed(response.stream.take())  # type: ignore[attr-defined] # a stream of ours
    return [EVENT.decode(record, response.content_type) for record in records]


def _compare(expect: dict[str, Any], response: Response, events: list[Json], saved: dict[str, Any]) -> list[str]:
    wrong = []
    if response.status != expect["status"]:
        wrong.append(f"status {response.status}, not {expect['status']}: {response.body[:200]!r}")
    shown = {"Content-Type": response.content_type, **response.headers}
    if response.stream is not None:
        shown["Transfer-Encoding"] = "chunked"
    for name, value in expect.get("headers", {}).items():
        if shown.get(name) != value:
            wrong.append(f"header {name} is {shown.get(name)!r}, not {value!r}")
    wrong += [f"header {name} is missing" for name in expect.get("hasHeader", ()) if not shown.get(name)]
    kinds = [event["type"] for event in events]
    if "events" in expect and kinds[: len(expect["events"])] != expect["events"]:
        wrong.append(f"events {kinds}, not {expect['events']}")
    if "body" in expect and response.body.decode().strip() != expect["body"]:
        wrong.append(f"body {response.body.decode()!r}, not {expect['body']!r}")
    if expect.get("sameFrameworkId"):
        found = [event["subscribed"]["framework_id"] for event in events if event["type"] == "SUBSCRIBED"]
        if found != [saved.get("framework_id")]:
            wrong.append(f"framework id {found}, not {saved.get('framework_id')}")
    return wrong


# -- calls of pymesos --------------------------------------------------------------------------------------------------


def _pymesos_call(case: dict[str, Any]) -> list[str]:
    """A body of pymesos' means the same to us, in either form, but for fields that no message has."""
    body = case["body"]
    read = CALL.from_json(json.dumps(body).encode())
    wrong = []
    lost = _lost(body, read)
    allowed = {"acknowledge_operation_status"}  # the whole status is sent; the surplus is ignored
    wrong += [f"{path} is not read" for path in lost if path.split(".")[0] not in allowed]
    again = CALL.decode(CALL.encode(read, PROTOBUF), PROTOBUF)
    if _without_empty(again) != _without_empty(read):
        wrong.append(f"protobuf makes {again} of {read}")
    return wrong


def _lost(given: Any, read: Any, path: str = "") -> list[str]:
    if isinstance(given, dict):
        found = []
        for name, value in given.items():
            here = f"{path}.{name}" if path else name
            found += _lost(value, read[name], here) if isinstance(read, dict) and name in read else [here]
        return found
    if isinstance(given, list):
        return [text for one, two in zip(given, read, strict=True) for text in _lost(one, two, path)]
    return [] if given == read else [path]


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_empty(item) for name, item in value.items() if item != []}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


# -- a session of pymesos ----------------------------------------------------------------------------------------------


def _pymesos_session(case: dict[str, Any]) -> list[str]:
    return asyncio.run(_replay(case))


async def _replay(case: dict[str, Any]) -> list[str]:
    """Send what pymesos sent, with our ids in it, and see what it has to see."""
    world, wrong = World(), list[str]()
    world.agent("S0", "cpus:2;mem:1024")
    stream: Response | None = None
    events: list[Json] = []
    ids: dict[str, str] = {}
    for number, recorded in enumerate(case["requests"]):
        headers, body = dict(recorded["headers"]), recorded["body"]
        if "mesos-stream-id" in headers:
            headers["mesos-stream-id"] = ids["stream"]
        text = json.dumps(body)
        for old, new in ids.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        data = b"" if body is None else text.encode()
        given = Request(recorded["method"], recorded["path"], headers=headers, body=data)
        response = await world.endpoints.handle(given)
        if not 200 <= response.status < 300:
            wrong.append(f"request {number} is answered {response.status}: {response.body!r}")
        if body is not None and body["type"] == "SUBSCRIBE":
            stream = response
            world.advance()
            events += _events(stream)
            ids["f-0000"] = events[0]["subscribed"]["framework_id"]["value"]
            ids["stream"] = response.headers["Mesos-Stream-Id"]
            offers = [event for event in events if event["type"] == "OFFERS"]
            ids["O1"] = offers[0]["offers"]["offers"][0]["id"]["value"] if offers else ""
        elif body is not None and body["type"] == "ACCEPT":
            for unit in list(world.launched):
                world.observe(unit, "TASK_RUNNING")
            assert stream is not None
            events += _events(stream)
            ids["AAAAAAAAAAAAAAAAAAAAAA=="] = events[-1].get("update", {}).get("status", {}).get("uuid", "")
    assert stream is not None
    events += _events(stream)
    kinds = [event["type"] for event in events]
    if kinds[:4] != ["SUBSCRIBED", "HEARTBEAT", "OFFERS", "UPDATE"]:
        wrong.append(f"events {kinds}")
    if events[3]["update"]["status"]["state"] != "TASK_RUNNING":
        wrong.append(f"first update {events[3]}")
    if not stream.stream.ended:  # type: ignore[union-attr] # a stream of ours
        wrong.append("TEARDOWN does not end the stream")
    if len(world.killed) < 1:
        wrong.append("the task is not killed")
    return wrong


CHECKS = {"scheduler-http": _scheduler_http, "pymesos-call": _pymesos_call, "pymesos-session": _pymesos_session}
