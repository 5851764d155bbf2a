"""Owners of the replicas of an object, converted to entries of its Scale, which are never stored, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from strato.server.fieldmanager.entries import UPDATE, Identity
from strato.server.fieldmanager.paths import LEAF, FieldSet, difference, has, insert
from strato.server.fieldmanager.updater import Managed, Owned

SCALE_VERSION = "autoscaling/v1"
_REPLICAS: FieldSet = {"f:spec": {"f:replicas": LEAF}}
Paths = Mapping[str, str | None]
"""Path of the replicas (``.spec.replicas``) by version of a kind; None if that version has no scale."""


def to_scale(managed: Managed, paths: Paths) -> Managed:
    """Return the owners of the replicas, as owners in a scale."""
    return {
        _at(owner, SCALE_VERSION): Owned(_REPLICAS, SCALE_VERSION, owned.time)
        for owner, owned in managed.items()
        if _owns(owned, paths)
    }


def from_scale(managed: Managed, scale: Managed, paths: Paths, version: str) -> Managed:
    """Return the owners of an object, whose version is ``version``, after a write of its scale."""
    owners = {_anonymous(owner): owned for owner, owned in scale.items() if has(owned.fields, ("f:spec", "f:replicas"))}
    result: Managed = {}
    for owner, owned in managed.items():
        if owned.api_version not in paths:
            continue
        if _owns(owned, paths):
            if _anonymous(owner) in owners:
                del owners[_anonymous(owner)]
            else:
                owned = replace(owned, fields=difference(owned.fields, _path(paths[owned.api_version] or "")))
        if owned.fields:
            result[owner] = owned
    added = {_at(owner, version): Owned(_path(paths[version] or ""), version) for owner in owners}
    return {**result, **added}


def _owns(owned: Owned, paths: Paths) -> bool:
    path = paths.get(owned.api_version)
    return path is not None and has(owned.fields, _elements(path))


def _elements(path: str) -> list[str]:
    return [f"f:{part}" for part in path.strip(".").split(".")]


def _path(path: str) -> FieldSet:
    found: FieldSet = {}
    insert(found, _elements(path))
    return found


def _at(owner: Identity, version: str) -> Identity:
    return owner._replace(api_version=version if owner.operation == UPDATE else "")


def _anonymous(owner: Identity) -> Identity:
    """Return an identity without its API version, which differs between an object and its scale."""
    return owner._replace(api_version="")
