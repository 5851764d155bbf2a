"""Requests of server-side apply against the embedded server."""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec

from strato.api.wire import Request, User
from strato.clock import VirtualClock, run_virtual
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server

Json = dict[str, Any]
_ADMIN = User("admin", ("system:masters", "system:authenticated"))


def run(case: Json) -> None:
    """Play the requests of a case and compare each answer with what is expected of it."""
    clock = VirtualClock()

    async def play() -> None:
        server = in_memory_server(clock, random.Random(7))
        for name in ("default", "kube-system"):
            body = msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await server.handle(Request("POST", "/api/v1/namespaces", {}, {}, body, _ADMIN))
        answers: list[Json] = []
        for number, request in enumerate(case["requests"]):
            if request["method"] == "SLEEP":
                await clock.sleep(request["seconds"])
                answers.append({})
                continue
            code, answer = await _ask(server, request, answers)
            answers.append(answer)
            _check(code, answer, request.get("expect") or {}, answers, f"request {number}")

    run_virtual(clock, play())


async def _ask(server: ApiServer, request: Json, answers: list[Json]) -> tuple[int, Json]:
    body = request.get("body")
    if isinstance(body, dict) and "$previous" in body:
        previous = copy.deepcopy(answers[body["$previous"]])
        for path, value in (body.get("$setEach") or {}).items():
            _set_each(previous, path.split("."), value)
        body = previous
    sent = b"" if body is None else body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    headers = {"content-type": request.get("contentType", "application/json")}
    if "userAgent" in request:
        headers["user-agent"] = request["userAgent"]
    query = {name: [str(value)] for name, value in (request.get("query") or {}).items()}
    response = await server.handle(Request(request["method"], request["path"], query, headers, sent, _ADMIN))
    return response.status, msgspec.json.decode(response.body) if response.body else {}


def _set_each(value: Any, path: list[str], wanted: Any) -> None:
    """Set a member, of each item where the path leads through a list."""
    if isinstance(value, list):
        for item in value:
            if path:
                _set_each(item, path, wanted)
            elif isinstance(item, dict) and isinstance(wanted, dict):
                item.update(wanted)
    elif len(path) == 1 and not isinstance(value.get(path[0]), list):
        value[path[0]] = wanted
    else:
        _set_each(value.get(path[0], {}), path[1:], wanted)


def _check(code: int, answer: Json, expect: Json, answers: list[Json], where: str) -> None:
    assert code == expect.get("code", code), (where, answer)
    for member in ("reason", "message"):
        if member in expect:
            assert answer.get(member) == expect[member], where
    assert expect.get("messageContains", "") in answer.get("message", ""), (where, answer)
    if "causes" in expect:
        assert answer["details"]["causes"] == expect["causes"], where
    _check_subset(answer, expect.get("object") or {}, where)
    for path in expect.get("absent") or ():
        assert _at(answer, path) is None, (where, path)
    entries = answer.get("metadata", {}).get("managedFields") or []
    _check_entries(entries, expect, where)
    for owner in expect.get("replicasOwners") or ():
        assert any(
            "f:replicas" in entry["fieldsV1"].get("f:spec", {}) for entry in entries if entry["manager"] == owner
        ), (where, entries)
    if "sameEntryAs" in expect:
        earlier, index = expect["sameEntryAs"]
        assert entries[index] == answers[earlier]["metadata"]["managedFields"][index], where
    revision = answer.get("metadata", {}).get("resourceVersion")
    if "sameResourceVersionAs" in expect:
        assert revision == answers[expect["sameResourceVersionAs"]]["metadata"]["resourceVersion"], where
    if "differentResourceVersionFrom" in expect:
        assert revision != answers[expect["differentResourceVersionFrom"]]["metadata"]["resourceVersion"], where
    if "sameObjectAs" in expect:
        assert answer == answers[expect["sameObjectAs"]], where


def _check_entries(entries: list[Json], expect: Json, where: str) -> None:
    if "managedFields" in expect:
        wanted = expect["managedFields"]
        found = [_known(entry) for entry in entries]
        assert found == [_known(entry) for entry in wanted or ()], where
    if "entries" in expect:
        assert len(entries) == expect["entries"], (where, entries)
    managers = [entry["manager"] for entry in entries]
    for name in expect.get("managers") or ():
        assert name in managers, where
    for name in expect.get("absentManagers") or ():
        assert name not in managers, where
    for index, name in (expect.get("entryNames") or {}).items():
        assert managers[int(index)] == name, (where, managers)
    if "entry" in expect:
        index, entry = expect["entry"]
        assert _known(entries[index]) == _known(entry), where


def _known(entry: Json) -> Json:
    """Return an entry without what is no matter of the cases."""
    return {name: value for name, value in entry.items() if name not in ("time", "fieldsType")}


def _check_subset(found: Any, wanted: Any, where: str) -> None:
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            _check_subset(found.get(name), value, f"{where}: {name}")
    else:
        assert found == wanted, where


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = (value or {}).get(part)
    return value
