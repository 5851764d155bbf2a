"""A tiny API server for node tests: objects in a dict, patches, watches, graceful pod deletion. Nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from strato.api import catalog
from strato.api.wire import Handler, Request, Response, User
from strato.client.cluster import PatchType
from strato.client.local import LocalCluster
from strato.server.patch import apply_merge_patch, apply_strategic_patch
from strato.server.schema import builtin

Json = dict[str, Any]


def object_merged(target: Json, patch: Json, path: str = "") -> Json:
    """Return a pod, or the node that is stored under ``path``, with a strategic merge patch."""
    info = builtin.merge_info(catalog.NODE if path.startswith("/api/v1/nodes/") else catalog.POD)
    assert info is not None
    return apply_strategic_patch(target, patch, info.list_strategy)


def status_of(patch: Json) -> Json:
    """Return the status that the first patch of it makes, which has no other."""
    made: Json = object_merged({}, {"status": patch})["status"]
    return made


class FakeApi(Handler):
    """Paths are keys: ``/api/v1/namespaces/d/pods/x``."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.revision = 0
        self.watchers: list[tuple[str, asyncio.Queue[bytes]]] = []
        self.requests: list[tuple[str, str]] = []
        self.history: list[tuple[str, str, Json]] = []
        self.fail_next: list[tuple[str, int]] = []
        """(method, status): the next request of that method is answered so."""

    def cluster(self) -> LocalCluster:
        return LocalCluster(self, User("test"))

    async def handle(self, request: Request) -> Response:
        self.requests.append((request.method, request.path))
        await asyncio.sleep(0)
        for index, (method, status) in enumerate(self.fail_next):
            if method == request.method:
                del self.fail_next[index]
                return self._status(status, "Failed", "asked to fail")
        parts = request.path.strip("/").split("/")
        subresource = parts.pop() if parts[-1] in ("status", "binding", "token") else ""
        path = "/" + "/".join(parts)
        body = json.loads(request.body) if request.body else {}
        match request.method:
            case "POST":
                return self._post(path, subresource, body)
            case "GET":
                return self._get(path, request)
            case "PATCH":
                return self._patch(path, body, request.headers.get("content-type", ""))
            case "DELETE":
                return self._delete(path, body)
        return self._status(405, "MethodNotAllowed", request.method)

    def _post(self, path: str, subresource: str, body: Json) -> Response:
        if subresource == "token":
            return self._answer({"status": {"token": "a-token"}}, 201)
        name = body["metadata"]["name"]
        key = f"{path}/{name}"
        if key in self.objects:
            return self._status(409, "AlreadyExists", f"{name} already exists")
        self.put(key, body)
        return self._answer(self.objects[key], 201)

    def put(self, key: str, body: Json) -> Json:
        known = key in self.objects
        body = json.loads(json.dumps(body))
        meta = body.setdefault("metadata", {})
        if "/namespaces/" in key:
            meta.setdefault("namespace", key.split("/namespaces/")[1].split("/")[0])
        meta.setdefault("uid", f"uid-{self.revision + 1}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self._store("MODIFIED" if known else "ADDED", key, body)
        return body

    def _store(self, kind: str, key: str, body: Json) -> None:
        self.revision += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.revision)}
        if kind == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = body
        self.history.append((kind, key, json.loads(json.dumps(body))))
        line = json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n"
        for prefix, queue in self.watchers:
            if self._covers(prefix, key):
                queue.put_nowait(line)

    @staticmethod
    def _covers(collection: str, key: str) -> bool:
        plural = collection.rsplit("/", 1)[1]
        return key.startswith(collection + "/") or (f"/{plural}/" in key and "/namespaces/" not in collection)

    def _get(self, path: str, request: Request) -> Response:
        if path in self.objects:
            return self._answer(self.objects[path])
        if request.flag("watch"):
            return Response(200, stream=self._watch(path, int(request.param("resourceVersion") or 0)))
        items = [o for key, o in self.objects.items() if self._covers(path, key)]
        plural = path.rsplit("/", 1)[1]
        if plural in ("pods", "nodes", "leases", "configmaps", "secrets", "services", "endpointslices"):
            return self._answer({"metadata": {"resourceVersion": str(self.revision)}, "items": items})
        return self._status(404, "NotFound", f"{path} not found")

    async def _watch(self, path: str, since: int) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        for kind, key, body in self.history:
            if self._covers(path, key) and int(body["metadata"]["resourceVersion"]) > since:
                queue.put_nowait(json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n")
        entry = (path, queue)
        self.watchers.append(entry)
        try:
            while True:
                yield await queue.get()
        finally:
            self.watchers.remove(entry)

    def _patch(self, path: str, body: Json, media: str) -> Response:
        found = self.objects.get(path)
        if found is None:
            return self._status(404, "NotFound", f"{path} not found")
        uid = body.get("metadata", {}).get("uid")
        if uid and uid != found["metadata"]["uid"]:
            return self._status(409, "Conflict", "uid mismatch")
        patched = object_merged(found, body, path) if media == PatchType.STRATEGIC else apply_merge_patch(found, body)
        found.clear()
        found.update(patched)  # who holds it sees the change
        self._store("MODIFIED", path, found)
        return self._answer(found)

    def _delete(self, path: str, options: Json) -> Response:
        found = self.objects.get(path)
        if found is None:
            return self._status(404, "NotFound", f"{path} not found")
        grace = options.get("gracePeriodSeconds", 30)
        if "/pods/" in path and grace and found.get("spec", {}).get("nodeName"):
            found["metadata"]["deletionTimestamp"] = "2100-01-01T00:00:00Z"  # by the clock of no test is it over
            found["metadata"]["deletionGracePeriodSeconds"] = grace
            self._store("MODIFIED", path, found)
        elif found["metadata"].get("finalizers"):
            found["metadata"] |= {"deletionTimestamp": "2100-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
            self._store("MODIFIED", path, found)
        else:
            self._store("DELETED", path, found)
        return self._answer(found)

    @staticmethod
    def _answer(body: Json, status: int = 200) -> Response:
        return Response(status, json.dumps(body).encode())

    def _status(self, code: int, reason: str, message: str) -> Response:
        return self._answer(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": reason,
                "code": code,
                "message": message,
            },
            code,
        )

    # What tests ask and do

    def pod(self, name: str) -> Json | None:
        return self.objects.get(f"/api/v1/namespaces/default/pods/{name}")

    def create_pod(self, name: str, node: str, **spec: Any) -> Json:
        metadata = {"annotations": spec.pop("annotations", {}), "finalizers": spec.pop("finalizers", [])}
        spec.setdefault("containers", [{"name": "main", "image": "x", "command": ["./work"]}])
        spec.setdefault("restartPolicy", "Never")
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"nodeName": node, **spec},
            "status": {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                ],
            },
        }
        return self.put(f"/api/v1/namespaces/default/pods/{name}", body)

    def phase(self, name: str) -> str:
        pod = self.pod(name)
        return "gone" if pod is None else pod["status"]["phase"]

    def phases(self, name: str) -> list[str]:
        """Every phase the pod went through, repeats left out."""
        key = f"/api/v1/namespaces/default/pods/{name}"
        seen: list[str] = []
        for _, path, body in self.history:
            if path == key and (not seen or seen[-1] != body["status"]["phase"]):
                seen.append(body["status"]["phase"])
        return seen
