"""The journal's thread: group commits.

One commit is under way at a time (WAL, ``synchronous=FULL``). What was written meanwhile, and in the turn of the loop
in which the writers hear of it, goes into the next one: a flush costs as much as a dozen changes, and the thread fights
for the interpreter lock each time it wakes. When the journal is idle (or the log has grown large) the oldest rows are
folded. `Store` is notified on the loop's thread. What cannot be committed is tried again, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any, NamedTuple

from strato.errors import Unavailable
from strato.server.encryption import Encryption, require_plain
from strato.server.journal.errors import REMEDY, JournalError
from strato.server.journal.file import JournalFile
from strato.server.journal.mark import Marked
from strato.server.journal.records import Row, Stored
from strato.server.snapshot import Change
from strato.server.store import Store

_log = logging.getLogger(__name__)

_BATCH = 20_000
_BATCH_BYTES = 64 << 20
"""A commit holds at most so many changes or, roughly, bytes: SQLite refuses rows of a gigabyte."""
_PUBLISHED_AT_ONCE = 256
"""Changes published in a turn of the loop, which takes 4 ms."""
_COALESCE_SECONDS_PER_CHANGE = 0.0003
"""Seconds from one commit to the next per change of the first: many are being written then, and a commit costs both
threads and every reader as much as a dozen changes. The loop needs longer to write as many again."""
_MAX_COALESCE_SECONDS = 0.005
"""The longest such time; a lone write never waits."""
_IDLE_SECONDS = 0.5
_RETRY_SECONDS = 1.0
"""Between two attempts to write to a disk that is full or fails."""
_RETRY_AFTER_SECONDS = 2
"""``Retry-After`` of writes that are refused meanwhile."""
_FOLD_BYTES = 4 << 20
"""How much of the log is folded at a time; bounds the delay of a write that comes meanwhile."""
_LOG_LIMIT_BYTES = 256 << 20
"""A log larger than this is folded even when the journal is busy, so that restarts stay short."""

_SYNC_SECONDS = 0.1
"""How much the mark may be behind after a power failure; one flush in so long costs a busy journal 1 % or less."""


class Task(NamedTuple):
    """Something to be done on the journal's thread."""

    work: Callable[[], Any]
    done: Future[Any]

    def run(self) -> None:
        """Do it."""
        try:
            self.done.set_result(self.work())
        except Exception as error:
            self.done.set_exception(error)

    def refuse(self) -> None:
        """Say that it will never be done; twice is as good as once."""
        with contextlib.suppress(InvalidStateError):
            self.done.set_exception(JournalError("the journal is not written any more"))


