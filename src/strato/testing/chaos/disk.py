"""The server's disk: a real journal file whose commits take virtual time, and its state after a crash.

`VirtualJournal` writes with `strato.server.journal.file`, commits in groups and notifies the store as the journal's
thread does, but on the event loop. `Disk.crash` leaves the same as `kill -9` or a power failure: all committed changes,
and of the commit under way nothing, a torn part, or all of it although no writer was answered.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from random import Random
from typing import Final

from strato.clock import Clock
from strato.errors import Unavailable
from strato.seeding import child
from strato.server.journal.file import JournalFile
from strato.server.journal.files import wal_path
from strato.server.journal.mark import mark_path
from strato.server.snapshot import Change
from strato.server.store import Store

_COMMIT_SECONDS: Final = (0.0005, 0.008)
"""How long a commit takes."""
_RETRY_SECONDS: Final = 1.0
_FOLD_BYTES: Final = 1 << 20
_FOLD_RATIO: Final = 0.05
"""Fraction of commits after which the log is folded into the database."""


class VirtualJournal:
    """Makes the changes of one incarnation of the server durable, in groups.

    Args:
        file: The journal's file, opened and read.
        random: Draws how long commits take and when the log is folded.
    """

    def __init__(self, file: JournalFile, store: Store, clock: Clock, random: Random) -> None:
        self.file = file
        self.under_way: list[Change] = []
        """Changes of the commit under way."""
        self.is_full = False
        """Whether the disk is full: writes are refused meanwhile."""
        self._store = store
        self._clock = clock
        self._random = random
        self._waiting: list[Change] = []
        self._wake = asyncio.Event()

    def append(self, change: Change) -> None:
        """Queue a change for the next commit."""
        self._waiting.append(change)
        self._wake.set()

    async def run(self) -> None:
        """Commit until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                self.under_way, self._waiting = self._waiting, []
                await self._clock.sleep(self._random.uniform(*_COMMIT_SECONDS))
                await self._while_full()
                batch, self.under_way = self.under_way, []
                self.commit(batch)
                self._store.committed(batch)

    async def _while_full(self) -> None:
        if not self.is_full:
            return
        error = Unavailable("the journal cannot be written: database or disk is full", retry_after_seconds=2)
        self._store.failed(error)
        while self.is_full:
            await self._clock.sleep(_RETRY_SECONDS)
        self._store.recovered()

    def commit(self, batch: list[Change]) -> None:
        """Make a group of changes durable."""
        self.file.commit(batch[-1].revision, [(c.resource, c.key, c.revision, c.body) for c in batch])
        if self._random.random() < _FOLD_RATIO:
            self.file.fold(_FOLD_BYTES)


class Disk:
    """A folder that outlives the server's processes.

    Args:
        folder: An empty folder, in which each incarnation gets its own.
        random: Decides which part of a commit under way survives a crash.
    """

    def __init__(self, folder: Path, clock: Clock, random: Random) -> None:
        self._folder = folder
        self._clock = clock
        self._random = random
        self._incarnation = 0
        self._path = folder / "0" / "journal.db"
        self._path.parent.mkdir()
        self.journal: VirtualJournal | None = None

    def open(self) -> tuple[Store, VirtualJournal]:
        """Return a store loaded from the disk, and the journal that it writes to."""
        file = JournalFile(self._path, wait_seconds=0)
        store = Store()
        for resource, key, revision, body in file.read():
            store.load(resource, key, body, revision)
        store.begin_at(file.last_revision)
        self.journal = VirtualJournal(file, store, self._clock, child(self._random))
        store.use_journal(self.journal)
        return store, self.journal

    @property
    def last_revision(self) -> int:
        """The newest revision that the next incarnation will find; call it while none runs."""
        file = JournalFile(self._path, wait_seconds=0)
        try:
            for _ in file.read():
                pass
            return file.last_revision
        finally:
            file.close()

    def crash(self) -> None:
        """Put the disk into the state after the death of the server."""
        journal = self.journal
        assert journal is not None, "the server runs"
        batch, wal = journal.under_way, wal_path(self._path)
        outcome = self._random.choice(("nothing", "torn", "whole")) if batch else "nothing"
        size = wal.stat().st_size if wal.exists() else 0
        mark = mark_path(self._path).read_bytes()
        if outcome != "nothing":
            journal.file.commit(batch[-1].revision, [(c.resource, c.key, c.revision, c.body) for c in batch])
        self._incarnation += 1
        after = self._folder / str(self._incarnation)
        after.mkdir()
        for path in (self._path, wal, mark_path(self._path)):
            if path.exists():
                shutil.copyfile(path, after / path.name)
        if outcome == "torn":
            grown = wal.stat().st_size
            if grown > size:  # else SQLite has restarted the log, where it detects any tearing
                os.truncate(after / wal.name, self._random.randrange(size, grown))
                (after / mark_path(self._path).name).write_bytes(mark)
        elif outcome == "whole" and self._random.random() < 0.5:
            (after / mark_path(self._path).name).write_bytes(mark)  # died between the commit and its mark
        journal.file.close()
        shutil.rmtree(self._path.parent)
        self._path = after / self._path.name
        self.journal = None
