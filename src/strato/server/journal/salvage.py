"""Recover the readable rows of a damaged journal, and list what is missing.

Rows are read from every page that is in use, and rows of the log also from every frame of the WAL, even behind a
damaged one. A row is used if it matches its own checksum. Later changes, deletions included, win over earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from strato.decoding import UNDECODABLE
from strato.server.journal import records
from strato.server.journal.errors import JournalDamaged
from strato.server.journal.files import wal_path
from strato.server.journal.mark import mark_path, read_mark
from strato.server.journal.pages import PageRow, database_pages, free_pages, rows_of, wal_frames
from strato.server.journal.rebuild import REVISION_STEP, write_journal
from strato.server.journal.records import Folded, Stored


@dataclass(slots=True)
class Salvaged:
    """The recovered objects."""

    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    revision: int = 1
    """The newest revision that the journal mentions, readable or not."""
    lost: list[str] = field(default_factory=list)
    """Sentences about what is missing."""


@dataclass(slots=True)
class _Found:
    """The rows found that match their checksums."""

    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    bad_objects: dict[tuple[str, str], int] = field(default_factory=dict)
    """Revisions of objects whose row does not match its checksum."""
    log: dict[int, tuple[bytes, bytes, bytes]] = field(default_factory=dict)
    """Rows of the log by revision: changes, checksum of the row before, checksum."""
    folded: Folded | None = None
    knows_free_pages: bool = True

    def take(self, row: PageRow, *, with_objects: bool) -> None:
        """Add a row of any table."""
        match row.values:
            case (None, bytes(changes), bytes(previous), bytes(checksum)) if row.rowid is not None:
                if records.log_checksum(previous, row.rowid, changes) == checksum:
                    self.log[row.rowid] = (changes, previous, checksum)
            case (str(resource), str(key), int(revision), bytes(body), int(checksum)) if with_objects:
                self._take_object((resource, key, revision, body), checksum)
            case ("folded", str(text)) if with_objects:
                self.folded = records.folded_from_text(text) or self.folded

    def _take_object(self, stored: Stored, checksum: int) -> None:
        resource, key, revision, _ = stored
        if records.row_checksum(*stored) != checksum:
            self.bad_objects[resource, key] = revision
        elif (resource, key) not in self.objects or self.objects[resource, key][2] < revision:
            self.objects[resource, key] = stored


def read_damaged(path: Path) -> Salvaged:
    """Return the readable objects of the journal at ``path``, without changing its files."""
    content = path.read_bytes() if path.exists() else b""
    wal = wal_path(path).read_bytes() if wal_path(path).exists() else b""
    found = _find(content, wal)
    result = Salvaged(dict(found.objects))
    _list_lost_rows(found, result)
    last = _apply_log(found, result)
    try:
        marked = read_mark(mark_path(path))
    except JournalDamaged as error:
        marked = None
        result.lost.append(f"{error.path}: {error.what}; writes at the end of the journal may be missing")
    if marked is not None and found.folded is not None and marked.identity != found.folded.identity:
        result.lost.append("this journal's own objects: database or write-ahead log are another's, whose were kept")
    if marked is not None and marked.revision > last:
        result.lost.append(f"the writes after revision {last}, up to {marked.revision}")
    result.revision = max(last, marked.revision if marked is not None else 1)
    return result


def _find(content: bytes, wal: bytes) -> _Found:
    """Return all valid rows of the database after its readable transactions, and all valid rows of the log."""
    found = _Found()
    pages = database_pages(content)
    frames = list(wal_frames(wal))
    sound_frames = max((number for number, one in enumerate(frames, 1) if one.commits and one.is_valid), default=0)
    sound: dict[int, bytes] = {} if sound_frames else dict(pages)
    touched: list[int] = []
    for number, frame in enumerate(frames, 1):
        pages[frame.page] = frame.content
        touched.append(frame.page)
        if frame.commits:
            for page in touched:
                for row in rows_of(pages, page):
                    found.take(row, with_objects=False)
            touched = []
        if number == sound_frames:
            sound = dict(pages)
    free, found.knows_free_pages = free_pages(sound)
    for number in sound.keys() - free:
        for row in rows_of(sound, number):
            found.take(row, with_objects=True)
    return found


def _list_lost_rows(found: _Found, result: Salvaged) -> None:
    for (resource, key), revision in sorted(found.bad_objects.items()):
        if (resource, key) not in found.objects:
            result.lost.append(f"{resource} {key} of revision {revision}: its row does not match its checksum")
    if found.folded is None:
        result.lost.append("the table of what was stored: objects may be missing that are not listed here")
        return
    if not found.knows_free_pages:
        result.lost.append("the list of free pages: objects deleted before may have come back")
    missing = found.folded.count - len(found.objects) - len(found.bad_objects.keys() - found.objects.keys())
    if missing > 0:
        result.lost.append(
            f"{missing} objects of the {found.folded.count} stored up to revision {found.folded.revision}"
        )


def _apply_log(found: _Found, result: Salvaged) -> int:
    """Apply the log to the objects, list gaps between its rows, and return its newest revision."""
    folded = found.folded
    last = folded.revision if folded is not None else max((one[2] for one in result.objects.values()), default=1)
    chain = bytes.fromhex(folded.chain) if folded is not None else None
    for revision in sorted(found.log):
        if folded is not None and revision <= folded.revision:
            continue  # folded already; ``objects`` may have later states
        changes, previous, checksum = found.log[revision]
        if chain is not None and previous != chain:
            result.lost.append(f"the writes after revision {last}, before those of {revision}")
        try:
            batch = records.decode(changes)
        except UNDECODABLE:
            result.lost.append(f"the writes up to revision {revision}: they cannot be decoded")
            continue
        for resource, key, at, body in batch:
            if body is None:
                result.objects.pop((resource, key), None)
            elif (resource, key) not in result.objects or result.objects[resource, key][2] <= at:
                result.objects[resource, key] = (resource, key, at, body)
        chain, last = checksum, max(last, revision)
    return last


def salvage(path: Path) -> tuple[Salvaged, Path | None]:
    """Write a new journal of the readable objects; return these, and the folder with the damaged files.

    The caller must have locked the journal (`take_lock`).
    """
    result = read_damaged(path)
    aside = move_aside(path, "damaged")
    write_journal(path, sorted(result.objects.values()), result.revision + REVISION_STEP)
    return result, aside


def move_aside(path: Path, name: str) -> Path | None:
    """Move the files of a journal into a new folder beside it and return the folder; None without files."""
    files = journal_files(path)
    if not files:
        return None
    number = 1
    while (aside := path.with_name(f"{name}-{number}")).exists():
        number += 1
    aside.mkdir(mode=0o700)
    for file in files:
        file.rename(aside / file.name)
    return aside


def journal_files(path: Path) -> list[Path]:
    """Return a journal's existing files: database, WAL, mark and leftovers, but not the lock."""
    ends = ("", "-wal", "-shm", "-journal", ".mark", "-wal.found", ".new", ".mark.new")
    return [file for end in ends if (file := path.with_name(path.name + end)).exists()]