class SqliteJournal:
    """A journal in one file.

    Args:
        wait_seconds: How long to wait for a process that is just letting go of it.
        encryption: What bodies are encrypted with; None encrypts nothing.

    Raises:
        JournalError: The file is not a journal of ours, is damaged or in use.
    """

    def __init__(self, path: Path, *, wait_seconds: float = 5, encryption: Encryption | None = None) -> None:
        self.path = path
        self._encryption = encryption
        self._sealed: Container[str] = () if encryption is None else encryption.resources
        self._waiting: list[Change] = []
        """Changes for the next commit; touched on the loop's thread only."""
        self._at_work = False
        """Whether the thread has changes, or will be given some in this turn of the loop."""
        self._durable: deque[Change] = deque()
        """What is committed and not published yet."""
        self._begun_with = 0
        """Changes of the batch whose last part is among them; 0 until then."""
        self._begun = 0.0
        """When the thread was given the last changes, in the loop's time."""
        self._batches: queue.SimpleQueue[list[Change] | Task | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = threading.Event()
        self._has_ended = False
        """Whether the thread will do nothing more."""
        self._fold_from = 0
        """Size of the log from which a busy journal tries again what failed; 0 when the last fold did not fail."""
        self.failure: Unavailable | None = None
        """Why nothing can be written now; None again once the journal has been written."""
        self.failed = asyncio.Event()
        """Set while there is a ``failure``."""
        self._copying = asyncio.Lock()
        self._marked_at = 0.0
        """When the mark was last flushed, in the loop's time."""
        self.file = JournalFile(path, wait_seconds=wait_seconds)

    def read(self) -> Iterator[Stored]:
        """Yield every stored object; checks the whole journal, which must be done before `start`.

        What is not encrypted as it would be now is written anew at the end.

        Raises:
            JournalError: Something that was acknowledged is missing or changed.
            WrongKey: It is encrypted with a key that is not there.
        """
        encryption, stale = self._encryption, []
        for resource, key, revision, stored in self.file.read():
            if encryption is None:
                body = require_plain(resource, key, stored)
            else:
                body = encryption.unseal(resource, key, revision, stored)
                if not encryption.is_current(resource, stored):
                    stale.append((resource, key, revision, body))
            yield resource, key, revision, body
        if encryption is not None and stale:
            seals = encryption.resources
            _log.info("encrypting anew: objects=%d key=%s", len(stale), ", ".join(encryption.key_ids) or "none")
            self.file.rewrite([(*one[:3], encryption.seal(*one) if one[0] in seals else one[3]) for one in stale])

    @property
    def encryption_keys(self) -> tuple[str, ...]:
        """Names of the keys that what is stored is encrypted with."""
        return () if self._encryption is None else self._encryption.key_ids

    @property
    def last_revision(self) -> int:
        """The newest durable revision, known once `read` was called; 1 for a new journal."""
        return self.file.last_revision

    def start(self, store: Store) -> None:
        """Begin to write the changes of ``store``; must be called on its event loop."""
        self._store, self._loop = store, asyncio.get_running_loop()
        store.use_journal(self)
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def append(self, change: Change) -> None:
        """Queue a change; what is written in the same turn of the loop is committed with it."""
        assert self._loop is not None
        self._waiting.append(change)
        if not self._at_work:
            self._at_work = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """Give the thread what waits."""
        self._at_work = bool(self._waiting)
        if self._waiting:
            assert self._loop is not None
            batch, self._waiting = self._waiting, []
            self._begun = self._loop.time()
            self._batches.put(batch)

    def _committed(self, part: list[Change], is_last: bool, begun_with: int) -> None:
        """Publish a part of a batch of ``begun_with`` changes; the last one asks for the next batch."""
        assert self._store is not None
        if self.failure is not None:
            _log.info("the journal %s can be written again", self.path)
            self.failure = None
            self.failed.clear()
            self._store.recovered()
        is_idle = not self._durable
        self._durable.extend(part)
        if is_last:
            self._begun_with = begun_with
        if is_idle:
            self._publish_some()

    def _publish_some(self) -> None:
        """Publish the oldest of what is durable; the rest in later turns of the loop, for which others wait too."""
        assert self._store is not None
        assert self._loop is not None
        durable = self._durable
        if not durable:
            return  # all was, when the journal failed
        some = [durable.popleft() for _ in range(min(_PUBLISHED_AT_ONCE, len(durable)))]
        try:
            self._store.committed(some)
        finally:
            if durable:
                self._loop.call_soon(self._publish_some)
            elif self._begun_with:
                # after those who were just answered, and write again
                pause = min(_MAX_COALESCE_SECONDS, self._begun_with * _COALESCE_SECONDS_PER_CHANGE)
                self._begun_with = 0
                self._loop.call_at(self._begun + pause, self._hand_over)

    def close(self) -> None:
        """Write what is queued and close the file; nothing may be written at the same time."""
        if self._thread is not None:
            self._hand_over()
            self._batches.put(None)
            self._closing.set()
            self._thread.join()
            self._thread = None
        self.file.close()

    def _run(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            if batch and not self._write(batch):
                break
            self._sync_mark(is_idle=not batch)
            is_due = not batch or self.file.log_bytes > max(_LOG_LIMIT_BYTES, self._fold_from)
            if self.file.log_bytes and is_due and not self._try_to_fold():
                break
        self._has_ended = True
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._batches.get_nowait()
                if isinstance(item, Task):
                    item.refuse()

    def _sync_mark(self, *, is_idle: bool) -> None:
        """Flush the mark when that is due; while it cannot be it is only further behind."""
        assert self._loop is not None
        now = self._loop.time()
        if is_idle or now >= self._marked_at + _SYNC_SECONDS:
            self._marked_at = now
            with contextlib.suppress(OSError):
                self.file.sync_mark()

    def _write(self, batch: list[Change]) -> bool:
        """Commit a batch and tell the store; while that fails try again every second.

        Return whether it was committed; it is given up when the journal is closed, or its file is no database any more.
        """
        batches = list(_split(batch))
        for number, part in enumerate(batches, 1):
            failure = ""
            while (error := self._try_to_commit(part)) is not None:
                if str(error) != failure:
                    failure = str(error)
                    _log.error("the journal %s cannot be written: %s", self.path, error)
                    self._call_on_loop(self._fail, _unavailable(self.path, error))
                if _is_damage(error):
                    return False
                if self._closing.wait(_RETRY_SECONDS):
                    if self._try_to_commit(part) is not None:
                        return False
                    break
            self._call_on_loop(self._committed, part, number == len(batches), len(batch))
        return True

    def _try_to_commit(self, part: list[Change]) -> Exception | None:
        try:
            self._commit(part)
        except Exception as error:  # of whatever kind: a dead thread would leave every writer waiting for ever
            self.file.roll_back()
            return error
        return None

    def _try_to_fold(self) -> bool:
        """Fold; what cannot be folded stays in the log, where it is as durable. False: nothing more may be written."""
        try:
            self.file.fold(_FOLD_BYTES)
            self._fold_from = 0
        except Exception as error:
            self.file.roll_back()
            if _is_damage(error):
                _log.error("the journal %s cannot be written: %s", self.path, error)
                self._call_on_loop(self._fail, _unavailable(self.path, error))
                return False
            if not self._fold_from:
                _log.warning("the journal %s cannot be folded: %s", self.path, error)
            self._fold_from = self.file.log_bytes + _FOLD_BYTES
        return True

    def _fail(self, error: Unavailable) -> None:
        assert self._store is not None
        while self._durable:  # of what failed nothing is
            self._publish_some()
        self.failure = error
        self.failed.set()
        self._store.failed(error)

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        """Call something on the loop's thread."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            _log.debug("the loop closed before a commit was reported")

    def _next_batch(self) -> tuple[list[Change], bool]:
        """Wait for changes; none when the journal is idle. The flag says that closing was asked for."""
        try:
            # With nothing to fold there is nothing to wake up for.
            item = self._batches.get(timeout=_IDLE_SECONDS if self.file.log_bytes else None)
        except queue.Empty:
            return [], False
        if isinstance(item, Task):
            item.run()
            return [], False
        return item or [], item is None

    async def copy_to(self, target: Path) -> Marked:
        """Copy the database as it is now into a file of its own, and return its mark; writes go on meanwhile.

        Raises:
            JournalError, OSError, sqlite3.Error: That cannot be done now.
        """
        async with self._copying:
            marked: Marked = await self._in_thread(self.file.begin_copy)
            try:
                await asyncio.to_thread(self.file.copy_to, target)
            finally:
                await self._in_thread(self.file.end_copy)
        return marked

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Call something on the journal's thread, between two commits."""
        assert self._thread is not None, "the journal has been started"
        future: Future[Any] = Future()
        task = Task(work, future)
        self._batches.put(task)
        if self._has_ended:
            task.refuse()
        return await asyncio.wrap_future(future)

    def _commit(self, part: list[Change]) -> None:
        """Make a part of a batch durable."""
        changes: list[Row] = [(c.resource, c.key, c.revision, c.body) for c in part]
        if self._encryption is not None:
            changes = [self._seal(change) for change in changes]
        self.file.commit(part[-1].revision, changes)

    def _seal(self, change: Row) -> Row:
        resource, key, revision, body = change
        if body is None or resource not in self._sealed:
            return change
        assert self._encryption is not None
        return resource, key, revision, self._encryption.seal(resource, key, revision, body)


def _is_damage(error: Exception) -> bool:
    """Tell whether trying again would write into a file that is no sound database any more."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _unavailable(path: Path, error: Exception) -> Unavailable:
    """Return what writers are answered who may try again; what they wrote may still be committed."""
    if _is_damage(error):
        return Unavailable(f"the journal {path} is damaged: {error}; stop the cluster, then {REMEDY}")
    return Unavailable(f"the journal {path} cannot be written: {error}", retry_after_seconds=_RETRY_AFTER_SECONDS)


def _split(batch: list[Change]) -> Iterator[list[Change]]:
    """Cut a batch into what one row may hold."""
    start = size = 0
    for end, change in enumerate(batch, 1):
        size += len(change.body or b"")
        if end - start >= _BATCH or size >= _BATCH_BYTES or end == len(batch):
            yield batch[start:end]
            start, size = end, 0


OpenedStore = tuple[Store, SqliteJournal | None]
"""A store and what makes it durable; None where nothing does."""


def open_store(
    path: Path | None, encryption: Encryption | None = None, on_read: Callable[[str, bytes], None] | None = None
) -> OpenedStore:
    """Return a store with what the journal holds; without a path an empty one that keeps nothing.

    Args:
        path: Of the journal.
        encryption: What it is encrypted with.
        on_read: Called with resource and body of each object, before it is known whether the whole journal is sound.

    Raises:
        JournalError: The journal is damaged or in use.
    """
    if path is None:
        return Store(), None
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    journal = SqliteJournal(path, encryption=encryption)
    try:
        store = Store()
        for resource, key, revision, body in journal.read():
            store.load(resource, key, body, revision)
            if on_read is not None:
                on_read(resource, body)
        store.begin_at(journal.last_revision)
    except BaseException:
        journal.close()
        raise
    return store, journal
