"""Read all objects of a namespace in slices; the result is the state at the moment it is returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from strato.api.kinds import Kind
from strato.errors import Gone
from strato.server.flowcontrol.dispatch import Steps
from strato.server.rest.largewrites import Changed
from strato.server.rest.state import State

T = TypeVar("T")
FEW = 500
"""Objects read without yielding: some milliseconds."""


def are_many(state: State, kind: Kind, namespace: str) -> bool:
    """Tell whether a namespace has so many objects of a kind that they have to be read in slices."""
    bucket = state.bucket(kind)
    return len(bucket.objects) > FEW and bucket.count(f"{namespace}/") > FEW


def read_in_slices(state: State, kind: Kind, namespace: str, read: Callable[[bytes], T | None]) -> Steps[dict[str, T]]:
    """Return by key the results of ``read`` for the newest state of each object, without those that are None.

    Raises:
        Changed: More objects have changed meanwhile than the store keeps events of.
    """
    bucket, prefix = state.bucket(kind), f"{namespace}/"
    revision = state.store.published
    snapshot = bucket.snapshot(revision)

    def look() -> dict[str, T]:
        return {key: value for key, body in snapshot.items(prefix) if (value := read(body)) is not None}

    found: dict[str, T] = yield look
    try:
        changed = {event.key for event in bucket.events_after(revision)}
    except Gone as error:
        raise Changed from error
    for key in changed.union(bucket.pending):
        if key.startswith(prefix):
            body = bucket.latest(key)
            value = None if body is None else read(body)
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
    return found
