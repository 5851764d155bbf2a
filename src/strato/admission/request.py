"""Requests to the admission chain, what their outcome depends on, and how rules read stored objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec

from strato.api.kinds import Kind
from strato.api.meta import Json as Json
from strato.api.wire import User
from strato.errors import Forbidden


class Operation(StrEnum):
    """What is being done to the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class AdmissionRequest(msgspec.Struct):
    """One write, after defaulting and before validation."""

    operation: Operation | str
    kind: Kind
    namespace: str
    name: str
    object: Json | None
    """The new object; mutators change it in place. None on DELETE."""
    old_object: Json | None = None
    """The stored object on UPDATE and DELETE."""
    user: User | None = None
    dry_run: bool = False
    subresource: str = ""
    """Empty for the main resource; few rules are about others."""
    warnings: list[str] = []
    """Warnings to the user if the request is admitted; rules append to it."""
    audit_annotations: dict[str, str] = {}
    """Annotations of the request's event in the audit log; rules add to them."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the admission of a new object depends on, besides its spec and status.

    Two objects of one kind and namespace with the same spec and status are defaulted and admitted with the same result
    while no object of the kinds in ``reads`` is written, all of ``fits`` hold, and there are no objects of ``absent``.
    """

    reads: tuple[Kind, ...] = ()
    """Kinds whose objects the rules read."""
    fits: tuple[Callable[[AdmissionRequest], bool], ...] = ()
    """Each returns whether a rule neither changes nor refuses the object because of its metadata."""
    by_name: tuple[Callable[[str, Json], bool], ...] = ()
    """The checks of ``fits`` that depend on the object's name: called with the name and an object of the same spec."""
    annotations: frozenset[str] = frozenset()
    """The annotations that ``fits`` read; of the metadata they read nothing else but the name. The result for an object
    that has one of them must not be reused for others."""
    users: tuple[Callable[[User | None], bool], ...] = ()
    """Each returns whether a rule does not apply to writes of a user; writes of other users are judged in full."""
    absent: tuple[Kind, ...] = ()
    """Kinds whose objects select by metadata the new objects they apply to."""


class AdmissionReader(Protocol):
    """Synchronous, cheap reads of stored objects, which callers must not change."""

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object or None; the namespace of a cluster-scoped one is empty."""

    def list(self, kind: Kind, namespace: str) -> Sequence[Json]:
        """Return all objects of a kind, of one namespace or (empty) of all."""


class Denied(Forbidden):
    """A webhook refused the request. Status 400 without a reason, as Volcano's webhooks only give a message."""

    default_reason, default_code = "", 400

    def __init__(self, webhook: str, message: str) -> None:
        self.webhook = webhook
        self.explanation = message
        super().__init__(f'admission webhook "{webhook}" denied the request: {message}')
