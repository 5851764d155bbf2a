"""Put a server together: in memory for tests and simulations, over a journal for ``strato up``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from strato.admission import Chain
from strato.api import catalog, crds
from strato.api.kinds import Kind
from strato.clock import Clock
from strato.metrics import Registry as Metrics
from strato.server import crd, objects
from strato.server.api import ApiServer
from strato.server.auth.rbac import Authorizer
from strato.server.discovery import Discovery
from strato.server.journal import SqliteJournal, open_store
from strato.server.logs import LogSource
from strato.server.objects import Json, encode
from strato.server.openapi import OpenApi
from strato.server.registry import Registry, Served
from strato.server.rest.state import AdmitAll, State, object_key
from strato.server.rest.tokens import Tokens
from strato.server.store import Event, Store

_RBAC_GROUP = ".rbac.authorization.k8s.io"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "volcano-system")


def in_memory_server(
    clock: Clock,
    rng: random.Random | None = None,
    *,
    chain: Chain | None = None,
    logs: LogSource | None = None,
    tokens: Tokens | None = None,
) -> ApiServer:
    """Return a server that keeps nothing on disk, serves Volcano's kinds and lets everybody do everything."""
    store = Store()
    return _assemble(store, clock, rng or random.Random(0), chain=chain or Chain(), logs=logs, tokens=tokens)


def open_server(
    clock: Clock,
    rng: random.Random,
    journal_path: Path | None,
    *,
    chain: Chain | None = None,
    rbac: bool = False,
    bootstrap: Iterable[Json] = (),
    logs: LogSource | None = None,
    metrics: Metrics | None = None,
    tokens: Tokens | None = None,
) -> tuple[ApiServer, SqliteJournal | None]:
    """Return a server over a journal (None keeps nothing); must be called on its event loop.

    ``bootstrap`` are objects to create when they are missing, such as the roles that ``rbac`` evaluates.
    """
    store, journal = open_store(journal_path)
    if journal is not None:
        journal.start(store)
    server = _assemble(
        store,
        clock,
        rng,
        chain=chain or Chain(),
        rbac=rbac,
        bootstrap=bootstrap,
        logs=logs,
        metrics=metrics,
        tokens=tokens,
    )
    return server, journal


def _assemble(
    store: Store,
    clock: Clock,
    rng: random.Random,
    *,
    chain: Chain,
    rbac: bool = False,
    bootstrap: Iterable[Json] = (),
    logs: LogSource | None = None,
    metrics: Metrics | None = None,
    tokens: Tokens | None = None,
) -> ApiServer:
    registry = Registry()
    _seed(State(store, clock, rng, registry, AdmitAll()), bootstrap)
    return ApiServer(
        store,
        clock,
        rng,
        registry=registry,
        admission=chain,
        authorizer=Authorizer(_RoleReader(store)) if rbac else None,
        pages=(Discovery(registry, clock), OpenApi(registry)),
        logs=logs,
        metrics=metrics,
        tokens=tokens,
    )


class _RoleReader:
    """Reads roles and bindings, and tells when one of them changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.rbac_revision = 0
        store.on_publish(self._observe)

    def _observe(self, resource: str, event: Event) -> None:
        if resource.endswith(_RBAC_GROUP):
            self.rbac_revision = event.revision

    def list(self, kind: Kind, namespace: str) -> Sequence[Json]:
        """Return all objects of a kind."""
        bucket = self._store.bucket(kind.resource)
        prefix = f"{namespace}/" if namespace else ""
        return [msgspec.json.decode(bucket.objects[key].body) for key in bucket.keys(prefix)]


def _seed(state: State, bootstrap: Iterable[Json]) -> None:
    """Create what every cluster has, where it is missing; our roles and definitions are brought up to date."""
    for name in NAMESPACES:
        _ensure(state, catalog.NAMESPACE, {"metadata": {"name": name}})
    for obj in bootstrap:
        kind = _kind_of(obj)
        _ensure(state, kind, obj, renew=True)
    for manifest in crds.manifests():
        _ensure(state, catalog.CUSTOMRESOURCEDEFINITION, manifest, renew=True)


def _kind_of(obj: Json) -> Kind:
    for kind in catalog.BUILTIN:
        if (kind.api_version, kind.name) == (obj.get("apiVersion"), obj.get("kind")):
            return kind
    raise LookupError(f"no built-in kind {obj.get('apiVersion')} {obj.get('kind')}")


def _ensure(state: State, kind: Kind, manifest: Json, *, renew: bool = False) -> None:
    obj: Any = {"apiVersion": kind.api_version, "kind": kind.name, **manifest}
    obj["metadata"] = dict(obj["metadata"])
    metadata = obj["metadata"]
    key = object_key(kind, metadata.get("namespace", ""), metadata["name"])
    old = state.latest(kind, metadata.get("namespace", ""), metadata["name"])
    if old is not None and not renew:
        return
    served = Served(kind)
    objects.fill_defaults(served, obj)
    objects.begin_life(served, obj, state.clock, state.rng)
    if kind is catalog.NAMESPACE:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    elif kind is catalog.CUSTOMRESOURCEDEFINITION:
        crd.prepare(obj, state.clock.now(), old)
    if old is not None:
        metadata["uid"], metadata["creationTimestamp"] = old["metadata"]["uid"], old["metadata"]["creationTimestamp"]
        metadata["generation"] = old["metadata"].get("generation", 1) + 1
        if _content(obj) == _content(old):
            return
    metadata["resourceVersion"] = str(state.store.next_revision())
    future = state.store.write(kind.resource, key, encode(obj))
    if not future.done():
        future.add_done_callback(_retrieved)


def _content(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def _retrieved(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
