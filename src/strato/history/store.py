"""`HistoryStore`: the file of rows, in SQLite; one process appends, any number of processes read.

Rows are never changed; those older than the retention are deleted. A file of a newer version is refused. One of an
older version can be read as it is; a process that opens it for appending adds the missing columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import msgspec

from strato.decoding import UNDECODABLE
from strato.errors import StateError
from strato.history.rows import Host, JobRun, PodContainer

R = TypeVar("R", JobRun, PodContainer, Host)
Row = JobRun | PodContainer | Host

_VERSION: Final = 3
"""Version of the tables. 2 has added `Host.cpu_allocatable`, 3 `JobRun.predicted` and its bounds."""
_TABLES: Final[dict[type[Any], tuple[str, tuple[str, ...]]]] = {
    JobRun: ("run", ("run_id",)),
    PodContainer: ("replica", ("run_id", "pod", "container")),
    Host: ("host", ("node", "ts")),
}
"""Class of a row → its table, and the columns that identify its thing: only the newest row with equal ones is valid."""
_TYPES: Final = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}
_BUSY_SECONDS: Final = 10.0


class HistoryError(StateError):
    """The file of rows cannot be used."""


class HistoryStore:
    """Rows in a file. Call `close` when done.

    Args:
        path: The file; its folder must exist.
        read_only: Opens an existing file for reading only.

    Raises:
        HistoryError: There is no such file, or it is no history of runs.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        if read_only and not path.exists():
            raise HistoryError(f"{path}: no such file; name the one that runs are recorded in")
        mode = "ro" if read_only else "rwc"
        try:
            self._database = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,  # the recorder calls from several threads, but one at a time
            )
        except sqlite3.Error as error:
            raise HistoryError(f"{path}: cannot be opened: {error}") from error
        try:
            self._open(read_only=read_only)
        except HistoryError:
            self._database.close()
            raise
        except sqlite3.Error as error:
            self._database.close()
            raise HistoryError(f"{path}: cannot be read as a history of runs: {error}") from error

    def _open(self, *, read_only: bool) -> None:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if not 0 <= version <= _VERSION or (read_only and not version):
            raise HistoryError(f"{self._path}: version {version} of a history of runs; this program knows {_VERSION}")
        if version == _VERSION or read_only:
            return
        self._database.execute("PRAGMA journal_mode=WAL")
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            for row, (table, key) in _TABLES.items():
                columns = ", ".join(
                    f'"{field.name}" {_column_type(field.type)}' for field in msgspec.structs.fields(row)
                )
                self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                for field in self._lacking(row):
                    column = f'"{field.name}" {_column_type(field.type)} DEFAULT {field.default!r}'
                    self._database.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
                self._database.execute(f"CREATE INDEX IF NOT EXISTS {table}_key ON {table} ({', '.join(key)})")
            self._database.execute(f"PRAGMA user_version={_VERSION}")

    def _lacking(self, row: type[Any]) -> list[Any]:
        """Return the fields of a row for which the table of an older version has no column; all are numbers."""
        present = {name for _, name, *_ in self._database.execute(f"PRAGMA table_info({_TABLES[row][0]})")}
        return [field for field in msgspec.structs.fields(row) if field.name not in present]

    def append(self, rows: Iterable[Row]) -> None:
        """Append rows in one transaction.

        Raises:
            HistoryError: The file cannot be written; no row was appended.
        """
        grouped: dict[type[Any], list[Row]] = {}
        for row in rows:
            grouped.setdefault(type(row), []).append(row)
        try:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                for kind, members in grouped.items():
                    table, _ = _TABLES[kind]
                    fields = kind.__struct_fields__
                    columns = ", ".join(f'"{name}"' for name in fields)
                    places = ", ".join("?" * len(fields))
                    values = [[_stored(getattr(row, name)) for name in fields] for row in members]
                    self._database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)
        except sqlite3.Error as error:
            raise HistoryError(f"{self._path}: rows cannot be appended: {error}") from error

    def runs(self, since: float = 0.0, until: float = float("inf")) -> Sequence[JobRun]:
        """Return the runs that were submitted before ``until`` and had not ended before ``since``."""
        return self._newest(JobRun, "submitted < ? AND coalesce(ended, ?) >= ?", (until, until, since))

    def replicas(self, since: float = 0.0, until: float = float("inf")) -> Sequence[PodContainer]:
        """Return the replicas that ran at some time between two instants, and those that have not started."""
        bounds = (until, until, since)
        return self._newest(PodContainer, "coalesce(started, bound, 0) < ? AND coalesce(ended, ?) >= ?", bounds)

    def hosts(self, since: float = 0.0, until: float = float("inf")) -> Sequence[Host]:
        """Return the samples of hosts between two instants."""
        return self._newest(Host, "ts >= ? AND ts < ?", (since, until))

    def forget(self, before: float) -> None:
        """Delete runs that ended before an instant, their replicas, and older samples of hosts.

        Raises:
            HistoryError: The file cannot be written.
        """
        try:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                ended = "SELECT run_id FROM run WHERE ended < ?"
                self._database.execute(f"DELETE FROM replica WHERE run_id IN ({ended})", (before,))
                self._database.execute(f"DELETE FROM run WHERE run_id IN ({ended})", (before,))
                self._database.execute("DELETE FROM host WHERE ts < ?", (before,))
        except sqlite3.Error as error:
            raise HistoryError(f"{self._path}: old rows cannot be deleted: {error}") from error

    def _newest(self, kind: type[R], condition: str, values: Sequence[float]) -> list[R]:
        table, key = _TABLES[kind]
        lacking = {field.name for field in self._lacking(kind)}
        fields = [name for name in kind.__struct_fields__ if name not in lacking]
        newest = f"SELECT max(rowid) FROM {table} GROUP BY {', '.join(key)}"
        columns = ", ".join(f'"{name}"' for name in fields)
        query = f"SELECT {columns} FROM {table} WHERE rowid IN ({newest}) AND {condition} ORDER BY rowid"
        try:
            with closing(self._database.execute(query, values)) as cursor:
                found = [dict(zip(fields, row, strict=True)) for row in cursor]
            for row in found:
                if "cpu_samples" in row:
                    row["cpu_samples"] = msgspec.json.decode(row["cpu_samples"], type=dict[int, int])
            return msgspec.convert(found, list[kind], strict=False)  # type: ignore[valid-type]  # of this very kind
        except (*UNDECODABLE, sqlite3.Error) as error:
            raise HistoryError(f"{self._path}: table {table} cannot be read: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _column_type(type_: Any) -> str:
    plain = next((one for one in get_args(type_) if one in _TYPES), type_)
    return _TYPES.get(plain, "TEXT")


def _stored(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value
