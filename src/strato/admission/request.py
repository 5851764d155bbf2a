"""What admission is asked, and what it may look at."""

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
    """Warnings to the user of a request that is admitted; rules add to it."""
    audit_annotations: dict[str, str] = {}
    """Annotations of the request's event in the audit log; rules add to it."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What decides how a new object is filled in and admitted, besides its spec and status.

    Two objects of one kind and namespace with the same spec and status are filled in and admitted with the same result
    while nothing is written of the kinds in ``reads``, all of ``fits`` hold, and there is nothing of ``absent``.
    """

    reads: tuple[Kind, ...] = ()
    """Kinds whose objects the rules look at."""
    fits: tuple[Callable[[AdmissionRequest], bool], ...] = ()
    """Whether what the rules have to say about its metadata is nothing."""
    by_name: tuple[Callable[[str, Json], bool], ...] = ()
    """What of ``fits`` is about the object's name: asked with that, and with an object that has the same spec."""
    annotations: frozenset[str] = frozenset()
    """The annotations that ``fits`` look at; of the metadata they look at nothing else but the name. What is filled
    into an object that has one of them says nothing about others."""
    users: tuple[Callable[[User | None], bool], ...] = ()
    """Whether the rules say nothing of what this user writes; of others everything is judged."""
    absent: tuple[Kind, ...] = ()
    """Kinds whose objects choose by metadata which new objects they are about."""


class AdmissionReader(Protocol):
    """Plain reads of what is stored; synchronous, cheap, never written to."""

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object or None; the namespace of a cluster-scoped one is empty."""

    def list(self, kind: Kind, namespace: str) -> Sequence[Json]:
        """Return all objects of a kind, of one namespace or (empty) of all."""


class Denied(Forbidden):
    """A webhook said no. Kubernetes answers 400 without a reason, since Volcano's webhooks give only a message."""

    default_reason, default_code = "", 400

    def __init__(self, webhook: str, message: str) -> None:
        self.webhook = webhook
        self.explanation = message
        super().__init__(f'admission webhook "{webhook}" denied the request: {message}')
