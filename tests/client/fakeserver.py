"""A small Kubernetes-like server with faults on order; served in-process or over HTTP.

It keeps objects, a log of changes and a compaction point, and obeys the rules an informer leans on: one revision
counter, lists in pages, watches from a revision, 410 for what is compacted, optimistic locking.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web

from strato.api.wire import Handler, Request, Response
from strato.errors import Unavailable

PATH = re.compile(
    r"(?P<prefix>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)


class FakeServer(Handler):
    def __init__(self) -> None:
        self.revision = 100
        self.compacted = 0
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}  # collection, namespace, name
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []  # revision, collection, type, object
        self.requests: list[Request] = []
        self.faults: list[tuple[str, Response | Exception]] = []  # verb, what happens instead
        self.watchers: set[Watcher] = set()
        self.max_frames = 1000
        self.hold = asyncio.Event()
        self.hold.set()

    # Scripting

    def fail_next(self, verb: str, code: int, reason: str, message: str = "scripted", retry_after: int | None = None):
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        body = msgspec.json.encode({**status, "message": message})
        self.faults.append((verb, Response(code, body, headers=headers)))

    def break_next(self, verb: str) -> None:
        self.faults.append((verb, Unavailable("scripted: connection refused")))

    def compact(self) -> None:
        self.compacted = self.revision
        for watcher in list(self.watchers):
            watcher.expire()

    def end_watches(self) -> None:
        for watcher in list(self.watchers):
            watcher.close(broken=False)

    def break_watches(self) -> None:
        for watcher in list(self.watchers):
            watcher.close(broken=True)

    def bookmark(self) -> None:
        for watcher in list(self.watchers):
            watcher.send("BOOKMARK", {"kind": "Any", "metadata": {"resourceVersion": str(self.revision)}})

    def put(self, collection: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Create or change an object behind the API."""
        metadata = obj["metadata"]
        key = (collection, metadata.get("namespace", ""), metadata["name"])
        old = self.objects.get(key)
        self.revision += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self.revision}"
        new = {**obj, "metadata": {**metadata, "uid": uid, "resourceVersion": str(self.revision)}}
        self.objects[key] = new
        self._emit(collection, "MODIFIED" if old else "ADDED", new)
        return new

    def remove(self, collection: str, namespace: str, name: str) -> None:
        old = self.objects.pop((collection, namespace, name))
        self.revision += 1
        gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
        self._emit(collection, "DELETED", gone)

    def names(self, collection: str) -> dict[tuple[str, str], str]:
        return {
            (ns, name): obj["metadata"]["resourceVersion"]
            for (where, ns, name), obj in self.objects.items()
            if where == collection
        }

    def verbs(self) -> list[str]:
        return [verb_of(request) for request in self.requests]

    def _emit(self, collection: str, type_: str, obj: dict[str, Any]) -> None:
        self.log.append((self.revision, collection, type_, obj))
        for watcher in list(self.watchers):
            if watcher.wants(collection, obj):
                watcher.send(type_, obj)

    # Handler

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        await self.hold.wait()
        verb = verb_of(request)
        for number, (wanted, outcome) in enumerate(self.faults):
            if wanted in (verb, "any"):
                del self.faults[number]
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome
        match = PATH.match(request.path)
        if match is None:
            return status(404, "NotFound", "no such path")
        collection, ns, name = f"{match['prefix']}/{match['plural']}", match["ns"] or "", match["name"] or ""
        if verb == "watch":
            return self._watch(request, collection, ns)
        if verb == "list":
            return self._list(request, collection, ns)
        return self._write(request, verb, (collection, ns, name), match["sub"] or "")

    def _list(self, request: Request, collection: str, ns: str) -> Response:
        wanted = sorted((key, obj) for key, obj in self.objects.items() if key[0] == collection and ns in ("", key[1]))
        token, limit = request.param("continue"), int(request.param("limit") or 0)
        revision, start = self.revision, 0
        if token:
            revision, start = (int(part) for part in token.split("-"))
            if revision < self.compacted:
                return status(410, "Expired", "the continue token is too old")
            # a page of the past: rebuild it from the log, as etcd reads at a revision
            wanted = self._at(revision, collection, ns)
        page = wanted[start : start + limit] if limit else wanted[start:]
        more = start + len(page) < len(wanted)
        metadata = {"resourceVersion": str(revision)}
        if more:
            metadata["continue"] = f"{revision}-{start + len(page)}"
        return ok({"kind": "List", "metadata": metadata, "items": [obj for _, obj in page]})

    def _at(self, revision: int, collection: str, ns: str) -> list[tuple[tuple[str, str, str], dict[str, Any]]]:
        state: dict[tuple[str, str, str], dict[str, Any]] = {}
        for at, where, type_, obj in self.log:
            if at <= revision and where == collection:
                key = (where, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
                if type_ == "DELETED":
                    state.pop(key, None)
                else:
                    state[key] = obj
        return sorted((key, obj) for key, obj in state.items() if ns in ("", key[1]))

    def _watch(self, request: Request, collection: str, ns: str) -> Response:
        since = int(request.param("resourceVersion") or 0)
        if since and since < self.compacted:
            return status(410, "Expired", "too old resource version")
        watcher = Watcher(self, collection, ns)
        for at, where, type_, obj in self.log:
            if at > since and where == collection:
                watcher.send(type_, obj)
        self.watchers.add(watcher)
        return Response(200, stream=watcher.stream())

    def _write(self, request: Request, verb: str, key: tuple[str, str, str], sub: str) -> Response:
        body = msgspec.json.decode(request.body) if request.body else {}
        if verb == "create" and not sub:
            key = (key[0], key[1], body["metadata"]["name"])
            if key in self.objects:
                return status(409, "AlreadyExists", f"{key[2]} already exists")
            body["metadata"].setdefault("namespace", key[1])
            return ok(self.put(key[0], body), 201)
        if key not in self.objects:
            return status(404, "NotFound", f"{key[2]} not found")
        old = self.objects[key]
        if verb == "create":
            return ok(self.put(key[0], {**old, sub: body}), 201)
        if verb == "delete":
            self.remove(*key)
            return ok({"kind": "Status", "status": "Success"})
        if verb == "update":
            if body["metadata"].get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
                return status(409, "Conflict", "the object has been modified")
            return ok(self.put(key[0], body))
        if verb == "patch":
            return ok(self.put(key[0], merge(old, body)))
        return ok(old)


class Watcher:
    def __init__(self, server: FakeServer, collection: str, ns: str) -> None:
        self.server, self.collection, self.ns = server, collection, ns
        self.frames: list[bytes] = []
        self.ready = asyncio.Event()
        self.state = "open"

    def wants(self, collection: str, obj: dict[str, Any]) -> bool:
        return collection == self.collection and self.ns in ("", obj["metadata"].get("namespace", ""))

    def send(self, type_: str, obj: dict[str, Any]) -> None:
        self.frames.append(msgspec.json.encode({"type": type_, "object": obj}) + b"\n")
        self.ready.set()

    def expire(self) -> None:
        gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "compacted"}
        self.send("ERROR", gone)
        self.close(broken=False)

    def close(self, broken: bool) -> None:
        self.state = "broken" if broken else "ended"
        self.server.watchers.discard(self)
        self.ready.set()

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            while True:
                while self.frames:
                    chunk = b"".join(self.frames[: self.server.max_frames])
                    del self.frames[: self.server.max_frames]
                    yield chunk
                if self.state == "broken":
                    raise Unavailable("scripted: connection broken")
                if self.state == "ended":
                    return
                self.ready.clear()
                await self.ready.wait()
        finally:
            self.server.watchers.discard(self)


