"""Answer requests while the journal is still being read.

One process of ``strato up`` reads the journal; the other then decodes every pod for controllers, scheduler and nodes.
With a million pods each takes about twenty seconds. `Opening` lets both happen at once: it serves the other process's
first list of pods in pages while a thread reads the rest of the journal. All other requests wait until the server is
open.

Objects of a journal may be used only once it has been checked to its end. `Opening` therefore holds back the last page,
without which the client has no list, until then; this page has the revision of the list. It is sent after the answers
to all requests that waited, so that the client gets its shorter lists first, as from a server that is open.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from strato.api.kinds import Kind
from strato.api.wire import Handler, Request, Response, User
from strato.errors import Unavailable
from strato.http.streaming import NotifyingStream

PAGE_OBJECTS: Final = 5000
"""Objects of a page; a client that asks for smaller pages has to wait for the server."""
_PAGES_AHEAD: Final = 8
"""Most pages that wait for the client, some 130 MB of pods; the reading thread waits before it adds another."""
_PAGE_TIMEOUT_SECONDS: Final = 10.0
"""How long the reading thread waits for the client to take a page before it goes on without the early list."""
_TOKEN: Final = "opening-"


class _Page(NamedTuple):
    """Objects of the list, in the order in which they were read."""

    objects: Sequence[bytes]
    revision: int
    """The list's revision on the last page, else 0."""


class Opening(Handler):
    """The handler in place of a server that is being opened; must be made on the server's event loop.

    Two threads use it: the one that reads the journal calls `take`; all other methods run on the loop's thread.

    Args:
        kind: The kind whose first list is served early, if it is of all namespaces and without selectors. With None
            every request waits.
        user: The only user that is served early, as other users' rights are known only to the open server.
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
        """The page that is being filled; only the reading thread uses it."""
        self._room = threading.Semaphore(_PAGES_AHEAD)
        self._given_up = threading.Event()
        """Set when there is no early list any more: the client did not ask in time, or has the list."""
        self._pages: deque[_Page] = deque()
        self._arrived = asyncio.Event()
        """Set while a page is ready, and for good once no more pages will come."""
        self._asked = 0
        """Number of pages that the client has asked for, which is also the continue token of the next page."""

    # On the reading thread

    def take(self, resource: str, body: bytes) -> None:
        """Add an object that was read to the list.

        When the client does not keep up this waits up to `_PAGE_TIMEOUT_SECONDS` for it to take a page.
        """
        if resource != self._resource or self._given_up.is_set():
            return
        self._reading.append(body)
        if len(self._reading) < PAGE_OBJECTS:
            return
        if self._room.acquire(timeout=_PAGE_TIMEOUT_SECONDS):
            page, self._reading = _Page(self._reading, 0), []
            self._loop.call_soon_threadsafe(self._put, page)
        else:
            self._given_up.set()
            self._loop.call_soon_threadsafe(self._give_up)

    # On the loop's thread

    def finish(self, revision: int) -> None:
        """Complete the early list, if the client has begun to read it; the journal has been read and is sound.

        Args:
            revision: The journal's newest revision.
        """
        if self._asked:
            self._put(_Page(self._reading, revision))
        else:
            self._give_up()  # a list of the open server costs the client no more

    def open(self, server: Handler) -> None:
        """Let the server answer all requests from now on, except those for the rest of the early list."""
        self._server = server
        self._opened.set()

    def close(self) -> None:
        """Give the early list up, so that the reading thread does not wait for the client."""
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
        """Answer with a page of the early list; any other request waits for the server, which then answers it."""
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
            response.stream = NotifyingStream(response.stream, partial(self._count, -1))
        else:
            self._count(-1)
        return response

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Wait for the server, and let it answer."""
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
        """Add to the number of waiting requests; a negative number is of answered ones.

        The last page of the early list is sent when none waits.
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
