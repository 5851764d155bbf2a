"""The API calls that a plan yields; a plan decides and writes nothing itself.

A plan is a generator. It yields calls that may be sent together, in any order, and receives their answers in the order
of the calls, errors among them; calls that depend on an answer come with a later yield. A plan knows no client, so that
one executor (`executor`) serves the plans of many jobs, in this process and over a network.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.client.cluster import PatchType

T = TypeVar("T")


class Create(NamedTuple):
    """Create an object; answered with `Created`."""

    kind: Kind
    namespace: str
    body: Mapping[str, Any] | bytes
    on_answer: Callable[[Any], None] | None = None
    """Called with the answer at once: the watch may show the object before the rest of its batch is created."""


class Change(NamedTuple):
    """Patch an object; answered with the object, as the view reads it."""

    view: type[Object] | Kind
    namespace: str
    name: str
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes
    patch_type: PatchType = PatchType.MERGE
    subresource: str = ""


class Set(NamedTuple):
    """Patch an object idempotently; answered with None, which costs less."""

    kind: Kind
    namespace: str
    name: str
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes
    patch_type: PatchType = PatchType.MERGE
    subresource: str = ""


class Delete(NamedTuple):
    """Delete an object; answered with None."""

    view: type[Object]
    namespace: str
    name: str
    uid: str


class Get(NamedTuple):
    """Read an object."""

    view: type[Object] | Kind
    namespace: str
    name: str


class Compute(NamedTuple):
    """Compute what takes tens of milliseconds, off the event loop."""

    work: Callable[[], Any]


Call = Create | Change | Set | Delete | Get | Compute
Plan = Generator[Sequence[Call], Sequence[Any], T]


def ask(call: Call) -> Plan[Any]:
    """Ask for one thing and return the answer.

    Raises:
        Exception: The answer.
    """
    (answer,) = yield (call,)
    if isinstance(answer, Exception):
        raise answer
    return answer
