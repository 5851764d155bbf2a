"""Back up the running server: on request of an administrator (``POST /strato/backup``), and on a schedule.

A request cannot name a file: the archive is always written into the server's own directory.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from strato.api.wire import Request, Response
from strato.clock import Clock, format_time
from strato.errors import MethodNotAllowed, StratoError, Unavailable, one_line
from strato.server.journal.backup import BackupManifest, write_backup
from strato.server.journal.writer import SqliteJournal

_log = logging.getLogger(__name__)

PATH = "/strato/backup"


class Backups:
    """Makes backups of one journal.

    Args:
        journal: The journal, started.
        clock: Gives the backups' times.
        files: Further files to include, by name; read for each backup.
    """

    def __init__(self, journal: SqliteJournal, clock: Clock, files: Callable[[], Mapping[str, Path]]) -> None:
        self._journal, self._clock, self._files = journal, clock, files
        self._one_at_a_time = asyncio.Lock()
        self._requested = 0
        for leftover in journal.path.parent.glob("requested-*.backup"):  # their clients never fetched them
            leftover.unlink(missing_ok=True)

    def handle(self, request: Request) -> Awaitable[Response] | None:
        """Answer a request for a backup; None for another path. The caller has authorised the user."""
        return self._answer(request) if request.path == PATH else None

    async def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        try:
            self._requested += 1
            target = self._journal.path.with_name(f"requested-{self._requested}.backup")
            manifest = await self.write(target)
        except StratoError as error:
            raise Unavailable(str(error)) from error
        return Response(201, msgspec.json.encode({"path": str(target), "revision": manifest.revision}))

    async def write(self, target: Path) -> BackupManifest:
        """Write one backup.

        Raises:
            StratoError: It could not be written; no file is left.
        """
        copy = self._journal.path.with_name(self._journal.path.name + ".copy")
        async with self._one_at_a_time:
            try:
                marked = await self._journal.copy_to(copy)
                return await asyncio.to_thread(
                    write_backup,
                    target,
                    copy,
                    marked,
                    self._files(),
                    created=format_time(self._clock.now()),
                    encryption_keys=self._journal.encryption_keys,
                )
            except (OSError, sqlite3.Error) as error:
                raise Unavailable(f"the backup {target} cannot be written: {one_line(error)}") from error
            finally:
                copy.unlink(missing_ok=True)

    async def run(self, directory: Path, every_seconds: float, keep: int) -> None:
        """Write a backup at once and then periodically, and keep the newest ``keep``, until cancelled."""
        while True:
            try:
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                stamp = format_time(self._clock.now()).replace(":", "").replace("-", "")
                target = directory / f"strato-{stamp}.backup"
                manifest = await self.write(target)
                _log.info("backup written: file=%s revision=%d", target, manifest.revision)
                for old in sorted(directory.glob("strato-*.backup"))[:-keep]:
                    old.unlink()
            except (StratoError, OSError) as error:
                _log.error("the scheduled backup failed and is tried again in %g s: %s", every_seconds, one_line(error))
            await self._clock.sleep(every_seconds)
