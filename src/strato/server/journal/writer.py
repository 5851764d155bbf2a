"""`SqliteJournal`: group commits on a thread.

One commit is under way at a time (WAL, ``synchronous=FULL``). Changes written meanwhile, and in the turn of the loop in
which their writers are answered, go into the next commit, because a flush costs as much as a dozen changes and the
thread competes for the interpreter lock each time it wakes. When the journal is idle, or its log large, the thread
folds the oldest rows. It notifies `Store` on the loop's thread. A batch that cannot be committed is retried, in order.
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

_COMMIT_CHANGES = 5_000
_COMMIT_BYTES = 4 << 20
"""Most changes and, roughly, bytes of a commit. They are one row of the log, which is encoded, copied and decoded while
the thread holds the interpreter lock: 1 ms a megabyte in which the loop can do nothing."""
_PUBLISHED_AT_ONCE = 256
"""Changes published in one turn of the loop, about 4 ms."""
_COALESCE_SECONDS_PER_CHANGE = 0.0003
"""Shortest time from one commit to the next, per change of the first. After a large commit many writers write again at
once, and one commit for all of them is cheaper: a commit costs both threads and every reader as much as a dozen
changes. The wait delays no one, as the loop needs longer to write as many changes again."""
_MAX_COALESCE_SECONDS = 0.005
"""Upper limit of that time."""
_IDLE_SECONDS = 0.5
_RETRY_SECONDS = 1.0
"""Pause between attempts to write to a disk that is full or fails."""
_RETRY_AFTER_SECONDS = 2
"""``Retry-After`` of writes that are refused while the journal cannot be written."""
_FOLD_BYTES = 4 << 20
"""Bytes of the log that are folded at a time; a write that comes meanwhile waits for that. Not less than
`_COMMIT_BYTES`: when the log is large the thread folds once after each commit, which has to keep up."""
_LOG_LIMIT_BYTES = 256 << 20
"""A log larger than this is folded even if the journal is busy, so that restarts stay short."""

_SYNC_SECONDS = 0.1
"""Pause between flushes of the mark, and so how old it may be after a power failure; the flushes cost 1 % or less."""


class JournalCall(NamedTuple):
    """A function to call on the journal's thread, and the future of its result."""

    work: Callable[[], Any]
    done: Future[Any]

    def run(self) -> None:
        """Call the function and set the result."""
        try:
            self.done.set_result(self.work())
        except Exception as error:
            self.done.set_exception(error)

    def refuse(self) -> None:
        """Fail the future, because the thread has ended; may be called twice."""
        with contextlib.suppress(InvalidStateError):
            self.done.set_exception(JournalError("the journal is not written any more"))


