"""Discovery: the groups, versions and resources served, in the old form and aggregated, and ``/version``.

Answers are built once per revision of the registry. Aggregated discovery (kubectl >= 1.27 asks for it first) is
chosen by the Accept header's ``as=APIGroupDiscoveryList``.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from strato import __version__
from strato.api.kinds import Kind
from strato.api.wire import Request, Response
from strato.clock import Clock, format_time

KUBERNETES_VERSION = "v1.36.3"
"""The Kubernetes whose API is served; the types' schemas are of this version."""

_VERSION_NAME = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"alpha": 0, "beta": 1, None: 2}
_SCALE_VERBS = ("get", "patch", "update")
_SUBRESOURCE_KINDS = {
    "binding": ("Binding", "", "", ("create",)),
    "attach": ("PodAttachOptions", "", "", ("create", "get")),
    "exec": ("PodExecOptions", "", "", ("create", "get")),
    "portforward": ("PodPortForwardOptions", "", "", ("create", "get")),
    "eviction": ("Eviction", "policy", "v1", ("create",)),
    "proxy": ("{}ProxyOptions", "", "", ("create", "delete", "get", "patch", "update")),
    "token": ("TokenRequest", "authentication.k8s.io", "v1", ("create",)),
}
"""Kind, group, version and verbs of subresources whose kind differs from their parent's."""


class Catalogue(Protocol):
    """The part of the registry that discovery and OpenAPI use."""

    @property
    def revision(self) -> int:
        """Grows with every change of the served kinds."""

    def kinds(self) -> Iterable[Kind]:
        """Return every served kind, all versions."""


class Discovery:
    """Answers ``/api``, ``/apis``, ``/api/v1``, ``/apis/{group}[/{version}]`` and ``/version``."""

    def __init__(self, registry: Catalogue, clock: Clock) -> None:
        self._registry = registry
        self._built_at = format_time(clock.now())
        self._revision = -1
        self._plain: dict[str, bytes] = {}
        self._aggregated: dict[tuple[str, str], bytes] = {}
        self._version = msgspec.json.encode(self._version_info())

    def handle(self, request: Request) -> Response | None:
        """Answer a discovery request; None when the path is something else (or an unknown group)."""
        if request.method not in ("GET", "HEAD"):
            return None
        path = request.path.rstrip("/")
        if path == "/version":
            return Response(200, self._version)
        if path != "/api" and not path.startswith(("/api/", "/apis")):
            return None
        if self._revision != self._registry.revision:
            self._build()
        if path in ("/api", "/apis"):
            version = _aggregated_version(request.headers.get("accept", ""))
            if version:
                return self._aggregate(request, path, version)
        body = self._plain.get(path)
        return Response(200, body) if body is not None else None

    def _aggregate(self, request: Request, path: str, version: str) -> Response:
        body = self._aggregated[path, version]
        tag = '"' + sha256(body).hexdigest().upper() + '"'
        content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "public"}
        if request.headers.get("if-none-match") == tag:
            return Response(304, b"", content_type, headers)
        return Response(200, body, content_type, headers)

    def _build(self) -> None:
        revision = self._registry.revision
        groups: dict[str, dict[str, list[Kind]]] = {}
        for kind in self._registry.kinds():
            groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
        encode = msgspec.json.encode
        plain = {"/api": encode(_API_VERSIONS), "/apis": b""}
        listed = []
        for group, versions in groups.items():
            for version, kinds in versions.items():
                plain[kinds[0].prefix] = encode(_resource_list(group, version, kinds))
            if group:
                entry = _group(group, sort_versions(versions))
                listed.append(entry)
                plain[f"/apis/{group}"] = encode({"kind": "APIGroup", "apiVersion": "v1", **entry})
        plain["/apis"] = encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        for path, chosen in (("/api", [""] if "" in groups else []), ("/apis", [name for name in groups if name])):
            items = [self._group_discovery(name, groups[name]) for name in chosen]
            for version in ("v2", "v2beta1"):
                api_version = f"apidiscovery.k8s.io/{version}"
                document = {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}
                self._aggregated[path, version] = encode(document)
        self._plain, self._revision = plain, revision

    def _group_discovery(self, group: str, versions: dict[str, list[Kind]]) -> dict[str, Any]:
        metadata = {"name": group, "creationTimestamp": self._built_at} if group else {"creationTimestamp": None}
        return {
            "metadata": metadata,
            "versions": [
                {
                    "version": version,
                    "resources": [_resource_discovery(kind) for kind in _by_plural(versions[version])],
                    "freshness": "Current",
                }
                for version in sort_versions(versions)
            ],
        }

    def _version_info(self) -> dict[str, str]:
        major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        return {
            "major": major,
            "minor": minor,
            "gitVersion": f"{KUBERNETES_VERSION}+strato{__version__}",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": self._built_at,
            "goVersion": f"python{platform.python_version()}",
            "compiler": sys.implementation.name,
            "platform": f"{sys.platform}/{machine}",
        }