def verb_of(request: Request) -> str:
    match = PATH.match(request.path)
    if request.method == "GET":
        if request.flag("watch"):
            return "watch"
        return "get" if match is not None and match["name"] else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]


def status(code: int, reason: str, message: str) -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return Response(code, msgspec.json.encode({**body, "message": message}))


def ok(body: dict[str, Any], code: int = 200) -> Response:
    return Response(code, msgspec.json.encode(body))


def merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name, {}), value)
    return result


def http_app(server: FakeServer) -> web.Application:
    """Serve the fake over HTTP; an exception of the core drops the connection."""

    async def answer(web_request: web.Request) -> web.StreamResponse:
        query: dict[str, list[str]] = {}
        for name, value in web_request.query.items():
            query.setdefault(name, []).append(value)
        headers = {name.lower(): value for name, value in web_request.headers.items()}
        body = await web_request.read()
        request = Request(web_request.method, web_request.path, query, headers, body)
        try:
            response = await server.handle(request)
            if response.stream is None:
                return web.Response(
                    status=response.status,
                    body=response.body,
                    content_type="application/json",
                    headers=response.headers,
                )
            answer = web.StreamResponse(headers={"content-type": "application/json"})
            await answer.prepare(web_request)
            try:
                async for chunk in response.stream:
                    await answer.write(chunk)
            except ConnectionResetError:
                return answer
            finally:
                await response.stream.aclose()  # type: ignore[attr-defined]  # ours are generators
        except Unavailable:
            assert web_request.transport is not None
            web_request.transport.abort()
            raise asyncio.CancelledError from None
        return answer

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", answer)
    return app
