"""The longest time for which one request holds the event loop, by kind of request.

    python -m tests.attack.goes [--objects 100000] [--rounds 3] [--only WORD]

A real server on a socket; requests at their limits come from another process, one after the other. On the loop a
probe is called in each turn: what lies between two of its calls is one go. Counted is CPU time of the server's
process, so that other load on the machine does not show; of several rounds the best one counts. A finding is a go
longer than the bar of its kind: 5 ms for one object, 20 ms for all that there are, each with some room for a slow
machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import multiprocessing
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import uvloop

from strato.api.wire import Request, User
from strato.cli.serving import settle
from strato.clock import SystemClock
from strato.http.listen import serve
from strato.server.embedded import open_server
from strato.server.http import create_app
from strato.server.jsonbodies import MAX_VALUES

OBJECT_MS, COLLECTION_MS = 5.0, 20.0
ROOM = 2.0
"""How much slower a machine may be than one on which the bars hold."""
VALUES = MAX_VALUES - 1_000
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CORE = "/api/v1/namespaces/default"
NOWHERE = f"{CORE}/configmaps/nowhere"
THINGS = "/apis/goes.example.com/v1/namespaces/default"
USER = User("mallory", ("system:masters", "system:authenticated"))
encode = msgspec.json.encode


@dataclass
class Ask:
    """A request."""

    method: str
    path: str
    body: bytes = b""
    media: str = JSON
    more: dict[str, str] = field(default_factory=dict)

    def text(self) -> bytes:
        """Return it as HTTP/1.1."""
        lines = {"Host": "h", "Content-Type": self.media, "Content-Length": str(len(self.body)), **self.more}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{self.method} {self.path} HTTP/1.1\r\n{head}\r\n".encode() + self.body


@dataclass
class Kind:
    """A kind of request."""

    name: str
    ask: Callable[[int], Ask]
    """Of a round."""
    status: int
    bar: float = OBJECT_MS
    first: Callable[[int], list[Ask]] = lambda _: []
    """What is asked before, in each round, without being measured."""
    once: bool = False
    """Whether there is nothing left for a second round."""


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _joined(items: Iterator[bytes] | list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _blob(number: int, data: bytes) -> bytes:
    size, length = len(data), b""
    while size > 127:
        length, size = length + bytes((size & 127 | 128,)), size >> 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + data


def _protobuf(kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + _blob(1, _blob(1, b"v1") + _blob(2, kind.encode())) + _blob(2, raw)


def _protobuf_json(raw: bytes) -> bytes:
    return _protobuf("ConfigMap", raw) + _blob(4, b"application/json")


def _protobuf_map(entries: int) -> bytes:
    one = b"".join(b"\x12\x0e\x0a\x08k%07d\x12\x02v%d" % (n, n % 10) for n in range(entries))
    return _protobuf("ConfigMap", b"\x0a\x03\x0a\x01p" + one)


BODIES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "JSON, numbers": (JSON, lambda: encode(list(range(10**9, 10**9 + VALUES)))),
    "JSON, numbers of 390 digits": (JSON, lambda: _joined([b"1" * 390] * 7600)),
    "JSON, lists of one": (JSON, lambda: _joined([b"[1]"] * (VALUES // 2))),
    "JSON, maps of one": (JSON, lambda: _joined([b'{"a":1}'] * (VALUES // 2))),
    "JSON, one map": (JSON, lambda: encode({f"key-{n:06}": f"v{n}" for n in range(VALUES)})),
    "JSON, texts with escapes": (JSON, lambda: json.dumps(["ä中" * 2] * VALUES).encode()),
    "JSON, one text of escapes": (JSON, lambda: b'"' + b"\\n" * 1_500_000 + b'"'),
    "JSON, text full of commas": (JSON, lambda: b'["' + b",[{" * 1_000_000 + b'"]'),
    "JSON, broken at its end": (JSON, lambda: _joined([b"[1]"] * (VALUES // 2)) + b"]"),
    "YAML, a list": (YAML, lambda: b"- a: b\n" * (VALUES // 3)),
    "YAML, aliases": (YAML, lambda: b"a: &a [%s]\nb: *a\n" % b",".join([b"x"] * (VALUES // 2))),
    "YAML, one text": (YAML, lambda: b"a: " + b"x" * 500_000),
    "protobuf, a map": (PROTOBUF, lambda: _protobuf_map(VALUES)),
    "protobuf, JSON in it": (PROTOBUF, lambda: _protobuf_json(b'{"a":[' + b",".join([b"[]"] * 480_000) + b"]}")),
    "JSON, a text of wide characters": (JSON, lambda: '"{}"'.format("中" * 1_000_000).encode()),
    "gzip": (JSON, lambda: gzip.compress(b'"' + b"x" * 3_000_000 + b'"')),
}


def _parsing() -> Iterator[Kind]:
    """Bodies sent to what does not exist: they are read, and nothing comes after that."""
    for name, (media, make) in BODIES.items():
        body = make()
        is_merge = media == JSON
        sent, method = (MERGE, "PATCH") if is_merge else (media, "DELETE")
        more = {"Content-Encoding": "gzip"} if name == "gzip" else {}
        ask = Ask(method, NOWHERE, body, sent, more)
        yield Kind(name, lambda _, ask=ask: ask, 0)  # type: ignore[misc]  # each has its own


def _definition(plural: str, kind: str, schema: dict[str, Any]) -> Ask:
    spec = {
        "group": "goes.example.com",
        "names": {"plural": plural, "kind": kind},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": schema,
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.goes.example.com"},
        "spec": spec,
    }
    return Ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", encode(body))


_ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 60, "pattern": "^[a-z0-9-]*$"},
        "size": {"type": "integer", "minimum": 0},
        "mode": {"type": "string", "default": "plain"},
    },
}
_LIST = {"type": "object", "properties": {"items": {"type": "array", "items": _ITEM}}}
_SHORT_LIST = {"type": "object", "properties": {"items": {"type": "array", "items": _ITEM, "maxItems": 1_000}}}
"""As long as a definition may allow where a rule compares all with all."""
_EACH_RULE = {**_ITEM, "x-kubernetes-validations": [{"rule": "self.size >= 0 && self.name.startsWith('n')"}]}
_ONE_RULE = [{"rule": "self.items.all(a, self.items.all(b, a.size >= 0 && b.size >= 0))"}]
DEFINITIONS = [
    _definition("frees", "Free", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    _definition("typeds", "Typed", _LIST),
    _definition("ruleds", "Ruled", {"type": "object", "properties": {"items": {"type": "array", "items": _EACH_RULE}}}),
    _definition("costlies", "Costly", {**_SHORT_LIST, "x-kubernetes-validations": _ONE_RULE}),
]


def _custom(kind: str, name: str, spec: Any, **more: Any) -> bytes:
    return encode({"apiVersion": "goes.example.com/v1", "kind": kind, "metadata": {"name": name, **more}, "spec": spec})


def _items(count: int, **wrong: Any) -> dict[str, Any]:
    return {"items": [{"name": f"n-{n:06}", "size": n, **wrong} for n in range(count)]}


FREE = {f"key-{n:05}": {"a": [n, n + 1], "b": f"text {n}"} for n in range(VALUES // 5)}
MANY = VALUES // 3


def _customs() -> Iterator[Kind]:
    """Large custom objects: schema, defaults, rules, patches."""

    def creating(plural: str, kind: str, spec: Any, query: str = "") -> Callable[[int], Ask]:
        return lambda n: Ask("POST", f"{THINGS}/{plural}{query}", _custom(kind, f"{kind.lower()}-{n}", spec))

    yield Kind("custom object without a schema, POST", creating("frees", "Free", FREE), 201)
    yield Kind(
        "the same, PUT",
        lambda n: Ask(
            "PUT", f"{THINGS}/frees/free-{n}", _custom("Free", f"free-{n}", FREE | {"z": n}, resourceVersion="")
        ),
        0,
    )
    yield Kind(
        "the same, a merge patch of its metadata",
        lambda n: Ask("PATCH", f"{THINGS}/frees/free-{n}", b'{"metadata":{"labels":{"a":"b"}}}', MERGE),
        200,
    )
    yield Kind(
        "the same, a merge patch of everything",
        lambda n: Ask("PATCH", f"{THINGS}/frees/free-{n}", encode({"spec": {name: {"a": 1} for name in FREE}}), MERGE),
        200,
    )
    patch = encode([{"op": "add", "path": f"/spec/key-{n:05}/c", "value": n} for n in range(9_000)])
    yield Kind("the same, JSON patch", lambda n: Ask("PATCH", f"{THINGS}/frees/free-{n}", patch, JSON_PATCH), 200)
    yield Kind(
        "the same, its status",
        lambda n: Ask("PATCH", f"{THINGS}/frees/free-{n}/status", encode({"status": FREE}), MERGE),
        200,
    )
    yield Kind("the same, GET", lambda n: Ask("GET", f"{THINGS}/frees/free-{n}"), 200)
    yield Kind(
        "the same, GET as a table", lambda n: Ask("GET", f"{THINGS}/frees/free-{n}", more={"Accept": TABLE}), 200
    )
    yield Kind("the same, DELETE", lambda n: Ask("DELETE", f"{THINGS}/frees/free-{n}"), 200)
    strict = "?fieldValidation=Strict"
    yield Kind("custom object with a schema, POST", creating("typeds", "Typed", _items(MANY)), 201)
    yield Kind("the same, strictly", creating("typeds", "Typed", _items(MANY), f"{strict}&dryRun=All"), 0)
    yield Kind(
        "the same, a key twice, strictly",
        lambda n: Ask(
            "POST", f"{THINGS}/typeds{strict}", _custom("Typed", f"t-{n}", _items(MANY))[:-2] + b',"z":1,"z":2}}'
        ),
        400,
    )
    yield Kind("all of it wrong", creating("typeds", "Typed", _items(MANY // 2, mode=1, name="A")), 422)
    yield Kind("all of it unknown", creating("typeds", "Typed", _items(MANY // 2, other=1)), 0)
    yield Kind("a rule on each item", creating("ruleds", "Ruled", _items(20_000)), 0)
    yield Kind("one costly rule", creating("costlies", "Costly", _items(1_000)), 422)
    yield Kind("the same on a small object", creating("costlies", "Costly", _items(150)), 201)


def _built_in() -> Iterator[Kind]:
    """Large objects of built-in kinds."""
    data = {f"key-{n:06}": "v" for n in range(VALUES // 2)}
    for kind, values in (("one text of 1 MB", {"a": "x" * 1_000_000}), ("many keys", data)):
        yield Kind(
            f"config map, {kind}, POST",
            lambda n, kind=kind, values=values: Ask(
                "POST",
                f"{CORE}/configmaps",
                encode({"metadata": {"name": f"{kind.replace(' ', '-').lower()}-{n}"}, "data": values}),
            ),
            201,
        )
    yield Kind(
        "config map, strategic merge",
        lambda n: Ask(
            "PATCH", f"{CORE}/configmaps/many-keys-{n}", encode({"data": dict.fromkeys(data, "w")}), STRATEGIC
        ),
        200,
    )
    env = [{"name": f"V{n}", "value": "x"} for n in range(VALUES // 3)]
    pod = {"metadata": {"name": ""}, "spec": {"containers": [{"name": "a", "image": "i", "env": env}]}}

    def pod_of(n: int, **more: Any) -> bytes:
        return encode(pod | {"metadata": {"name": f"pod-{n}", **more}})

    yield Kind("pod of many variables, POST", lambda n: Ask("POST", f"{CORE}/pods", pod_of(n)), 201)
    more_env = encode(
        {"spec": {"containers": [{"name": "a", "env": [{"name": f"W{n}", "value": "y"} for n in range(20_000)]}]}}
    )
    yield Kind("the same, strategic merge", lambda n: Ask("PATCH", f"{CORE}/pods/pod-{n}", more_env, STRATEGIC), 0)
    table, watch = {"Accept": TABLE}, "watch=true&timeoutSeconds=1&resourceVersion=0"
    yield Kind("pods of many variables, a table", lambda _: Ask("GET", f"{CORE}/pods", more=table), 200)
    yield Kind("the same, watched", lambda _: Ask("GET", f"{CORE}/pods?{watch}"), 200)
    yield Kind("the same, watched as a table", lambda _: Ask("GET", f"{CORE}/pods?{watch}", more=table), 200)
    yield Kind(
        "pod of many variables, binding",
        lambda n: Ask(
            "POST", f"{CORE}/pods/pod-{n}/binding", encode({"metadata": {"name": f"pod-{n}"}, "target": {"name": "n"}})
        ),
        201,
    )
    yield Kind(
        "the same, status",
        lambda n: Ask("PATCH", f"{CORE}/pods/pod-{n}/status", b'{"status":{"phase":"Running"}}', MERGE),
        200,
    )
    yield Kind(
        "the same, eviction",
        lambda n: Ask("POST", f"{CORE}/pods/pod-{n}/eviction", encode({"metadata": {"name": f"pod-{n}"}})),
        201,
    )
    yield Kind("the same, deletecollection", lambda _: Ask("DELETE", f"{CORE}/pods?labelSelector=none!=x"), 200)
    containers = [{"name": f"c{n}", "image": "i"} for n in range(5_000)]
    yield Kind(
        "pod with 5,000 containers, POST",
        lambda n: Ask(
            "POST", f"{CORE}/pods", encode({"metadata": {"name": f"many-{n}"}, "spec": {"containers": containers}})
        ),
        201,
    )
    terms = ",".join(f"k{n}!=v" for n in range(3_000))
    yield Kind("list, selector of 3,000 terms", lambda _: Ask("GET", f"{CORE}/configmaps?labelSelector={terms}"), 200)
    yield Kind(
        "watch, selector of 3,000 terms",
        lambda _: Ask("GET", f"{CORE}/configmaps?watch=true&timeoutSeconds=1&labelSelector={terms}"),
        200,
    )
    yield Kind(
        "deletecollection, selector of 3,000 terms",
        lambda _: Ask("DELETE", f"{CORE}/configmaps?labelSelector=a=b,{terms}"),
        200,
    )
    values = ",".join(f"v{n}" for n in range(6_000))
    yield Kind(
        "list, selector of 6,000 values",
        lambda _: Ask("GET", f"{CORE}/configmaps?labelSelector=k%20in%20({values})"),
        200,
    )


def _short() -> Iterator[Kind]:
    """Objects of less than 64 KiB that hold as many values as fit."""
    items = {"items": [{}] * 20_000}
    typed = f"{THINGS}/typeds/short"
    patch = {"metadata": {"labels": {"a": "b"}}}
    yield Kind("short objects: 20,000 items, POST", lambda n: Ask("POST", f"{THINGS}/typeds", _short_typed(n)), 201)
    yield Kind(
        "short objects: the same, PUT",
        lambda n: Ask("PUT", f"{typed}-{n}", _custom("Typed", f"short-{n}", items, resourceVersion="1")),
        409,
    )
    yield Kind(
        "short objects: a merge patch of its metadata",
        lambda n: Ask("PATCH", f"{typed}-{n}", encode(patch), MERGE),
        200,
    )
    yield Kind("short objects: GET as a table", lambda n: Ask("GET", f"{typed}-{n}", more={"Accept": TABLE}), 200)
    yield Kind("short objects: DELETE", lambda n: Ask("DELETE", f"{typed}-{n}"), 200)
    yield Kind(
        "short objects: a rule on each of 10,000 items",
        lambda n: Ask("POST", f"{THINGS}/ruleds", _custom("Ruled", f"short-{n}", {"items": [{}] * (10_000 - n)})),
        422,
    )
    yield Kind(
        "short objects: all of it wrong",
        lambda n: Ask("POST", f"{THINGS}/typeds", _custom("Typed", f"wrong-{n}", {"items": [0] * 30_000})),
        422,
    )
    yield Kind(
        "short objects: all of it unknown, strictly",
        lambda n: Ask(
            "POST",
            f"{THINGS}/typeds?fieldValidation=Strict",
            _custom("Typed", f"unknown-{n}", {f"k{m}": 0 for m in range(6_000)}),
        ),
        400,
    )
    operations = [{"op": "add", "path": "/data/a", "value": "1"}] * 1_500
    yield Kind(
        "short objects: JSON patch of 1,500 operations",
        lambda n: Ask("PATCH", f"{CORE}/configmaps/patched", encode(operations), JSON_PATCH),
        200,
        first=lambda _: [
            Ask("POST", f"{CORE}/configmaps", encode({"metadata": {"name": "patched"}, "data": {"b": ""}}))
        ],
    )
    data = {f"k{n}": "" for n in range(5_000)}
    yield Kind(
        "short objects: config map of 5,000 keys, POST",
        lambda n: Ask("POST", f"{CORE}/configmaps", encode({"metadata": {"name": f"short-{n}"}, "data": data})),
        201,
    )
    yield Kind(
        "short objects: the same, strategic merge",
        lambda n: Ask("PATCH", f"{CORE}/configmaps/short-{n}", encode({"data": dict.fromkeys(data)}), STRATEGIC),
        200,
    )

    def pod(n: int) -> bytes:
        container = {"name": "a", "image": "i", "env": [{"name": f"V{m}"} for m in range(3_500)]}
        return encode({"metadata": {"name": f"short-{n}"}, "spec": {"containers": [container]}})

    yield Kind("short objects: pod of 3,500 variables, POST", lambda n: Ask("POST", f"{CORE}/pods", pod(n)), 201)
    env = [{"name": f"W{n}", "value": ""} for n in range(2_200)]
    merged = encode({"spec": {"containers": [{"name": "a", "env": env}]}})
    yield Kind(
        "short objects: the same, strategic merge",
        lambda n: Ask("PATCH", f"{CORE}/pods/short-{n}", merged, STRATEGIC),
        422,
    )
    yield Kind(
        "short objects: the same, eviction",
        lambda n: Ask("POST", f"{CORE}/pods/short-{n}/eviction", encode({"metadata": {"name": f"short-{n}"}})),
        201,
    )
    ports = [{"port": n + 1, "name": f"p{n}"} for n in range(1_800)]
    yield Kind(
        "short objects: service of 1,800 ports, POST",
        lambda n: Ask(
            "POST", f"{CORE}/services", encode({"metadata": {"name": f"short-{n}"}, "spec": {"ports": ports}})
        ),
        201,
    )
    volumes = [{"name": f"v{n}", "emptyDir": {}} for n in range(1_800)]
    yield Kind(
        "short objects: pod of 1,800 volumes, POST",
        lambda n: Ask(
            "POST",
            f"{CORE}/pods",
            encode(
                {
                    "metadata": {"name": f"volumes-{n}"},
                    "spec": {"containers": [{"name": "a", "image": "i"}], "volumes": volumes},
                }
            ),
        ),
        201,
    )


def _short_typed(n: int) -> bytes:
    return _custom("Typed", f"short-{n}", {"items": [{}] * (20_000 - n)})


def _collections() -> Iterator[Kind]:
    """All objects there are, at their number."""
    many = "/api/v1/namespaces/many"
    initial = (
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    )
    yield Kind("list", lambda _: Ask("GET", f"{many}/pods"), 200)
    yield Kind("list by label", lambda _: Ask("GET", f"{many}/pods?labelSelector=a=1"), 200)
    terms = ",".join(f"k{n}!=v" for n in range(3_000))
    yield Kind("list by 3,000 terms", lambda _: Ask("GET", f"{many}/pods?labelSelector={terms}"), 200)
    values = ",".join(f"v{n}" for n in range(6_000))
    yield Kind("list by 6,000 values", lambda _: Ask("GET", f"{many}/pods?labelSelector=a%20in%20(1,{values})"), 200)
    fields = ",".join(f"status.phase!=v{n}" for n in range(2_000))
    yield Kind("list by 2,000 fields", lambda _: Ask("GET", f"{many}/pods?fieldSelector={fields}"), 200)
    yield Kind("table", lambda _: Ask("GET", f"{many}/pods", more={"Accept": TABLE}), 200)
    yield Kind("watch from the beginning", lambda _: Ask("GET", f"{many}/pods?{initial}"), 200)
    yield Kind(
        "a page after an insert",
        lambda _: Ask("GET", f"{many}/pods?limit=1"),
        200,
        first=lambda n: [_small_pod(f"new-{n}-{i}") for i in range(100)],
    )
    budget = encode({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "1"}}}})
    yield Kind(
        "eviction beside a disruption budget",
        lambda n: Ask("POST", f"{many}/pods/ready-{n}/eviction", encode({"metadata": {"name": f"ready-{n}"}})),
        429,
        first=lambda n: [
            _small_pod(f"ready-{n}"),
            Ask("PATCH", f"{many}/pods/ready-{n}/status", b'{"status":{"phase":"Running"}}', MERGE),
            Ask("POST", "/apis/policy/v1/namespaces/many/poddisruptionbudgets", budget),
        ],
    )
    quota = {"spec": {"hard": {"pods": "10000000", "requests.cpu": "10000000"}}}
    yield Kind(
        "pod, the first under a quota",
        lambda n: _small_pod(f"quota-{n}"),
        201,
        first=lambda n: [Ask("POST", f"{many}/resourcequotas", encode(quota | {"metadata": {"name": f"q{n}"}}))],
    )
    claims = {"spec": {"hard": {"requests.storage": "1000000Ti"}}}
    yield Kind(
        "claim under a quota",
        lambda n: Ask("POST", "/api/v1/namespaces/claims/persistentvolumeclaims", encode(_claim(f"new-{n}"))),
        201,
        first=lambda n: [
            Ask("POST", "/api/v1/namespaces/claims/resourcequotas", encode(claims | {"metadata": {"name": f"q{n}"}}))
        ],
    )
    yield Kind("deletecollection", lambda _: Ask("DELETE", f"{many}/pods?labelSelector=a=1"), 200, once=True)


def _small_pod(name: str) -> Ask:
    container = {"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    body = {"metadata": {"name": name, "labels": {"a": "1"}}, "spec": {"containers": [container]}}
    return Ask("POST", "/api/v1/namespaces/many/pods", encode(body))


def _claim(name: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


KINDS: dict[str, Callable[[], Iterator[Kind]]] = {
    "parsing": _parsing,
    "custom objects": _customs,
    "built-in objects": _built_in,
    "short objects": _short,
    "collections": lambda: (replace(kind, bar=COLLECTION_MS) for kind in _collections()),
}


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Probe:
    """Called in every turn of the loop; knows the longest go between two calls."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._last = time.process_time()
        self._loop.call_soon(self._look)

    def _look(self) -> None:
        now = time.process_time()
        self.longest = max(self.longest, now - self._last)
        self._loop.call_soon(self._look)
        self._last = time.process_time()


