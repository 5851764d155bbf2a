"""Checks that a written object is the one that its path names: by name, namespace and uid."""

from __future__ import annotations

from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.api.status import conflict
from strato.errors import BadRequest


def check_name(obj: Json, name: str) -> None:
    """Check that the object has the name in the path.

    Raises:
        BadRequest: It has another one, or none.
    """
    found = obj["metadata"].get("name")
    if not found:
        raise nameless(name)
    if found != name:
        raise BadRequest(f"the name of the object ({found}) does not match the name on the URL ({name})")


def nameless(name: str) -> BadRequest:
    """Return the refusal of an object that has no name, unlike its path."""
    return BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def check_uid(kind: Kind, name: str, uid: str, own: str) -> None:
    """Check that a write that names a uid is about the stored object, whose uid is ``own``.

    Raises:
        Conflict: It is about another one.
    """
    if uid and uid != own:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
        raise conflict(kind, name, text)


def check_namespace(kind: Kind, obj: Json, namespace: str) -> None:
    """Put the URL's namespace into the object.

    Raises:
        BadRequest: The object names another one.
    """
    metadata = obj["metadata"]
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    found = metadata.get("namespace")
    if found and found != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace
