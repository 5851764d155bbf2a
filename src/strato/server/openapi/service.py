"""Answer ``/openapi/v2`` and ``/openapi/v3``; documents are built on request and cached per registry revision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from hashlib import sha512
from typing import Any, Protocol

import msgspec

from strato.api.kinds import Kind
from strato.api.wire import Request, Response
from strato.errors import NotAcceptable
from strato.server.discovery import Catalogue
from strato.server.openapi import documents, gnostic
from strato.server.openapi.documents import Sources
from strato.server.schema import shapes

_V2_PROTOBUF = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
_V2_PROTOBUF_TYPE = _V2_PROTOBUF[1]


class SchemaCatalogue(Catalogue, Protocol):
    """A registry that also knows the schemas of custom kinds."""

    def openapi_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """Return the schema as written in the CRD; None for built-in kinds."""


class OpenApi:
    """The OpenAPI documents of a registry."""

    def __init__(self, registry: SchemaCatalogue) -> None:
        self._registry = registry
        self._revision = -1
        self._groups: dict[str, Sources] = {}
        self._hashes: dict[str, str] = {}
        self._bodies: dict[str, bytes] = {}
        self._building = asyncio.Lock()

    def handle(self, request: Request) -> Response | Awaitable[Response] | None:
        """Answer a request below ``/openapi``; None for another path or an unknown group version.

        The v2 document is built in a thread, as that takes tenths of a second.

        Raises:
            NotAcceptable: The client accepts no form that we have.
        """
        if not request.path.startswith("/openapi/") or request.method not in ("GET", "HEAD"):
            return None
        self._refresh()
        path = request.path.rstrip("/")
        if path == "/openapi/v2":
            return self._version_two(request)
        if path == "/openapi/v3":
            return Response(200, self._body("v3", self._index))
        name = path.removeprefix("/openapi/v3/")
        if name not in self._groups:
            return None
        return self._version_three(request, name)

    def _refresh(self) -> None:
        registry = self._registry
        if self._revision == registry.revision:
            return
        self._revision = registry.revision
        sources = [(kind, registry.openapi_schema(kind)) for kind in registry.kinds()]
        self._groups = documents.by_group_version(sources)
        hashes = {name: _hash(members) for name, members in self._groups.items()}
        kept = {name: body for name, body in self._bodies.items() if hashes.get(name) == self._hashes.get(name, "")}
        self._bodies, self._hashes = kept, hashes

    def _body(self, name: str, build: Any) -> bytes:
        body = self._bodies.get(name)
        if body is None:
            body = self._bodies[name] = build()
        return body

    def _index(self) -> bytes:
        entries = {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={self._hashes[name]}"} for name in self._groups
        }
        return msgspec.json.encode({"paths": entries})

    def _version_three(self, request: Request, name: str) -> Response:
        accept = request.headers.get("accept", "")
        if accept and "json" not in accept and "*/*" not in accept:
            raise NotAcceptable("only the following media types are accepted: application/json")
        wanted, have = request.param("hash"), self._hashes[name]
        if wanted and wanted != have:
            return Response(301, headers={"Location": f"/openapi/v3/{name}?hash={have}"})
        headers = {"ETag": f'"{have}"', "Vary": "Accept"}
        headers["Cache-Control"] = "public, immutable" if wanted else "no-cache, private"
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(304, headers=headers)
        body = self._body(name, lambda: msgspec.json.encode(documents.version_three(self._groups[name])))
        return Response(200, body, headers=headers)

    def _version_two(self, request: Request) -> Response | Awaitable[Response]:
        accept = request.headers.get("accept", "")
        protobuf = any(name in accept for name in _V2_PROTOBUF)
        tag = sha512("".join(self._hashes.values()).encode()).hexdigest().upper()
        headers = {"ETag": f'"{tag}"', "Vary": "Accept"}
        content_type = _V2_PROTOBUF_TYPE if protobuf else "application/json"
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(304, b"", content_type, headers)
        name = "v2.pb" if protobuf else "v2"
        body = self._bodies.get(name)
        if body is None:
            return self._built_two(name, protobuf, content_type, headers)
        return Response(200, body, content_type, headers)

    async def _built_two(self, name: str, protobuf: bool, content_type: str, headers: dict[str, str]) -> Response:
        async with self._building:
            body, revision = self._bodies.get(name), self._revision
            if body is None:
                everything = [source for members in self._groups.values() for source in members]
                body = await asyncio.to_thread(self._build_two, everything, protobuf)
                if self._revision == revision:
                    self._bodies[name] = body
        return Response(200, body, content_type, headers)

    @staticmethod
    def _build_two(everything: Sources, protobuf: bool) -> bytes:
        document = documents.version_two(everything)
        return gnostic.encode_document(document) if protobuf else msgspec.json.encode(document)


def _hash(members: Sources) -> str:
    """Return a hash of a document's sources, which is cheaper for the index than building every document."""
    digest = sha512(shapes.load().version.encode())
    for kind, custom in members:
        digest.update(f"{kind!r} {kind.plural} {kind.namespaced} {kind.verbs} {kind.has_status}".encode())
        if custom is not None:
            digest.update(msgspec.json.encode(custom, order="deterministic"))
    return digest.hexdigest().upper()
