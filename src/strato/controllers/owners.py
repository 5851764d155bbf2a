"""Owner references that controllers write."""

from __future__ import annotations

from typing import Any

from strato.api.meta import Object, ObjectMeta


def managers_of(one: Object) -> list[str]:
    """Return the uids of the controlling owners of an object, for an index."""
    return [owner.uid for owner in one.metadata.owner_references or () if owner.controller]


def controller_reference(api_version: str, kind: str, owner: ObjectMeta) -> dict[str, Any]:
    """Return the reference that makes ``owner`` the controlling owner of an object.

    A foreground deletion of the owner waits until the object is gone.
    """
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
