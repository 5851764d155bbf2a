"""Answers requests while the journal is still being read.

``strato up`` reads its journal in one process, and then the other one decodes every pod for controllers, scheduler and
nodes. With a million pods each takes about twenty seconds, so `Opening` lets both happen at once: it serves the other
process's first list of pods in pages while a thread reads the rest of the journal. All other requests wait until the
server is open.

A journal may be believed only once it has been checked to its end. The last page, without which a client has no list,
is therefore held back until then, and carries the revision of the whole. It leaves after the answers of all requests
that waited, so that the client has its other, shorter lists first, as it has them from a server that is open.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from strato.api.kinds import Kind
from strato.api.wire import Handler, Request, Response, User
from strato.errors import Unavailable

PAGE_OBJECTS: Final = 5000
"""Objects of a page; a client that asks for smaller pages waits for the server."""
_PAGES_AHEAD: Final = 8
"""Pages that may wait for the client, some 130 MB of pods; then the reading thread waits."""
_PATIENCE_SECONDS: Final = 10.0
"""How long the reading thread waits for the client to take a page before it goes on without the early list."""
_TOKEN: Final = "opening-"


class _Page(NamedTuple):
    """Objects of the list in the order in which they were read."""

    objects: Sequence[bytes]
    revision: int
    """Of the whole list on its last page, else 0."""


class Opening(Handler):
    """Stands in for a server that is being opened; made on the loop that will serve.

    Two threads use it: the one that reads the journal calls `take`, everything else runs on the loop's thread.

    Args:
        kind: The objects that the client lists early; only a list of all namespaces without selectors is served. None
            lets every request wait.
        user: The only identity that is served before the server, which knows everybody's rights, is open.
    """

    def __init__(self, kind: Kind | None, user: User) -> None:
        self._kind, self._user = kind, user
        self._path, self._resource = (kind.path(), kind.resource) if kind is not None else ("", "")
        self._loop = asyncio.get_running_loop()
        self._server: Handler | None = None
        self._opened = asyncio.Event()
        self._waiting = 0
        """Requests that came before the server was open and are not answered yet."""
        self._none_waits = asyncio.Event()
        self._none_waits.set()
        self._reading: list[bytes] = []
        """The page that is being filled; of the reading thread."""
        self._room = threading.Semaphore(_PAGES_AHEAD)
        self._given_up = threading.Event()
        """Set when there is no early list (any more): the client did not ask in time, or has it."""
        self._pages: deque[_Page] = deque()
        self._arrived = asyncio.Event()
        """Set while there is a page, and for good once there will be none."""
        self._asked = 0
        """Pages that the client has asked for; each has the number of the one before as its token."""

    # On the reading thread

    def take(self, resource: str, body: bytes) -> None:
        """Note an object that was read; waits a while when the client does not keep up."""
        if resource != self._resource or self._given_up.is_set():
            return
        self._reading.append(body)
        if len(self._reading) < PAGE_OBJECTS:
            return
        if self._room.acquire(timeout=_PATIENCE_SECONDS):
            page, self._reading = _Page(self._reading, 0), []
            self._loop.call_soon_threadsafe(self._put, page)
        else:
            self._given_up.set()
            self._loop.call_soon_threadsafe(self._give_up)

    # On the loop's thread

    def finish(self, revision: int) -> None:
        """Complete the early list, if a client has begun with it: the journal has been read and is sound.

        Args:
            revision: Of everything that was read.
        """
        if self._asked:
            self._put(_Page(self._reading, revision))
        else:
            self._give_up()  # the server's own list will be as good

    def open(self, server: Handler) -> None:
        """Let the server answer from now on, but for the rest of an early list."""
        self._server = server
        self._opened.set()

    def close(self) -> None:
        """Give up, so that the reading thread waits for nobody."""
        self._give_up()
        self._room.release()

    def _put(self, page: _Page) -> None:
        if not self._given_up.is_set():
            self._pages.append(page)
            self._arrived.set()

    def _give_up(self) -> None:
        self._given_up.set()
        self._pages.clear()
        self._reading = []
        self._arrived.set()

    async def handle(self, request: Request) -> Response:
        """Answer a page of the early list; for anything else wait for the server, and let it answer."""
        if not self._given_up.is_set() and self._is_next_page(request):
            return await self._next_page()
        if request.param("continue").startswith(_TOKEN):
            raise Unavailable("the list that began while the journal was being read does not go on; list again")
        if self._server is not None:
            return await self._server.handle(request)
        self._count(1)
        try:
            response = await (await self._opened_server()).handle(request)
        except BaseException:
            self._count(-1)
            raise
        if response.is_text and response.stream is not None:
            response.stream = _Text(response.stream, partial(self._count, -1))
        else:
            self._count(-1)
        return response

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Let the server answer."""
        if self._server is not None:
            return await self._server.handle_all(requests)
        self._count(1)
        try:
            return await (await self._opened_server()).handle_all(requests)
        finally:
            self._count(-1)

    async def _opened_server(self) -> Handler:
        await self._opened.wait()
        assert self._server is not None, "it is open"
        return self._server

    def _count(self, number: int) -> None:
        """Note that requests began to wait, or, when negative, are answered.

        The last page of the early list leaves when none waits.
        """
        self._waiting += number
        (self._none_waits.clear if self._waiting else self._none_waits.set)()

    def _is_next_page(self, request: Request) -> bool:
        token = f"{_TOKEN}{self._asked}" if self._asked else ""
        return (
            request.method == "GET"
            and request.path == self._path
            and request.user == self._user
            and request.query.keys() <= {"limit", "continue"}
            and request.param("continue") == token
            and request.param("limit").isdecimal()
            and int(request.param("limit")) >= PAGE_OBJECTS
        )

    async def _next_page(self) -> Response:
        self._asked += 1
        token = f"{_TOKEN}{self._asked}"
        await self._arrived.wait()
        if not self._pages:
            raise Unavailable("the pods that the journal holds are not listed before it has been read; list again")
        page = self._pages.popleft()
        self._room.release()
        if page.revision:
            self._give_up()
            await self._opened.wait()
            await self._none_waits.wait()
            metadata = {"resourceVersion": str(page.revision)}
        else:
            if not self._pages:
                self._arrived.clear()
            metadata = {"continue": token}
        assert self._kind is not None, "only lists of it are served early"
        head = {"kind": self._kind.list_kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        body = b'%b,"items":[%b]}' % (msgspec.json.encode(head)[:-1], b",".join(page.objects))
        return Response(200, body)


class _Text(AsyncIterator[bytes]):
    """A list that is sent as a stream, and tells once when it has ended or was closed."""

    def __init__(self, chunks: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        self._chunks, self._on_end = chunks, on_end

    async def __anext__(self) -> bytes:
        """Return the next chunk."""
        try:
            return await anext(self._chunks)
        except BaseException:
            self._end()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        self._end()
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, lambda: None
        on_end()
