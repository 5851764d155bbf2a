"""Limits on a server's connections, in all and by user: how many, which one makes room, and how all of them end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from strato.api.wire import User

MOST_CONNECTIONS = 16_384
"""Most connections at the same time; above it, connections of the user with the most are closed."""
_USERS_PART = 4
"""One user may have at most a quarter of them."""
MAX_UNAUTHENTICATED = 512
"""Most connections that have not authenticated; above it the oldest is closed."""
HELD_BYTES = 256 << 20
"""Most bytes of unanswered requests in memory, of all users. One user may hold at most as much as is still free, so
that the next user always finds room (the dynamic threshold of Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998)."""

LARGE_BYTES = 64 << 10
TLS_BUFFERS_BYTES = 512 << 10
"""Memory that a connection over TLS keeps in buffers until it is closed, once a larger body has come; measured."""
PIECE_BYTES = 64
"""Memory that a piece of a body takes in addition to its bytes, about."""


class Holder(Protocol):
    """Something that keeps bytes in memory for a user."""

    owner: str
    """Name of the user; empty while it is not known."""
    held: tuple[str, int]
    """The user who is charged, and the bytes; `HeldBytes` sets it."""


H = TypeVar("H", bound=Holder)


class HeldBytes(Generic[H]):
    """Counts the bytes that holders keep in memory, in all and by owner."""

    def __init__(self) -> None:
        self.total = 0
        self.of: Counter[str] = Counter()
        """By owner, without those that hold nothing."""
        self._holders: dict[str, dict[H, None]] = {}
        """By owner what holds something, the longest holder first."""

    def note(self, holder: H, size: int) -> None:
        """Set the number of bytes that a holder keeps now."""
        charged, before = holder.held
        owner = holder.owner
        self.total += size - before
        if before:
            self.of[charged] -= before
            if not (size and charged == owner):
                holders = self._holders[charged]
                del holders[holder]
                if not holders:
                    del self._holders[charged], self.of[charged]
        if size:
            self.of[owner] += size
            self._holders.setdefault(owner, {})[holder] = None
        holder.held = owner, size

    def holders(self, owner: str) -> Iterable[H]:
        """Return what holds something of an owner, the longest holder first."""
        return self._holders.get(owner, ())

    def largest(self) -> H:
        """Return the largest holder of the owner with the most bytes; something must be held."""
        owner = max(self.of, key=self.of.__getitem__)
        return max(self._holders[owner], key=lambda holder: holder.held[1])


class Limited(Holder, Protocol):
    """What `ConnectionLimits` needs to know of a connection, and to do to it; it holds its requests and its buffers."""

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for its answer."""

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that wait in memory until the client reads."""

    def close_gracefully(self) -> None:
        """Close it after the answer to the request under way."""

    def abort(self) -> None:
        """Close it at once."""


C = TypeVar("C", bound=Limited)


class ConnectionLimits(Generic[C]):
    """The open connections of a server, by user, and the limits on them (see the module)."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.most_of_one = max(1, most // _USERS_PART)
        self.open: set[C] = set()
        self.unauthenticated: dict[C, None] = {}
        """Connections that have not authenticated, the oldest first."""
        self.of_users: dict[str, dict[C, None]] = {}
        self.held: HeldBytes[C] = HeldBytes()
        """Bytes of unanswered requests and of buffers."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_closed = asyncio.Event()

    def opened(self, connection: C) -> None:
        """Count a new connection; if there are too many, close another one."""
        if len(self.unauthenticated) >= min(MAX_UNAUTHENTICATED, self.most_of_one):
            next(iter(self.unauthenticated)).abort()
        elif len(self.open) >= self.most:
            self._make_room()
        self.open.add(connection)
        self.unauthenticated[connection] = None

    def _make_room(self) -> None:
        """Close the oldest unauthenticated connection, else an idle one of the user with the most."""
        if self.unauthenticated:
            next(iter(self.unauthenticated)).abort()
        elif self.of_users:
            most = max(self.of_users.values(), key=len)
            next((one for one in most if one.is_idle), next(iter(most))).abort()

    def admitted(self, connection: C, user: User) -> bool:
        """Count a connection as this user's; return False if the user has too many."""
        self.unauthenticated.pop(connection, None)
        if connection.owner:
            self._forget(connection)
        connection.owner = user.name
        of_user = self.of_users.setdefault(user.name, {})
        of_user[connection] = None
        return len(of_user) <= self.most_of_one

    def _forget(self, connection: C) -> None:
        of_user = self.of_users.get(connection.owner)
        if of_user is not None:
            of_user.pop(connection, None)
            if not of_user:
                del self.of_users[connection.owner]

    def hold(self, connection: C, size: int) -> bool:
        """Note the bytes of unanswered requests a connection holds now; return False if its user holds too many."""
        held = self.held
        held.note(connection, size)
        return not size or held.of[connection.owner] + held.total <= HELD_BYTES

    def close_idle_holder(self, owner: str) -> bool:
        """Close an idle connection of the user that holds something, its buffers; return False if there is none."""
        for connection in self.held.holders(owner):
            if connection.is_idle and not connection.unread_bytes:
                self.hold(connection, 0)
                connection.abort()
                return True
        return False

    def closed(self, connection: C) -> None:
        """Remove a connection that has ended from all counts."""
        self.hold(connection, 0)
        self.open.discard(connection)
        self.unauthenticated.pop(connection, None)
        self._forget(connection)
        if not self.open:
            self._all_closed.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task, which `close` cancels."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, seconds: float) -> None:
        """Close all connections after the answers under way; abort those that take longer than ``seconds``."""
        for connection in tuple(self.open):
            connection.close_gracefully()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.open:
                    self._all_closed.clear()
                    await self._all_closed.wait()
        for connection in tuple(self.open):
            connection.abort()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
