"""What the server does by itself: events end after an hour, every namespace has the root certificate."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from strato.clock import VirtualClock, format_time, run_virtual
from strato.server import crd, expiry
from strato.server.embedded import in_memory_server, open_server
from strato.server.expiry import EventExpiry
from strato.server.registry import Registry
from strato.server.rest.state import AdmitAll, State
from strato.server.store import Store
from tests.server.asking import MERGE, Client

EVENTS = "/api/v1/namespaces/default/events"
MINUTE = 60


async def names(client: Client, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await client.ask("GET", path))["items"]]


async def make_event(client: Client, name: str) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    await client.ask("POST", EVENTS, {"metadata": {"name": name}, "involvedObject": about})


def in_virtual_time(main: Callable[[VirtualClock, Client], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()

    async def run() -> None:
        await main(clock, Client(in_memory_server(clock, random.Random(1))))

    run_virtual(clock, run())


def test_events_end_an_hour_after_they_were_last_written() -> None:
    async def main(clock: VirtualClock, client: Client) -> None:
        await make_event(client, "old")
        await make_event(client, "renewed")
        await asyncio.sleep(30 * MINUTE)
        await make_event(client, "young")
        await client.ask("PATCH", f"{EVENTS}/renewed", {"count": 2}, MERGE)
        await asyncio.sleep(29 * MINUTE)
        assert await names(client, EVENTS) == ["old", "renewed", "young"]
        await asyncio.sleep(2 * MINUTE)
        assert await names(client, EVENTS) == ["renewed", "young"]
        await asyncio.sleep(30 * MINUTE)
        assert await names(client, EVENTS) == []

    in_virtual_time(main)


def test_an_event_deleted_and_made_again_lives_its_own_hour() -> None:
    async def main(clock: VirtualClock, client: Client) -> None:
        await make_event(client, "e")
        await asyncio.sleep(50 * MINUTE)
        await client.ask("DELETE", f"{EVENTS}/e")
        await make_event(client, "e")
        await asyncio.sleep(20 * MINUTE)
        assert await names(client, EVENTS) == ["e"]

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("minutes", "left"), [pytest.param(30, ["default/e"], id="still young"), pytest.param(90, [], id="too old")]
)
def test_events_go_on_ageing_while_the_server_is_down(minutes: int, left: list[str]) -> None:
    clock = VirtualClock()
    store = Store()
    event = {"metadata": {"name": "e", "creationTimestamp": format_time(clock.now() - minutes * MINUTE)}}
    store.load("events", "default/e", json.dumps(event).encode(), 1)

    async def main() -> None:
        EventExpiry(State(store, clock, random.Random(1), Registry(), AdmitAll()))
        await asyncio.sleep(MINUTE)
        assert list(store.bucket("events").keys()) == left

    run_virtual(clock, main())


def test_the_oldest_of_too_many_events_go_first() -> None:
    clock = VirtualClock()

    async def main() -> None:
        client = Client(in_memory_server(clock, random.Random(1)))
        await make_event(client, "e-1")
        size = len(json.dumps(await client.ask("GET", f"{EVENTS}/e-1"), separators=(",", ":")))
        most = 10 * size + size // 2
        EventExpiry(client.server.state, most)
        for number in range(20, 40):
            await make_event(client, f"e{number}")
            await client.ask("PATCH", f"{EVENTS}/e20", {"count": number}, MERGE)
        await asyncio.sleep(3)
        left = await names(client, EVENTS)
        assert left == ["e20", *(f"e{number}" for number in range(40 - len(left) + 1, 40))]
        assert 8 <= len(left) <= 10

    run_virtual(clock, main())


async def test_every_namespace_has_the_root_certificate() -> None:
    server, _ = open_server(VirtualClock(), random.Random(1), None, root_certificate="PEM")
    client = Client(server)
    maps = "/api/v1/namespaces/{}/configmaps"
    await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    for namespace in ("kube-system", "default", "new"):
        found = await client.ask("GET", f"{maps.format(namespace)}/kube-root-ca.crt")
        assert found["data"] == {"ca.crt": "PEM"}


async def test_the_root_certificate_is_put_back() -> None:
    server, _ = open_server(VirtualClock(), random.Random(1), None, root_certificate="PEM")
    client, path = Client(server), "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
    await client.ask("PATCH", path, {"data": {"ca.crt": "forged"}}, MERGE)
    assert (await client.ask("GET", path))["data"] == {"ca.crt": "PEM"}
    await client.ask("DELETE", path)
    assert (await client.ask("GET", path))["data"] == {"ca.crt": "PEM"}


async def test_a_namespace_that_goes_away_is_left_alone() -> None:
    server, _ = open_server(VirtualClock(), random.Random(1), None, root_certificate="PEM")
    client = Client(server)
    await client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    await client.ask("DELETE", "/api/v1/namespaces/new")
    await client.ask("DELETE", "/api/v1/namespaces/new/configmaps/kube-root-ca.crt")
    assert await names(client, "/api/v1/namespaces/new/configmaps") == []


def test_many_events_that_end_together_are_deleted_some_at_a_time() -> None:
    async def main(clock: VirtualClock, client: Client) -> None:
        for number in range(3 * expiry.AT_ONCE):
            await make_event(client, f"e{number}")
        await asyncio.sleep(60 * MINUTE - 1)
        left = [len(await names(client, EVENTS))]
        while left[-1]:
            await asyncio.sleep(0.001)
            left.append(len(await names(client, EVENTS)))
        assert max(before - after for before, after in pairwise(left)) == expiry.AT_ONCE

    in_virtual_time(main)


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def widget_definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [version],
    }
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


def test_objects_go_before_their_definition_some_at_a_time() -> None:
    async def main(clock: VirtualClock, client: Client) -> None:
        del clock
        store = client.server.store
        await client.ask("POST", DEFINITIONS, widget_definition())
        for number in range(5 * crd.AT_ONCE):
            body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": f"w{number}"}}
            await client.ask("POST", WIDGETS, body)
        await client.ask("DELETE", f"{DEFINITIONS}/widgets.example.com")
        left = [len(store.bucket("widgets.example.com").objects)]
        await client.ask("POST", DEFINITIONS, widget_definition(), code=409)
        refused = await client.ask("POST", WIDGETS, {**body, "metadata": {"name": "new"}}, code=405)
        assert refused["message"] == "create not allowed while custom resource definition is terminating"
        for _ in range(50):
            await asyncio.sleep(0)
            left.append(len(store.bucket("widgets.example.com").objects))
        assert left[0] >= 3 * crd.AT_ONCE
        assert max(before - after for before, after in pairwise(left)) <= crd.AT_ONCE
        assert left[-1] == 0
        await client.ask("GET", f"{DEFINITIONS}/widgets.example.com", code=404)

    in_virtual_time(main)
