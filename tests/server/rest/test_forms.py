"""Events of both groups are the same objects."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from strato.api.forms import FORMS
from strato.api.wire import Request
from strato.clock import SystemClock
from strato.server.embedded import in_memory_server
from tests.server.asking import ADMIN, MERGE, Client

OLD, NEW = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
TIME = "2026-01-01T00:00:00.000000Z"


def new_event(name: str = "e", **members: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"a": "b"}},
        "eventTime": TIME,
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "something",
        "reason": "Because",
        "action": "Do",
        "type": "Normal",
        "reportingController": "test-controller",
        "reportingInstance": "here",
        **members,
    }


@pytest.fixture
async def client() -> Client:
    return Client(in_memory_server(SystemClock(), random.Random(1)))


async def test_an_event_is_shown_by_both_groups(client: Client) -> None:
    made = await client.ask("POST", NEW, new_event())
    assert (made["apiVersion"], made["regarding"]["name"], made["note"]) == ("events.k8s.io/v1", "p", "something")
    old = await client.ask("GET", f"{OLD}/e")
    assert (old["apiVersion"], old["involvedObject"]["name"], old["message"]) == ("v1", "p", "something")
    assert old["metadata"] == made["metadata"]
    for path, member in ((OLD, "involvedObject"), (NEW, "regarding")):
        listed = await client.ask("GET", path)
        assert [item[member]["name"] for item in listed["items"]] == ["p"]
        assert "apiVersion" not in listed["items"][0]
        assert (await client.ask("GET", path, limit="1"))["items"] == listed["items"]
    assert listed["apiVersion"] == "events.k8s.io/v1"
    assert (await client.ask("DELETE", f"{NEW}/e"))["status"] == "Success"
    await client.ask("GET", f"{OLD}/e", code=404)


@pytest.mark.parametrize(
    ("path", "selector", "found"),
    [
        (NEW, "regarding.name=p", 1),
        (NEW, "regarding.name=q", 0),
        (NEW, "reportingController=test-controller,type!=Warning,reason=Because", 1),
        (OLD, "involvedObject.name=p", 1),
        (OLD, "source=test-controller", 1),
    ],
)
async def test_events_are_selected_by_the_names_of_each_group(
    client: Client, path: str, selector: str, found: int
) -> None:
    await client.ask("POST", NEW, new_event())
    assert len((await client.ask("GET", path, fieldSelector=selector))["items"]) == found


@pytest.mark.parametrize(("path", "selector"), [(NEW, "involvedObject.name=p"), (OLD, "regarding.name=p")])
async def test_names_of_the_other_group_select_nothing(client: Client, path: str, selector: str) -> None:
    answer = await client.ask("GET", path, fieldSelector=selector, code=400)
    assert answer["message"].startswith("field label not supported: ")


@pytest.mark.parametrize("media", [MERGE, "application/strategic-merge-patch+json", "application/json-patch+json"])
async def test_a_patch_is_of_the_form_that_is_asked_for(client: Client, media: str) -> None:
    await client.ask("POST", NEW, new_event())
    series = {"count": 2, "lastObservedTime": TIME}
    patch: Any = {"series": series}
    if "json-patch" in media:
        patch = [
            {"op": "add", "path": "/series", "value": series},
            {"op": "test", "path": "/note", "value": "something"},
        ]
    assert (await client.ask("PATCH", f"{NEW}/e", patch, media))["series"] == series
    assert (await client.ask("GET", f"{OLD}/e"))["series"] == series


async def test_an_update_of_either_form_is_seen_in_the_other(client: Client) -> None:
    made = await client.ask("POST", NEW, new_event())
    series = {"count": 3, "lastObservedTime": TIME}
    await client.ask("PUT", f"{NEW}/e", {**made, "series": series})
    old = await client.ask("GET", f"{OLD}/e")
    assert old["series"] == series
    await client.ask("PUT", f"{OLD}/e", {**old, "message": "else"})
    assert (await client.ask("GET", f"{NEW}/e"))["note"] == "else"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"type": "Odd"}, "type"),
        ({"deprecatedCount": 2}, "count"),
        ({"deprecatedSource": {"component": "c"}}, "source"),
        ({"series": {"count": 1, "lastObservedTime": TIME}}, "series.count"),
        ({"series": {"count": 2}}, "series.lastObservedTime"),
        ({"action": ""}, "action"),
        ({"note": "x" * 1025}, "message"),
        ({"reportingController": "a b"}, "reportingComponent"),
    ],
)
async def test_the_newer_group_takes_whole_events_only(client: Client, members: dict[str, Any], field: str) -> None:
    refused = await client.ask("POST", NEW, new_event(**members), code=422)
    assert field in [cause["field"] for cause in refused["details"]["causes"]]


async def test_the_newer_group_lets_nothing_change_but_the_series(client: Client) -> None:
    await client.ask("POST", NEW, new_event())
    refused = await client.ask("PATCH", f"{NEW}/e", {"note": "else"}, MERGE, code=422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["note"]


async def test_unknown_fields_are_those_of_the_form(client: Client) -> None:
    refused = await client.ask("POST", NEW, new_event(message="old name"), code=400, fieldValidation="Strict")
    assert 'unknown field "message"' in refused["message"]


@pytest.mark.parametrize(("path", "member"), [(OLD, "involvedObject"), (NEW, "regarding")])
async def test_watches_of_both_groups_show_their_form(client: Client, path: str, member: str) -> None:
    field = f"{member}.name=p"
    asked = Request("GET", path, {"watch": ["1"], "fieldSelector": [field]}, {}, b"", ADMIN)
    stream = (await client.server.handle(asked)).stream
    assert stream is not None
    await client.ask("POST", OLD, {
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "count": 1,
    })  # fmt: skip
    frame = json.loads(await asyncio.wait_for(anext(stream), 10))
    assert (frame["type"], frame["object"][member]["name"]) == ("ADDED", "p")
    await stream.aclose()


@pytest.mark.parametrize("kind", ["PartialObjectMetadata", "PartialObjectMetadataList"])
async def test_a_watch_of_metadata_alone_has_no_form(client: Client, kind: str) -> None:
    accept = {"accept": f"application/json;as={kind};g=meta.k8s.io;v=v1"}
    stream = (await client.server.handle(Request("GET", NEW, {"watch": ["1"]}, accept, b"", ADMIN))).stream
    assert stream is not None
    made = await client.ask("POST", NEW, new_event())
    shown = json.loads(await asyncio.wait_for(anext(stream), 10))["object"]
    assert (shown.pop("kind"), shown.pop("apiVersion")) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert shown == {"metadata": made["metadata"]}
    await stream.aclose()  # type: ignore[attr-defined]  # the server's streams are generators


def test_a_form_of_what_was_written_in_it_is_the_same() -> None:
    for form in FORMS.values():
        if form.kind.name == "Event":
            event = {**new_event(), "apiVersion": "events.k8s.io/v1", "kind": "Event"}
            assert form.show(form.read(event)) == event
