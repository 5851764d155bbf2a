"""Hostile requests, made from a generator: real objects with parts put wrong, patches, selectors, broken bytes."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]

SCALARS: Sequence[Any] = (
    None,
    True,
    0,
    -1,
    1.5,
    1 << 31,
    1 << 63,
    -(1 << 63) - 1,
    1e308,
    "",
    "a",
    "A b",
    "..",
    "../../etc/passwd",
    "é\u2028\U0001f600",
    "\x00\n",
    "1e999999999",
    "9" * 5000,
    "-0",
    "1Ki",
    "0x10",
    "100m",
    "2024-01-01T00:00:00Z",
    "9999-99-99T99:99:99Z",
    "0000-00-00T00:00:00Z",
    "1h99999999999999999m",
    "* * * * *",
    "*/0 99 * * 8",
    "@every 1ns",
    "(a+)+$",
    "(",
    "self.all(x, self.all(y, self.all(z, x == y)))",
    "{.a[?(@.b==1)]}",
    "IntOrString",
    "=",
    "Zm9v",
    "Zm9",
    "127.0.0.1/99",
    "::",
    "x" * 300,
    "kubernetes.io/x",
    "a/b/c",
    "$(x)",
)
KEYS = ("name", "a", "", "x" * 300, "kubernetes.io/hostname", "\x00", "$patch", "$ref", "spec", "metadata", "é")
NAMES = ("a", "fuzz-1", "fuzz-2", "..", "%2e%2e", "a/b", "A", "x" * 300, "%00", "é", "a b", "status", "-", "*")
MEDIA = (
    "application/json",
    "application/json;charset=utf-8",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/cbor",
    "text/plain",
    "*/*",
    "",
    "application/json; \x80",
)
ACCEPTED = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v9;g=x",
    "application/yaml",
    "text/html",
    "*/*;q=0",
    ";",
)
METHODS = ("GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
PARAMETERS: dict[str, Sequence[str]] = {
    "labelSelector": (
        "a=b",
        "a in (b,c",
        "!a,b!=c",
        "a>1",
        "," * 50,
        "a in (" + "b," * 2000 + "c)",
        "é",
        "=",
        "(" * 500,
    ),
    "fieldSelector": (
        "metadata.name=a",
        "spec.nodeName=",
        "a=b",
        "metadata.name!=a,status.phase=Running",
        "=",
        "\\",
        "a" * 900,
    ),
    "limit": ("1", "0", "-1", "9" * 30, "x", ""),
    "continue": ("x", "e30", "eyJ2IjoxfQ", "////", "ey" * 400),
    "resourceVersion": ("0", "1", "9" * 30, "-1", "x", ""),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "watch": ("true", "1", "x"),
    "timeoutSeconds": ("1",),
    "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "x"),
    "dryRun": ("All", "x", ""),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "fieldManager": ("a", "x" * 300, "\x01"),
    "gracePeriodSeconds": ("0", "-1", "x", "9" * 30, "²"),
    "propagationPolicy": ("Foreground", "Orphan", "x"),
    "orphanDependents": ("true", "x"),
    "pretty": ("true",),
    "force": ("true",),
    "tailLines": ("1", "-1", "x"),
    "container": ("a",),
    "follow": ("x",),
    "includeObject": ("Object", "x"),
    "%00": ("x",),
}
DIRECTIVES = ("replace", "delete", "merge", "x", None, [], 5)


@dataclass
class Sent:
    """A request as it is sent."""

    method: str
    target: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    in_chunks: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.target[:300]} {self.headers} {self.body[:1500]!r}"

    def render(self, token: str) -> bytes:
        """Return the bytes."""
        headers = [("Host", "fuzz"), ("Authorization", f"Bearer {token}"), *self.headers]
        if self.in_chunks:
            headers.append(("Transfer-Encoding", "chunked"))
            body = b"%x\r\n%b\r\n0\r\nX-Trailer: a\r\nAuthorization: Bearer b\r\n\r\n" % (len(self.body), self.body)
            body = body if self.body else b"0\r\n\r\n"
        else:
            body = self.body
            headers.append(("Content-Length", str(len(body))))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return f"{self.method} {self.target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1", "replace") + body


class Mutator:
    """Makes requests.

    Args:
        rng: Chooses.
        resources: Paths of resources with ``{namespace}`` and ``{name}`` in them, and their kinds.
        seeds: Real objects by kind.
        packed: Real objects in protobuf by kind.
    """

    def __init__(
        self,
        rng: random.Random,
        resources: Sequence[tuple[str, str]],
        seeds: dict[str, list[Json]],
        packed: dict[str, bytes],
    ) -> None:
        self.rng, self.resources, self.seeds, self.packed = rng, resources, seeds, packed
        self.any_seed = [seed for found in seeds.values() for seed in found]

    def request(self) -> Sent:
        """Return the next request."""
        rng = self.rng
        template, kind = rng.choice(self.resources)
        method = rng.choice(METHODS)
        seed = self._seed(kind)
        name = rng.choice(NAMES) if rng.random() < 0.2 else str((seed.get("metadata") or {}).get("name", "a"))
        if rng.random() < 0.9:  # what is done to an object has its name, what is done to a collection has none
            if "{name}" in template:
                method = rng.choice(("GET", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "DELETE"))
            else:
                method = "GET" if rng.random() < 0.25 else "POST"
        namespace = "default" if rng.random() < 0.93 else rng.choice(NAMES)
        target = template.replace("{namespace}", quote(namespace, safe="%/")).replace("{name}", quote(name, safe="%/"))
        query = self._query(method)
        headers: list[tuple[str, str]] = []
        body = b""
        if method in ("POST", "PUT", "PATCH") or rng.random() < 0.1:
            media, body = self._body(method, kind, seed)
            headers.append(("Content-Type", media))
            if rng.random() < 0.01:
                headers.append(("Content-Encoding", rng.choice(("gzip", "br", "identity", ""))))
                body = gzip.compress(body) if rng.random() < 0.7 else body
        if rng.random() < 0.15:
            headers.append(("Accept", rng.choice(ACCEPTED)))
        if rng.random() < 0.02:
            headers.append(
                (rng.choice(("Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a")), "x")
            )
        return Sent(method, target + query, headers, body, rng.random() < 0.05)

    def _query(self, method: str) -> str:
        rng = self.rng
        if rng.random() < 0.6:
            return ""
        chosen = [rng.choice(list(PARAMETERS)) for _ in range(rng.randint(1, 3))]
        pairs = [(name, rng.choice(PARAMETERS[name])) for name in chosen]
        if "watch" in chosen or "follow" in chosen:
            pairs.append(("timeoutSeconds", "1"))
        del method
        return "?" + "&".join(f"{name}={quote(value)}" for name, value in pairs)

    def _seed(self, kind: str) -> Json:
        found = self.seeds.get(kind)
        if not found or self.rng.random() < 0.03:
            return copy.deepcopy(self.rng.choice(self.any_seed))
        return copy.deepcopy(self.rng.choice(found))

    def _body(self, method: str, kind: str, seed: Json) -> tuple[str, bytes]:
        rng = self.rng
        if rng.random() < 0.03:
            return rng.choice(MEDIA), rng.choice(BOMBS)()
        if method == "PATCH":
            return self._patch(seed)
        if rng.random() < 0.08 and kind in self.packed:
            return MEDIA[3], self.broken(self.packed[kind])
        for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
            seed = self.mutated(seed)
        body = json.dumps(seed).encode()
        if rng.random() < 0.05:
            body = self.broken(body)
        if rng.random() < 0.05:
            return rng.choice(MEDIA[2:3] + MEDIA), body
        return MEDIA[0], body

    def _patch(self, seed: Json) -> tuple[str, bytes]:
        rng = self.rng
        media = rng.choice(MEDIA[4:7]) if rng.random() < 0.95 else rng.choice(MEDIA)
        body: Any
        if media == MEDIA[4]:
            body = [self._operation(seed) for _ in range(rng.choice((0, 1, 1, 2, 3, 10)))]
            if rng.random() < 0.1:
                body = self.mutated(body)
        else:
            body = self._cut(self.mutated(self.mutated(seed)))
            for _ in range(rng.randint(0, 2)):
                place = self._place(body)
                if isinstance(place, dict):
                    name = rng.choice(
                        ("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers")
                    )
                    place[name] = rng.choice(DIRECTIVES) if rng.random() < 0.5 else self._value()
        encoded = json.dumps(body).encode()
        return media, self.broken(encoded) if rng.random() < 0.03 else encoded

    def _operation(self, seed: Json) -> Any:
        rng = self.rng
        if rng.random() < 0.02:
            return self._value()
        found: Json = {
            "op": rng.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
            "path": self._path(seed),
        }
        if rng.random() < 0.7:
            found["value"] = self._value()
        if rng.random() < 0.4:
            found["from"] = self._path(seed)
        return found

    def _path(self, value: Any) -> Any:
        rng, steps = self.rng, ""
        if rng.random() < 0.05:
            return rng.choice(("", "/", "/-", "a", "~", "/~2", "/metadata/-", 5, None, "/a" * 300))
        while isinstance(value, dict | list) and value and rng.random() < 0.75:
            if isinstance(value, dict):
                key = rng.choice(list(value))
                steps += "/" + str(key).replace("~", "~0").replace("/", "~1")
                value = value[key]
            else:
                at = rng.randrange(len(value))
                steps += f"/{at}" if rng.random() < 0.8 else rng.choice(("/-", "/99", "/-1", "/x"))
                value = value[at]
        return steps + (rng.choice(("/x", "/-", "/0", "/")) if rng.random() < 0.15 else "")

    def _cut(self, value: Any) -> Any:
        """Leave only some members, as patches have."""
        if not isinstance(value, dict):
            return value
        kept = [name for name in value if self.rng.random() < 0.4]
        return {name: self._cut(value[name]) for name in kept}

    def _value(self) -> Any:
        rng = self.rng
        if rng.random() < 0.65:
            return rng.choice(SCALARS)
        if rng.random() < 0.5:
            return [self._value() for _ in range(rng.randint(0, 3))]
        return {rng.choice(KEYS): self._value() for _ in range(rng.randint(0, 3))}

    def _place(self, value: Any) -> Any:
        """Return some list or map inside a value."""
        while isinstance(value, dict | list) and value:
            inner = [
                one for one in (value.values() if isinstance(value, dict) else value) if isinstance(one, dict | list)
            ]
            if not inner or self.rng.random() < 0.3:
                return value
            value = self.rng.choice(inner)
        return value

    def mutated(self, value: Any) -> Any:
        """Put one part of a value wrong."""
        rng = self.rng
        if rng.random() < 0.01 or not isinstance(value, dict | list):
            return self._value()
        place = self._place(value)
        kind = rng.random()
        if isinstance(place, dict) and place and kind < 0.75:
            key = rng.choice(list(place))
            if kind < 0.5:
                place[key] = self._value()
            elif kind < 0.6:
                del place[key]
            elif kind < 0.7:
                place[key] = [place[key]] * rng.choice((1, 2, 50))
            else:
                place[rng.choice(KEYS)] = place[key]
        elif isinstance(place, dict):
            place[rng.choice(KEYS)] = self._value()
        elif isinstance(place, list):
            if place and kind < 0.5:
                place[rng.randrange(len(place))] = self._value()
            else:
                place.extend([self._value()] if kind < 0.8 or not place else place * 3)
        return value

    def broken(self, body: bytes) -> bytes:
        """Return bytes with some of them cut, put in or changed."""
        rng = self.rng
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(body) + 1)
            put = rng.choice(
                (b"", b"\x00", b"\xff", b'"', b"}", b"[", b"\\", b"\\ud800", b"1e999", bytes([rng.randrange(256)]))
            )
            body = body[:at] + put + body[at + rng.choice((0, 1, 1, 3)) :]
        return body[: rng.randrange(len(body) + 1)] if rng.random() < 0.1 else body


def _anchors(first: str, each: str) -> bytes:
    lines = ["a0: &a0 " + first, *(f"a{n}: &a{n} " + each % ",".join([f"*a{n - 1}"] * 9) for n in range(1, 30))]
    return "\n".join(lines).encode()


BOMBS: Sequence[Callable[[], bytes]] = (
    lambda: b"[" * 50_000,
    lambda: b'{"a":' * 50_000,
    lambda: b"[" * 900 + b"]" * 900,
    lambda: b'{"metadata":' + b'{"a":' * 127 + b"1" + b"}" * 128,
    lambda: b"- " * 50_000,
    lambda: _anchors("[x]", "[%s]"),
    lambda: _anchors("{a: 1}", "{<<: [%s]}"),
    lambda: b"a: " + b"1:" * 20_000 + b"1",
    lambda: b"[" + b"[]," * 200_000 + b"[]]",
    lambda: b'{"a":"' + b"x" * 2_000_000 + b'"}',
    lambda: b"[" + b"9" * 100_000 + b"]",
    lambda: b"k8s\x00" + b"\x0a\xff\xff\xff\xff\x0f",
    lambda: b"k8s\x00" + b"\x12" * 3000,
    lambda: b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + b"\x80\x08" + b"\x0a\x00" * 512,
    lambda: json.dumps([{"op": "copy", "from": "", "path": f"/a{n}"} for n in range(100)]).encode(),
    lambda: json.dumps(
        [{"op": "add", "path": "/metadata/annotations/a" + "/a" * n, "value": {}} for n in range(100)]
    ).encode(),
    lambda: json.dumps([{"op": "test", "path": "/metadata/name", "value": "x"}] * 20_000).encode(),
    lambda: json.dumps({"metadata": {"name": "x" * 1_000_000, "labels": {str(n): "v" for n in range(5000)}}}).encode(),
    lambda: json.dumps({"metadata": {"ownerReferences": [{"uid": str(n)} for n in range(10_000)]}}).encode(),
    lambda: json.dumps({"metadata": {"finalizers": [f"a.b/{n}" for n in range(20_000)]}}).encode(),
)
"""Bodies that once stopped a server, or could."""

RAW: Sequence[bytes] = (
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://x/api HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /api/v1/pods HTTP/0.9\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
    b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /%00%ff/../.. HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /api HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
    b"\x16\x03\x01\x00",
)
"""What is hardly HTTP."""
