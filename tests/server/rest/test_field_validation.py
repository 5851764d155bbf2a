"""``fieldValidation``: all problems of a body at once, in a real server's words and order."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from strato.api.wire import Request, Response
from strato.clock import VirtualClock, run_virtual
from strato.server.embedded import in_memory_server
from tests.server.asking import ADMIN

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TYPED = b"""{"apiVersion":"apps/v1","kind":"Deployment",
"metadata":{"name":"dupename","name":"web","unknownMeta":"m"},
"spec":{"unknown1":"v","unknownDupe":"a","unknownDupe":"b","paused":true,"paused":false,
"selector":{"matchLabels":{"app":"nginx"}},"template":{"metadata":{"labels":{"app":"nginx"}},
"spec":{"containers":[{"name":"nginx","image":"nginx","unknownNested":1,
"imagePullPolicy":"Always","imagePullPolicy":"Never"}]}}}}"""
TYPED_PROBLEMS = [
    'duplicate field "metadata.name"',
    'unknown field "metadata.unknownMeta"',
    'unknown field "spec.unknown1"',
    'unknown field "spec.unknownDupe"',
    'duplicate field "spec.paused"',
    'unknown field "spec.template.spec.containers[0].unknownNested"',
    'duplicate field "spec.template.spec.containers[0].imagePullPolicy"',
]
TYPED_YAML = b"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: dupename
  name: web
  unknownMeta: m
spec:
  unknown1: v
  paused: true
  paused: false
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec:
      containers:
      - name: nginx
        image: nginx
        unknownNested: 1
"""
YAML_REPEATS = ['line 5: key "name" already set in map', 'line 10: key "paused" already set in map']
YAML_UNKNOWN = [
    'unknown field "metadata.unknownMeta"',
    'unknown field "spec.template.spec.containers[0].unknownNested"',
    'unknown field "spec.unknown1"',
]
METADATA: dict[str, Any] = {"name": "widgets.example.com"}
PLACE = {"type": "object", "x-kubernetes-embedded-resource": True}
SPEC = {"type": "object", "properties": {"known": {"type": "string"}, "place": PLACE}}
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}
DEFINITION = {
    "metadata": METADATA,
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
CUSTOM = b"""{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","name":"w","unknownMeta":1},
"spec":{"unknown1":1,"known":"a","known":"b",
"place":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","unknownEmbedded":1}}}}"""
CUSTOM_PROBLEMS = [
    'duplicate field "metadata.name"',
    'duplicate field "spec.known"',
    'unknown field "metadata.unknownMeta"',
    'unknown field "spec.unknown1"',
    'unknown field "spec.place.metadata.unknownEmbedded"',
]


def sent(path: str, body: bytes, mode: str, media: str = "application/json", method: str = "POST") -> Response:
    async def run() -> Response:
        server = in_memory_server(VirtualClock(), random.Random(1))
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        headers = {"content-type": "application/json"}
        await server.handle(Request("POST", crds, {}, headers, json.dumps(DEFINITION).encode(), ADMIN))
        if method == "PATCH":
            await server.handle(Request("POST", DEPLOYMENTS, {}, headers, TYPED, ADMIN))
        query = {"fieldValidation": [mode]} if mode else {}
        return await server.handle(Request(method, path, query, {"content-type": media}, body, ADMIN))

    found: list[Response] = []

    async def keep() -> None:
        found.append(await run())

    run_virtual(VirtualClock(), keep())
    return found[0]


def message(response: Response) -> str:
    return str(json.loads(response.body)["message"])


def warnings(response: Response) -> list[str]:
    header = dict(response.headers or {}).get("warning", "")
    return [json.loads(line.removeprefix("299 - ")) for line in header.splitlines()]


@pytest.mark.parametrize(
    ("path", "body", "problems"),
    [(DEPLOYMENTS, TYPED, TYPED_PROBLEMS), (WIDGETS, CUSTOM, CUSTOM_PROBLEMS)],
    ids=["built-in", "custom"],
)
def test_all_problems_of_json_are_reported_at_once(path: str, body: bytes, problems: list[str]) -> None:
    refused = sent(path, body, "Strict")
    assert refused.status == 400
    assert message(refused).endswith("strict decoding error: " + ", ".join(problems))
    assert warnings(sent(path, body, "Warn")) == problems
    assert warnings(sent(path, body, "Ignore")) == []


def test_yaml_names_lines_and_then_fields_in_order() -> None:
    media = "application/yaml"
    repeats = "yaml: unmarshal errors:\n  " + "\n  ".join(YAML_REPEATS)
    refused = sent(DEPLOYMENTS, TYPED_YAML, "Strict", media)
    assert message(refused).endswith("strict decoding error: " + ", ".join([repeats, *YAML_UNKNOWN]))
    assert warnings(sent(DEPLOYMENTS, TYPED_YAML, "Warn", media)) == YAML_REPEATS + YAML_UNKNOWN


@pytest.mark.parametrize(
    ("media", "body", "problems"),
    [
        (
            "application/merge-patch+json",
            b'{"spec":{"unknown2":1,"paused":true,"paused":false,"template":{"unknown1":1}}}',
            [
                'duplicate field "spec.paused"',
                'unknown field "spec.template.unknown1"',
                'unknown field "spec.unknown2"',
            ],
        ),
        (
            "application/json-patch+json",
            b'[{"op":"add","path":"/spec/unknown2","value":1,"foo":1},'
            b'{"op":"add","path":"/spec/x","path":"/spec/unknown1","value":1}]',
            [
                'json patch unknown field "[0].foo"',
                'json patch duplicate field "[1].path"',
                'unknown field "spec.unknown1"',
                'unknown field "spec.unknown2"',
            ],
        ),
    ],
    ids=["merge", "operations"],
)
def test_patches_are_searched_and_what_they_make(media: str, body: bytes, problems: list[str]) -> None:
    refused = sent(f"{DEPLOYMENTS}/web", body, "Strict", media, "PATCH")
    assert refused.status == 422
    assert message(refused).endswith("strict decoding error: " + ", ".join(problems))
    assert warnings(sent(f"{DEPLOYMENTS}/web", body, "Warn", media, "PATCH")) == problems
