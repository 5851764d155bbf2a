"""Conversion webhooks over real sockets: what they are asked, what is believed, what their failures do."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from strato.api.wire import Request, Response
from strato.clock import SystemClock
from strato.server.embedded import in_memory_server
from tests.server.asking import MERGE, Client
from tests.server.test_versions import CRDS, DEFINITION, at, definition, version, widget

from .webhookserver import bundle, webhook

TWO_NAMES = {"type": "object", "properties": {"first": {"type": "string"}, "last": {"type": "string"}}}
ONE_NAME = {"type": "object", "properties": {"full": {"type": "string"}}}
VERSIONS = (version("v1", ONE_NAME, storage=True), version("v2", TWO_NAMES))


def converted(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    spec = obj["spec"]
    if wanted.endswith("/v2"):
        first, _, last = spec.get("full", "").partition(" ")
        spec = {"first": first, "last": last, "unknown": True}
    else:
        spec = {"full": f"{spec['first']} {spec['last']}"}
    metadata = {**obj["metadata"], "labels": {"by": "webhook"}, "resourceVersion": "1", "finalizers": ["no/thanks"]}
    return {**obj, "apiVersion": wanted, "metadata": metadata, "spec": spec}


def review(question: dict[str, Any]) -> dict[str, Any]:
    objects = [converted(obj, question["desiredAPIVersion"]) for obj in question["objects"]]
    response = {"uid": question["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}


class World:
    """A server, and a webhook that converts until it is told otherwise."""

    def __init__(self, client: Client, calls: list[Request]) -> None:
        self.client, self.calls = client, calls
        self.spoil: Callable[[dict[str, Any]], Any] = lambda review: None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made: list[World] = []

    def handle(question: dict[str, Any]) -> Response:
        answer = review(question)
        made[0].spoil(answer["response"])
        return Response(200, json.dumps(answer).encode())

    async with webhook(handle) as hook:
        server = in_memory_server(SystemClock(), random.Random(1))
        made.append(World(Client(server), hook.sent))
        crd = definition(*VERSIONS)
        config = {"url": hook.url("/convert")["url"], "caBundle": bundle()}
        crd["spec"]["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": ["v9", "v1"]},
        }
        await made[0].client.ask("POST", CRDS, crd)
        yield made[0]
        await server.state.webhooks.close()


async def test_reads_in_another_version_ask_once_for_each_state(world: World) -> None:
    client = world.client
    for name in ("a", "b"):
        await client.ask("POST", at("v1"), widget(name, full="Ada Lovelace"))
    assert not world.calls
    found = (await client.ask("GET", at("v2")))["items"]
    assert [one["spec"] for one in found] == [{"first": "Ada", "last": "Lovelace"}] * 2
    assert found[0]["metadata"]["labels"] == {"by": "webhook"}
    assert "finalizers" not in found[0]["metadata"]
    assert (await client.ask("GET", at("v2", "a"))) == found[0]
    assert (await client.ask("GET", at("v2"), limit="1"))["items"] == found[:1]
    (call,) = world.calls
    asked = json.loads(call.body)
    assert (asked["apiVersion"], asked["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert len(asked["request"]["objects"]) == 2


async def test_writes_are_stored_in_the_storage_version_and_answered_in_the_one_asked(world: World) -> None:
    client = world.client
    made = await client.ask("POST", at("v2"), widget("a", "v2", first="Ada", last="Lovelace"))
    assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"first": "Ada", "last": "Lovelace"})
    assert (await client.ask("GET", at("v1", "a")))["spec"] == {"full": "Ada Lovelace"}
    changed = await client.ask("PATCH", at("v2", "a"), {"spec": {"first": "Augusta"}}, MERGE)
    assert changed["spec"] == {"first": "Augusta", "last": "Lovelace"}
    stored = client.server.store.bucket("widgets.example.com").objects["default/a"].body
    assert json.loads(stored)["spec"] == {"full": "Augusta Lovelace"}
    await client.ask("DELETE", at("v2", "a"))
    assert not client.server.store.bucket("widgets.example.com").objects


async def test_watches_show_the_version_that_is_asked_for(world: World) -> None:
    client = world.client
    await client.ask("POST", at("v1"), widget("a", full="Ada Lovelace"))
    stream = (await client.send("GET", at("v2"), watch="true")).stream
    assert stream is not None
    seen = json.loads(await anext(stream))
    assert (seen["type"], seen["object"]["spec"]["first"]) == ("ADDED", "Ada")
    await client.ask("PATCH", at("v1", "a"), {"spec": {"full": "Grace Hopper"}}, MERGE)
    seen = json.loads(await anext(stream))
    assert (seen["type"], seen["object"]["spec"]["first"]) == ("MODIFIED", "Grace")
    world.spoil = lambda response: response.update(result={"status": "Failure"})
    await client.ask("PATCH", at("v1", "a"), {"spec": {"full": "Barbara Liskov"}}, MERGE)
    seen = json.loads(await anext(stream))
    assert (seen["type"], seen["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda response: response.update(result={"status": "Failure", "message": "no"}), "failed: no"),
        (lambda response: response.update(uid="other"), "expected response.uid="),
        (lambda response: response.update(convertedObjects=[]), "returned 0 objects, expected 1"),
        (lambda response: response.update(convertedObjects=[5]), "missing metadata in converted object"),
        (lambda response: response["convertedObjects"][0].update(apiVersion="x/v1"), "invalid groupVersion"),
        (lambda response: response["convertedObjects"][0].update(kind="X"), "invalid kind"),
        (lambda response: response["convertedObjects"][0]["metadata"].update(uid="x"), "must have the same UID"),
        (lambda response: response["convertedObjects"][0]["metadata"].update(labels={"a": 1}), "metadata.labels"),
    ],
)
async def test_a_webhook_that_fails_is_told_and_nothing_is_written(
    world: World, spoil: Callable[[dict[str, Any]], Any], text: str
) -> None:
    await world.client.ask("POST", at("v1"), widget("a", full="Ada Lovelace"))
    world.spoil = spoil
    failed = await world.client.ask("GET", at("v2", "a"), code=500)
    assert failed["message"].startswith("conversion webhook for example.com/v1, Kind=Widget failed: ")
    assert text in failed["message"]
    failed = await world.client.ask("POST", at("v2"), widget("b", "v2", first="Ada", last="L"), code=500)
    assert list(world.client.server.store.bucket("widgets.example.com").objects) == ["default/a"]
    await world.client.ask("GET", at("v1", "a"))
    await world.client.ask("DELETE", DEFINITION)
    await world.client.ask("GET", DEFINITION, code=404)


@pytest.mark.parametrize(
    ("conversion", "text"),
    [
        ({"strategy": "Magic"}, 'supported values: "None", "Webhook"'),
        ({"strategy": "Webhook"}, "required when strategy is set to Webhook"),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {}}}, "exactly one of url or service is required"),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://a"}}}, "only allowed URL scheme"),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v9"]},
            },
            "must include at least one of v1, v1beta1",
        ),
        ({"strategy": "None", "webhook": {"clientConfig": {"url": "https://a"}}}, "should not be set"),
    ],
)
async def test_conversions_are_checked(conversion: dict[str, Any], text: str) -> None:
    crd = definition(*VERSIONS)
    crd["spec"]["conversion"] = conversion
    client = Client(in_memory_server(SystemClock(), random.Random(1)))
    assert text in (await client.ask("POST", CRDS, crd, code=422))["message"]
