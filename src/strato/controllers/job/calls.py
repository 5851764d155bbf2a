"""The API calls that a plan yields; a plan decides and writes nothing itself.

A plan is a generator. It yields calls that may be sent together, in any order, and receives their answers in the order
of the calls; a failed call's answer is its exception. A call that depends on an answer is yielded later. A plan uses no
client itself, so that one `Executor` can carry out the plans of many jobs, in the server's process and over a network.
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
    """Called as soon as the batch is answered, before the plan resumes: the watch may show the object meanwhile."""


class PatchCall(NamedTuple):
    """Patch an object; answered with the patched object, decoded as ``view``."""

    view: type[Object] | Kind
    namespace: str
    name: str
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes
    patch_type: PatchType = PatchType.MERGE
    subresource: str = ""


class Set(NamedTuple):
    """Patch an object idempotently; answered with None, which saves returning and decoding the object."""

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
    """Run a function in a thread; for work of tens of milliseconds, which would block the event loop."""

    work: Callable[[], Any]


Call = Create | PatchCall | Set | Delete | Get | Compute
Plan = Generator[Sequence[Call], Sequence[Any], T]


def ask(call: Call) -> Plan[Any]:
    """Yield one call and return its answer.

    Raises:
        Exception: The call failed.
    """
    (answer,) = yield (call,)
    if isinstance(answer, Exception):
        raise answer
    return answer