class SqliteJournal:
    """A journal in one file.

    Args:
        wait_seconds: How long to wait for another process that is closing it.
        encryption: Encrypts bodies; None encrypts nothing.

    Raises:
        JournalError: The file is not a journal of ours, is damaged or in use.
    """

    def __init__(self, path: Path, *, wait_seconds: float = 5, encryption: Encryption | None = None) -> None:
        self.path = path
        self._encryption = encryption
        self._sealed: Container[str] = () if encryption is None else encryption.resources
        self._waiting: list[Change] = []
        """Changes for the next commit; accessed only on the loop's thread."""
        self._at_work = False
        """Whether the thread has a batch, or `_hand_over` is scheduled to give it one."""
        self._durable: deque[Change] = deque()
        """Changes that are committed and not published yet."""
        self._begun_with = 0
        """Size of the batch whose last part is in ``_durable``; 0 until that part is committed."""
        self._begun = 0.0
        """When the thread was given the last batch, in the loop's time."""
        self._batches: queue.SimpleQueue[list[Change] | JournalCall | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = threading.Event()
        self._has_ended = False
        """Whether the thread has ended, or is about to."""
        self._fold_from = 0
        """Size of the log from which a busy journal retries a failed fold; 0 if the last fold did not fail."""
        self.failure: Unavailable | None = None
        """Why the journal cannot be written now; None again after the next successful commit."""
        self.failed = asyncio.Event()
        """Set while there is a ``failure``."""
        self._copying = asyncio.Lock()
        self._marked_at = 0.0
        """When the mark was last flushed, in the loop's time."""
        self.file = JournalFile(path, wait_seconds=wait_seconds)

    def read(self) -> Iterator[Stored]:
        """Yield every stored object, and check the whole journal; must be done before `start`.

        At the end, bodies that are encrypted with another key than new ones, or wrongly plain or encrypted, are
        rewritten.

        Raises:
            JournalError: An acknowledged write is missing or changed.
            WrongKey: A body is encrypted with a key that we do not have.
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
        """Names of the keys with which stored bodies are encrypted."""
        return () if self._encryption is None else self._encryption.key_ids

    @property
    def last_revision(self) -> int:
        """The newest durable revision, known once `read` has ended; 1 for a new journal."""
        return self.file.last_revision

    def start(self, store: Store) -> None:
        """Start the thread that commits the changes of ``store``; must be called on its event loop."""
        self._store, self._loop = store, asyncio.get_running_loop()
        store.use_journal(self)
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def append(self, change: Change) -> None:
        """Queue a change; it is committed together with others of the same turn of the loop."""
        assert self._loop is not None
        self._waiting.append(change)
        if not self._at_work:
            self._at_work = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """Give the waiting changes to the thread as a batch."""
        self._at_work = bool(self._waiting)
        if self._waiting:
            assert self._loop is not None
            batch, self._waiting = self._waiting, []
            self._begun = self._loop.time()
            self._batches.put(batch)

    def _committed(self, part: list[Change], is_last: bool, begun_with: int) -> None:
        """Publish a part of a batch of ``begun_with`` changes; after the last part the next batch is handed over."""
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
        """Publish the oldest durable changes, and schedule the rest for later turns of the loop."""
        assert self._store is not None
        assert self._loop is not None
        durable = self._durable
        if not durable:
            return  # `_fail` has published all
        some = [durable.popleft() for _ in range(min(_PUBLISHED_AT_ONCE, len(durable)))]
        try:
            self._store.committed(some)
        finally:
            if durable:
                self._loop.call_soon(self._publish_some)
            elif self._begun_with:
                # in a later turn, so that writers that were just answered can write again into this batch
                pause = min(_MAX_COALESCE_SECONDS, self._begun_with * _COALESCE_SECONDS_PER_CHANGE)
                self._begun_with = 0
                self._loop.call_at(self._begun + pause, self._hand_over)

    def close(self) -> None:
        """Commit all queued changes and close the file; no change may be appended at the same time."""
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
            if not (self._write(batch) if batch else self._tidy(is_idle=True)):
                break
        self._has_ended = True
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._batches.get_nowait()
                if isinstance(item, JournalCall):
                    item.refuse()

    def _sync_mark(self, *, is_idle: bool) -> None:
        """Flush the mark if that is due; an error is ignored, as the mark is then only older after a power failure."""
        assert self._loop is not None
        now = self._loop.time()
        if is_idle or now >= self._marked_at + _SYNC_SECONDS:
            self._marked_at = now
            with contextlib.suppress(OSError):
                self.file.sync_mark()

    def _write(self, batch: list[Change]) -> bool:
        """Commit a batch in parts, and tidy after each.

        Returns whether all is written; the thread gives up if the journal is closed, or its file is damaged.
        """
        parts = list(_split(batch))
        for number, part in enumerate(parts, 1):
            if not self._write_part(part):
                return False
            self._call_on_loop(self._committed, part, number == len(parts), len(batch))
            if not self._tidy(is_idle=False):
                return False
        return True

    def _write_part(self, part: list[Change]) -> bool:
        """Commit a part of a batch; retry every second while that fails.

        Returns whether it was committed.
        """
        failure = ""
        while (error := self._try_to_commit(part)) is not None:
            if str(error) != failure:
                failure = str(error)
                _log.error("the journal %s cannot be written: %s", self.path, error)
                self._call_on_loop(self._fail, _unavailable(self.path, error))
            if _is_damage(error):
                return False
            if self._closing.wait(_RETRY_SECONDS):
                return self._try_to_commit(part) is None
        return True

    def _tidy(self, *, is_idle: bool) -> bool:
        """Flush the mark if that is due, and fold if the log is large, or the journal idle.

        Returns False if nothing more may be written.
        """
        self._sync_mark(is_idle=is_idle)
        is_due = is_idle or self.file.log_bytes > max(_LOG_LIMIT_BYTES, self._fold_from)
        return not (self.file.log_bytes and is_due) or self._try_to_fold()

    def _try_to_commit(self, part: list[Change]) -> Exception | None:
        try:
            self._commit(part)
        except Exception as error:  # any: if the thread died, every writer would wait for ever
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
        while self._durable:  # commits before the failed one; nothing of that is in here
            self._publish_some()
        self.failure = error
        self.failed.set()
        self._store.failed(error)

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        """Schedule a callback on the loop's thread."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            _log.debug("the loop closed before a commit was reported")

    def _next_batch(self) -> tuple[list[Change], bool]:
        """Wait for a batch, which is empty if the journal is idle; the flag tells that `close` was called."""
        try:
            # without rows to fold the thread need not wake when it is idle
            item = self._batches.get(timeout=_IDLE_SECONDS if self.file.log_bytes else None)
        except queue.Empty:
            return [], False
        if isinstance(item, JournalCall):
            item.run()
            return [], False
        return item or [], item is None

    async def copy_to(self, target: Path) -> Marked:
        """Copy the current database into another file, and return its mark; commits go on meanwhile.

        Raises:
            JournalError, OSError, sqlite3.Error: The copy failed.
        """
        async with self._copying:
            marked: Marked = await self._in_thread(self.file.begin_copy)
            try:
                await asyncio.to_thread(self.file.copy_to, target)
            finally:
                await self._in_thread(self.file.end_copy)
        return marked

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Call a function on the journal's thread, between two commits."""
        assert self._thread is not None, "the journal has been started"
        future: Future[Any] = Future()
        task = JournalCall(work, future)
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
    """Tell whether an error means that the file is damaged, so that a retry would write into a damaged file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _unavailable(path: Path, error: Exception) -> Unavailable:
    """Return the error for waiting writers; their changes may still be committed later."""
    if _is_damage(error):
        return Unavailable(f"the journal {path} is damaged: {error}; stop the cluster, then {REMEDY}")
    return Unavailable(f"the journal {path} cannot be written: {error}", retry_after_seconds=_RETRY_AFTER_SECONDS)


def _split(batch: list[Change]) -> Iterator[list[Change]]:
    """Split a batch into parts that fit into one row of the log."""
    start = size = 0
    for end, change in enumerate(batch, 1):
        size += len(change.body or b"")
        if end - start >= _COMMIT_CHANGES or size >= _COMMIT_BYTES or end == len(batch):
            yield batch[start:end]
            start, size = end, 0


OpenedStore = tuple[Store, SqliteJournal | None]
"""A store and its journal; None for a store in memory only."""


def open_store(
    path: Path | None, encryption: Encryption | None = None, on_read: Callable[[str, bytes], None] | None = None
) -> OpenedStore:
    """Return a store with the journal's objects; without a path an empty one in memory.

    Args:
        path: The journal's path.
        encryption: Decrypts and encrypts its bodies.
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
