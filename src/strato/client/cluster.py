"""`Cluster`: the one interface through which every component talks to a Kubernetes API.

Reads are typed and partial: ask with a view class (``Pod``) and get views, or with a `Kind` and get plain
dicts. Writes are plain JSON: creates of whole objects and patches; a view is never sent back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar, Unpack, overload

import msgspec

from strato.api.kinds import Kind
from strato.api.meta import Json as Json
from strato.api.meta import Object
from strato.errors import ApiError

V = TypeVar("V", bound=Object)
T_co = TypeVar("T_co", covariant=True)


class PatchType(StrEnum):
    """Content type of a patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class EventType(StrEnum):
    """Type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """One change. A BOOKMARK's object carries only ``metadata.resourceVersion``. An ERROR frame is raised."""

    type: EventType
    object: T_co


PatchBody = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class WatchOptions(TypedDict, total=False):
    """Which objects of a collection to watch, from which revision on, and for how long."""

    label_selector: str
    field_selector: str
    resource_version: str
    timeout_seconds: int


class ListOptions(TypedDict, total=False):
    """Which objects of a collection to read, and which page of them."""

    label_selector: str
    field_selector: str
    resource_version: str
    limit: int
    continue_token: str


class PatchOptions(TypedDict, total=False):
    """How to patch an object; by default with a merge patch, and the object itself, not a subresource."""

    patch_type: PatchType
    subresource: str
    field_manager: str
    dry_run: bool


class DeleteOptions(TypedDict, total=False):
    """How to delete an object, and the uid and resource version that it must have."""

    uid: str
    resource_version: str
    grace_period_seconds: int | None
    propagation: str
    """Foreground, Background or Orphan."""
    dry_run: bool


class Binding(NamedTuple):
    """A pod and its node."""

    namespace: str
    pod: str
    node: str
    uid: str = ""
    annotations: Mapping[str, str] | None = None
    """Annotations that the server puts on the pod as well."""


class Patch(NamedTuple):
    """A change of one object of a known kind."""

    namespace: str
    name: str
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes
    """The patch; bytes are JSON that is sent as it is."""


class Deletion(NamedTuple):
    """An object to delete, if it still has this uid."""

    namespace: str
    name: str
    uid: str


class Created(msgspec.Struct, frozen=True, gc=False):
    """The identity that the server gave to a new object."""

    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")
    name: str = ""
    """The name; the generated one if the client sent ``generateName``."""


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T_co]):
    """The answer to a list: its items, their revision, and the token of the next page."""

    items: Sequence[T_co]
    resource_version: str
    continue_token: str = ""


class Cluster(Protocol):
    """Any Kubernetes API: the embedded server in this process, or one over HTTP(S).

    ``watch`` yields batches (everything that had arrived), bookmarks included, until the server ends it; it raises
    `Gone` when the revision is too old: list again. Every method raises the `strato.errors.ApiError` that the
    server answered; a connection that could not be made or broke before the answer is `Unavailable`. A `Cluster`
    retries only requests that the server has certainly not carried out; everything else is the caller's decision.
    """

    remote: bool
    """Whether requests cross a network: informers then page their lists and renew their watches."""

    @overload
    async def get(self, kind: type[V], name: str, namespace: str = "") -> V: ...
    @overload
    async def get(self, kind: Kind, name: str, namespace: str = "") -> Json: ...

    @overload
    async def list(self, kind: type[V], namespace: str = "", **options: Unpack[ListOptions]) -> ListPage[V]: ...
    @overload
    async def list(self, kind: Kind, namespace: str = "", **options: Unpack[ListOptions]) -> ListPage[Json]: ...

    def pages(self, kind: type[V], namespace: str = "", **options: Unpack[ListOptions]) -> AsyncIterator[ListPage[V]]:
        """Yield a collection in pages of ``limit`` objects; 0 is one page of all of them.

        The server makes the next page while this client decodes the one before.
        """
        ...

    @overload
    def watch(
        self, kind: type[V], namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncIterator[Sequence[WatchEvent[V]]]: ...
    @overload
    def watch(
        self, kind: Kind, namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncIterator[Sequence[WatchEvent[Json]]]: ...

    @overload
    async def create(
        self, kind: type[V], body: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> V: ...
    @overload
    async def create(
        self, kind: Kind, body: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> Json: ...

    async def replace(
        self, kind: Kind, body: Mapping[str, Any], *, subresource: str = "", dry_run: bool = False
    ) -> Json:
        """PUT a whole object that was read as JSON; conflicts unless its ``metadata.resourceVersion`` is the newest."""

    @overload
    async def patch(
        self, kind: type[V], name: str, namespace: str, body: PatchBody, **options: Unpack[PatchOptions]
    ) -> V: ...
    @overload
    async def patch(
        self, kind: Kind, name: str, namespace: str, body: PatchBody, **options: Unpack[PatchOptions]
    ) -> Json: ...

    async def delete(
        self, kind: type[Object] | Kind, name: str, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> None:
        """Delete an object."""

    at_once: int
    """How many writes to pass to one call of a method ``…_all``. These methods begin the writes in order, wait for all,
    and return the result or error of each instead of raising it. In-process, a batch costs much less than single
    writes; over a network it saves nothing and would wait for the slowest write, so this is 1."""

    async def create_all(
        self, kind: Kind, bodies: Sequence[Mapping[str, Any] | bytes], namespace: str
    ) -> Sequence[Created | ApiError]:
        """Create objects of one kind in one namespace; bytes are JSON that is sent as it is."""

    async def bind_all(self, bindings: Sequence[Binding]) -> Sequence[ApiError | None]:
        """POST Bindings of pods to nodes."""

    async def patch_all(
        self, kind: Kind, patches: Sequence[Patch], *, patch_type: PatchType = PatchType.MERGE, subresource: str = ""
    ) -> Sequence[ApiError | None]:
        """Patch objects of one kind."""

    async def change_all(
        self,
        kind: type[Object] | Kind,
        patches: Sequence[Patch],
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> Sequence[Any]:
        """Patch objects of one kind, and return them as they are afterwards."""

    async def delete_all(self, kind: type[Object], objects: Sequence[Deletion]) -> Sequence[ApiError | None]:
        """Delete objects of one kind."""

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send any request and return the whole answer body."""

    def stream(self, path: str, *, query: Mapping[str, str] | None = None, accept: str = "*/*") -> AsyncIterator[bytes]:
        """GET and yield the body as it arrives; for followed logs."""

    async def close(self) -> None:
        """Free connections. Further calls fail."""