class Talker:
    """Asks from a process of its own, over one connection, and makes there what it asks."""

    def __init__(self, port: int, groups: list[str]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._stream = self._socket.makefile("rb")
        self._kinds = [kind for group in groups for kind in KINDS[group]()]
        self._next = b""

    def prepare(self, index: int, number: int) -> None:
        """Ask what comes before a kind's request of a round, and make that request."""
        kind = self._kinds[index]
        for before in kind.first(number):
            self.ask(before)
        self._next = kind.ask(number).text()

    def go(self) -> tuple[int, bytes]:
        """Send what was made."""
        return self._sent(self._next)

    def ask(self, ask: Ask) -> tuple[int, bytes]:
        """Return the status of the answer and the beginning of its body."""
        return self._sent(ask.text())

    def _sent(self, text: bytes) -> tuple[int, bytes]:
        self._socket.sendall(text)
        status = int(self._stream.readline().split()[1])
        length, chunked, shown = 0, False, b""
        while (line := self._stream.readline().lower()) != b"\r\n":
            length = int(line.partition(b":")[2]) if line.startswith(b"content-length") else length
            chunked = chunked or line.startswith(b"transfer-encoding: chunked")
        if chunked:
            while size := int(self._stream.readline(), 16):
                chunk = self._stream.read(size + 2)
                shown = shown or chunk[:200]
            self._stream.readline()
            return status, shown
        return status, self._stream.read(length)[:300]


_talker: list[Talker] = []
"""The one of this process."""


def connect(port: int, groups: list[str]) -> None:
    """Connect to the server and define what is asked for; runs in the client's process, as the next two do."""
    _talker.append(Talker(port, groups))
    for definition in DEFINITIONS:
        status, shown = _talker[0].ask(definition)
        assert status == 201, shown


def prepare(index: int, number: int) -> None:
    """Get ready for a kind of request in a round."""
    _talker[0].prepare(index, number)


def go() -> tuple[int, bytes]:
    """Ask."""
    return _talker[0].go()


@dataclass
class Row:
    """What was measured of a kind."""

    name: str
    ms: float
    bar: float
    status: int
    wrong: str = ""


async def measure(
    groups: list[str],
    objects: int,
    rounds: int,
    only: str = "",
    show: Callable[[Row], None] = lambda _: None,
    *,
    room: float = ROOM,
) -> list[Row]:
    """Ask for every kind so many times; return the longest go of the best round of each."""
    server, _ = open_server(SystemClock(), random.Random(1), None)
    if "collections" in groups:
        await _fill(server, objects)
    settle()
    http = await serve(create_app(server, lambda _headers, _peer: USER, flows=server.state.flows))
    loop = asyncio.get_running_loop()
    client = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    await loop.run_in_executor(client, connect, http.port, groups)
    probe = Probe()
    rows = []
    for index, kind in enumerate(kind for group in groups for kind in KINDS[group]()):
        if only not in kind.name:
            continue
        row = Row(kind.name, 1e9, kind.bar, 0)
        for number in range(1 if kind.once else rounds):
            await loop.run_in_executor(client, prepare, index, number)
            probe.longest = 0.0
            row.status, shown = await loop.run_in_executor(client, go)
            row.ms = min(row.ms, probe.longest * 1e3)
            if kind.status and row.status != kind.status:
                row.wrong = f"answered {row.status}, not {kind.status}: {shown!r}"
            elif row.status >= 500:
                row.wrong = f"answered {row.status}: {shown!r}"
        if row.ms > room * kind.bar:
            row.wrong = row.wrong or f"held the loop for {row.ms:.1f} ms"
        rows.append(row)
        show(row)
    client.shutdown()
    await http.stop()
    return rows


async def _fill(server: Any, objects: int) -> None:
    async def put(ask: Ask) -> None:
        answer = await server.handle(Request(ask.method, ask.path, {}, {"content-type": JSON}, ask.body, USER))
        assert answer.status == 201, answer.body

    for namespace in ("many", "claims"):
        await put(Ask("POST", "/api/v1/namespaces", encode({"metadata": {"name": namespace}})))
    for number in range(objects):
        await put(_small_pod(f"p-{number:07}"))
        await put(Ask("POST", "/api/v1/namespaces/claims/persistentvolumeclaims", encode(_claim(f"c-{number:07}"))))


def main() -> int:
    """Return 1 when a request held the loop for longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--groups", nargs="*", default=list(KINDS))
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    options = parser.parse_args()

    def show(row: Row) -> None:
        print(f"{row.name:<45} {row.ms:8.1f} ms  bar {row.bar:4.0f}  {row.status}  {row.wrong}", flush=True)

    rows = uvloop.run(measure(options.groups, options.objects, options.rounds, options.only, show))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
