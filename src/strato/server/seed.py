"""Create the objects that every cluster starts with: namespaces, roles, definitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from strato.api import catalog, crds
from strato.api.kinds import Kind
from strato.errors import StateError
from strato.server import definitions, preparation
from strato.server.flowcontrol import defaults
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest.state import State, object_key

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "volcano-system")


class KindInUse(StateError):
    """Kinds that are to be switched off have objects."""

    def __init__(self, kinds: Mapping[str, int]) -> None:
        self.kinds = kinds
        stored = ", ".join(f"{count} {name}" for name, count in kinds.items())
        names = " ".join(f"'kubectl delete {name} -A --all'" for name in kinds)
        super().__init__(
            f"kinds of training jobs that are to be off are in use: {stored}; start with them and run {names} first"
        )


def seed(state: State, bootstrap: Iterable[Json], off: Collection[Kind] = ()) -> None:
    """Create the initial objects that are missing, and update our roles and definitions to this version's.

    Args:
        state: The server's state.
        bootstrap: Objects to create in addition to namespaces and definitions.
        off: Kinds of ours that are not served; definitions of them that we have created are deleted.

    Raises:
        KindInUse: There are objects of a kind in ``off``.
    """
    _drop(state, off)
    for name in NAMESPACES:
        ensure(state, catalog.NAMESPACE, {"metadata": {"name": name}})
    for obj in bootstrap:
        ensure(state, _kind_of(obj), obj, renew=True)
    for manifest in crds.manifests(off):
        ensure(state, catalog.CUSTOMRESOURCEDEFINITION, manifest, renew=True)


def _drop(state: State, off: Collection[Kind]) -> None:
    """Delete definitions that an earlier start has created; one that a user has created stays."""
    definition, (mark, value) = catalog.CUSTOMRESOURCEDEFINITION, crds.KEEP_ANNOTATION
    ours = []
    for name in sorted({kind.resource for kind in off}):
        stored = state.latest(definition, "", name)
        if stored is not None and (stored["metadata"].get("annotations") or {}).get(mark) == value:
            ours.append(name)
    used = {name: count for name in ours if (count := len(state.store.bucket(name).newest_keys()))}
    if used:
        raise KindInUse(used)
    for name in ours:
        state.store.write(definition.resource, name, None, state.bucket(definition).latest(name))


def seed_flow_control(state: State) -> None:
    """Create missing priority levels and flow schemas; update mandatory ones and those annotated for auto-update."""
    for kind, manifests in (
        (catalog.PRIORITYLEVELCONFIGURATION, defaults.LEVELS),
        (catalog.FLOWSCHEMA, defaults.SCHEMAS),
    ):
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            old = state.latest(kind, "", name) or manifest
            is_ours = (old["metadata"].get("annotations") or {}).get(defaults.AUTO_UPDATE) == "true"
            ensure(state, kind, manifest, renew=is_ours or name in defaults.MANDATORY)


def ensure(state: State, kind: Kind, manifest: Json, *, renew: bool = False) -> None:
    """Create an object if it is missing; with ``renew`` also replace one that differs, keeping its uid."""
    obj: Any = {"apiVersion": kind.api_version, "kind": kind.name, **manifest}
    obj["metadata"] = dict(obj["metadata"])
    metadata = obj["metadata"]
    key = object_key(kind, metadata.get("namespace", ""), metadata["name"])
    old = state.latest(kind, metadata.get("namespace", ""), metadata["name"])
    if old is not None and not renew:
        return
    served = Served(kind)
    preparation.fill_defaults(served, obj)
    preparation.begin_metadata(metadata)
    preparation.identify(served, metadata, state.clock, state.rng)
    preparation.begin_status(served, obj)
    if kind is catalog.NAMESPACE:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    elif kind is catalog.FLOWSCHEMA:
        obj["status"] = manifest["status"]
    elif kind is catalog.CUSTOMRESOURCEDEFINITION:
        obj["status"] = {**(old or {}).get("status", {})}
        definitions.complete(obj, state.clock.now())  # unchecked, as that takes long; a test checks ours
    if old is not None:
        metadata["uid"], metadata["creationTimestamp"] = old["metadata"]["uid"], old["metadata"]["creationTimestamp"]
        if "generation" in metadata:
            metadata["generation"] = old["metadata"].get("generation", 1) + 1
        if _content(obj) == _content(old):
            return
        if kind is catalog.CUSTOMRESOURCEDEFINITION:
            definitions.check(obj, old)
    metadata["resourceVersion"] = str(state.store.next_revision())
    state.store.write(kind.resource, key, encode(obj))


def _kind_of(obj: Json) -> Kind:
    for kind in catalog.BUILTIN:
        if (kind.api_version, kind.name) == (obj.get("apiVersion"), obj.get("kind")):
            return kind
    raise LookupError(f"no built-in kind {obj.get('apiVersion')} {obj.get('kind')}")


def _content(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}