_API_VERSIONS = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
}


def _aggregated_version(accept: str) -> str:
    """Return the version of the first aggregated form in the Accept header; "" if plain JSON comes before it."""
    for option in accept.split(","):
        parts = [part.strip() for part in option.split(";")]
        parameters = dict(part.split("=", 1) for part in parts[1:] if "=" in part)
        if parameters.get("as") == "APIGroupDiscoveryList":
            if parts[0] == "application/json" and parameters.get("v") in ("v2", "v2beta1"):
                return parameters["v"]
        elif parts[0] in ("application/json", "*/*"):
            return ""
    return ""


def sort_versions(versions: Iterable[str]) -> list[str]:
    """Order versions as Kubernetes prefers them: stable first, then beta, then alpha, larger numbers first."""

    def rank(name: str) -> tuple[int, int, int]:
        match = _VERSION_NAME.fullmatch(name)
        if match is None:
            return (-1, 0, 0)
        return (_STAGES[match[2]], int(match[1]), int(match[3] or 0))

    return sorted(sorted(versions), key=rank, reverse=True)


def _group(group: str, versions: Sequence[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _by_plural(kinds: Iterable[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: kind.plural)


def _subresources(kind: Kind) -> list[tuple[str, str, str, str, tuple[str, ...]]]:
    """Return name, kind, group, version and verbs of each subresource."""
    found: list[tuple[str, str, str, str, tuple[str, ...]]] = []
    for name in kind.subresources:
        if name in _SUBRESOURCE_KINDS:
            named, group, version, verbs = _SUBRESOURCE_KINDS[name]
            found.append((name, named.format(kind.name), group, version, verbs))
        elif name == "log":
            found.append((name, kind.name, "", "", ("get",)))
        elif name not in ("status", "scale"):
            found.append((name, kind.name, "", "", _SCALE_VERBS))
    if kind.scale_paths is not None:
        found.append(("scale", "Scale", "autoscaling", "v1", _SCALE_VERBS))
    if kind.has_status:
        found.append(("status", kind.name, "", "", _SCALE_VERBS))
    return sorted(found)


def _resource_list(group: str, version: str, kinds: Iterable[Kind]) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for kind in _by_plural(kinds):
        entry: dict[str, Any] = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.name,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        if "get" in kind.verbs:
            entry["storageVersionHash"] = _storage_hash(kind)
        resources.append(entry)
        for name, sub_kind, sub_group, sub_version, verbs in _subresources(kind):
            sub: dict[str, Any] = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
            if sub_version:
                sub |= {"group": sub_group, "version": sub_version} if sub_group else {"version": sub_version}
            resources.append({**sub, "kind": sub_kind, "verbs": list(verbs)})
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _storage_hash(kind: Kind) -> str:
    return msgspec.json.encode(sha256(f"{kind.group}/{kind.version}/{kind.name}".encode()).digest()[:8]).decode()[1:-1]


def _resource_discovery(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    subresources = [
        {
            "subresource": name,
            "responseKind": {
                "group": group if version else kind.group,
                "version": version or kind.version,
                "kind": sub_kind,
            },
            "verbs": list(verbs),
        }
        for name, sub_kind, group, version, verbs in _subresources(kind)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry
