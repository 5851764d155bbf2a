"""`InputFile`: reads a file of a trace (plain, gzip, tar in gzip, Parquet) as lines, rows or bytes, in bounded memory.

A file may be huge, cut off, no text, or a decompression bomb. So three things are bounded: the length of a line, the
size of a document that must be read whole, and the ratio of uncompressed to compressed size.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import gzip
import importlib
import io
import os
import shutil
import tarfile
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

from strato.errors import StratoError, UsageError, one_line
from strato.sim.traces.oddities import Oddities

LONGEST_LINE_BYTES: Final = 1 << 20
LARGEST_DOCUMENT_BYTES: Final = 2 << 30
"""Most bytes of a JSON or YAML file, as these are read whole."""
_HEAD_BYTES: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 20
_MOST_EXPANSION: Final = 500
"""Largest ratio of uncompressed to compressed size. Logs reach 10 to 60; deflate can reach 1,032."""
_EXPANSION_FREE_BYTES: Final = 64 << 20
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError)
_ARROW_BATCH_ROWS: Final = 1 << 14

Rows = Iterator[tuple[int, list[str]]]
"""Rows of a table: number of the line, its fields."""


class _Expanding(io.RawIOBase):
    """The uncompressed content of a gzip file; raises when it exceeds `_MOST_EXPANSION` times the file's size."""

    def __init__(self, compressed: IO[bytes], name: str) -> None:
        self._size = os.fstat(compressed.fileno()).st_size
        self._stream = gzip.GzipFile(fileobj=compressed)
        self._name = name
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read1(len(buffer))
        buffer[: len(data)] = data
        self._given += len(data)
        if self._size and self._given > max(_EXPANSION_FREE_BYTES, _MOST_EXPANSION * self._size):
            raise UsageError(
                f"{self._name} expands to more than {_MOST_EXPANSION} times its size; unpack it if it is meant"
            )
        return len(data)


class InputFile:
    """One file of a trace, or one file in an archive.

    Args:
        path: Path of the file, or of the archive.
        member: Name of the file in the archive; empty without one.
    """

    def __init__(self, path: Path, member: str = "") -> None:
        self.path = path
        self.member = member
        self.label = f"{path}({member})" if member else str(path)
        """How messages name the file."""
        self._head: bytes | None = None
        self._copy: Path | None = None
        """A temporary copy of the content if the path is a pipe, which can be read only once."""

    @property
    def name(self) -> str:
        """Its name without folders and ``.gz``, in lower case."""
        return Path(self.member or self.path.name).name.lower().removesuffix(".gz")

    @property
    def head(self) -> bytes:
        """The first 64 KiB of the uncompressed content, without a byte order mark.

        Raises:
            UsageError: The file cannot be read.
        """
        if self._head is None:
            with self._reading(), self._open() as stream:
                self._head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
        return self._head

    @property
    def is_parquet(self) -> bool:
        """Whether it is a file of Parquet."""
        return self.head.startswith(b"PAR1") and not self.member

    def members(self) -> list[str]:
        """Return the names of the files in it if it is a tar archive, else nothing.

        Raises:
            UsageError: The archive cannot be read.
        """
        if self.member or self.head[257:262] != b"ustar":
            return []
        with self._reading(), self._open() as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            return [entry.name for entry in archive if entry.isfile()]

    def lines(self, odd: Oddities) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers, without line ends.

        A line that is too long or not UTF-8 is reported, counted as skipped, and yielded empty.

        Raises:
            UsageError: The file cannot be read.
        """
        with self._reading(), self._open() as stream:
            number = 0
            while raw := stream.readline(LONGEST_LINE_BYTES):
                number += 1
                if len(raw) >= LONGEST_LINE_BYTES and not raw.endswith(b"\n"):
                    odd.name(self.label, number, "", f"is longer than {LONGEST_LINE_BYTES} bytes")
                    odd.skip("odd line")
                    while raw and not raw.endswith(b"\n"):
                        raw = stream.readline(LONGEST_LINE_BYTES)
                    yield number, ""
                    continue
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                try:
                    line = raw.decode().rstrip("\r\n")
                except UnicodeDecodeError as error:
                    odd.name(self.label, number, "", f"is not UTF-8 text (byte {error.start} of the line)")
                    odd.skip("odd line")
                    line = ""
                yield number, line

    def rows(self, odd: Oddities, *, delimiter: str = ",", comments: bool = False) -> Rows:
        """Yield the rows of a table that are not empty.

        Args:
            odd: Takes the problems of lines that are no rows.
            delimiter: The character between fields.
            comments: Whether lines that begin with ``#`` are left out.

        Raises:
            UsageError: The file cannot be read.
        """
        if self.is_parquet:
            return self.parquet_rows()
        return rows_of(
            self.label, (f"{line}\n" for _, line in self.lines(odd)), odd, delimiter=delimiter, comments=comments
        )

    def document(self) -> bytes:
        """Return the whole uncompressed content.

        Raises:
            UsageError: The file cannot be read, or holds more than `LARGEST_DOCUMENT_BYTES`.
        """
        data = bytearray()  # in parts, as `read` with the largest size would reserve that much memory for any file
        with self._reading(), self._open() as stream:
            while len(data) <= LARGEST_DOCUMENT_BYTES and (part := stream.read(_BUFFER_BYTES)):
                data += part
        if len(data) > LARGEST_DOCUMENT_BYTES:
            raise UsageError(f"the trace {self.label} holds more than {LARGEST_DOCUMENT_BYTES >> 30} GiB; split it")
        return bytes(data).removeprefix(codecs.BOM_UTF8)

    @contextmanager
    def _open(self) -> Iterator[io.BufferedReader]:
        """Open the file, or the member of the archive, as an uncompressed stream."""
        with contextlib.ExitStack() as opened:
            plain = cast(io.BufferedReader, opened.enter_context(self._source().open("rb", buffering=_BUFFER_BYTES)))
            stream = plain
            if plain.peek(2)[:2] == b"\x1f\x8b":
                stream = opened.enter_context(io.BufferedReader(_Expanding(plain, str(self.path)), _BUFFER_BYTES))
            if self.member:
                archive = opened.enter_context(tarfile.open(fileobj=stream, mode="r|"))
                stream = opened.enter_context(self._member_of(archive))
            yield stream

    def _source(self) -> Path:
        """Return the path to open: the file's, or that of a copy of a pipe's content."""
        if self._copy is not None:
            return self._copy
        if "\0" in str(self.path):
            raise OSError(errno.EINVAL, "no file can have such a name")
        if self.path.is_file():
            return self.path
        with self.path.open("rb") as pipe:
            copy = os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR, 0o600)
            weakref.finalize(self, os.close, copy)
            with open(copy, "wb", closefd=False) as target:
                shutil.copyfileobj(pipe, target, _BUFFER_BYTES)
        self._copy = Path(f"/proc/self/fd/{copy}")
        return self._copy

    def _member_of(self, archive: tarfile.TarFile) -> io.BufferedReader:
        for entry in archive:
            if entry.name == self.member and (found := archive.extractfile(entry)) is not None:
                return io.BufferedReader(cast(io.RawIOBase, found), _BUFFER_BYTES)
        raise UsageError(f"the trace {self.path} holds no file {self.member}")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, gzip.BadGzipFile):
                raise UsageError(f"the trace {self.label} is not whole gzip: {one_line(error)}") from error
            raise UsageError(f"the trace {self.label} cannot be read: {error.strerror or error}") from error
        except _BROKEN as error:
            kind = "a whole archive" if isinstance(error, tarfile.TarError) else "whole gzip"
            raise UsageError(f"the trace {self.label} is not {kind}: {one_line(error)}") from error

    def parquet_rows(self) -> Rows:
        """Yield the names of the columns of a Parquet file, then its rows as text.

        Raises:
            StratoError: pyarrow is not installed.
            UsageError: The file cannot be read.
        """
        try:
            pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise StratoError(
                f"{self.label} is Parquet, which needs pyarrow: pip install 'strato[report]', or convert it to CSV"
            ) from error
        try:
            file = parquet.ParquetFile(self.path)
            yield 1, [str(name) for name in file.schema_arrow.names]
            number = 1
            for batch in file.iter_batches(batch_size=_ARROW_BATCH_ROWS):
                columns = [[_parquet_text(value) for value in column.to_pylist()] for column in batch.columns]
                for row in zip(*columns, strict=True):
                    number += 1
                    yield number, list(row)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise UsageError(f"the trace {self.label} is not whole Parquet: {one_line(error)}") from error


def why(error: Exception) -> str:
    """Return why a document cannot be decoded, in one line."""
    return "is nested too deeply" if isinstance(error, RecursionError) else one_line(error)


def rows_of(source: str, lines: Iterator[str], odd: Oddities, *, delimiter: str = ",", comments: bool = False) -> Rows:
    """Yield the rows of a table that are not empty; for the arguments see `InputFile.rows`."""
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            odd.name(source, reader.line_num, "", str(error))
            odd.skip("odd line")
            continue
        if any(row) and not (comments and row[0].lstrip().startswith("#")) and any(cell.strip() for cell in row):
            yield reader.line_num, row


def head_text(head: bytes, label: str) -> str:
    """Return the beginning of a file as text, up to the end of its last whole line.

    Raises:
        UsageError: It is not UTF-8.
    """
    if len(head) >= _HEAD_BYTES:
        head = head[: head.rfind(b"\n") + 1] or head
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        raise UsageError(f"the trace {label} is not UTF-8 text (byte {error.start})") from error


def trace_text(path: Path) -> str:
    """Return a file as text; it may be compressed with gzip.

    Raises:
        UsageError: The file cannot be read or is not UTF-8.
    """
    try:
        return InputFile(path).document().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the trace {path} is not UTF-8 text (byte {error.start})") from error


def files_of(paths: Sequence[Path]) -> list[InputFile]:
    """Return the files of a trace: the given ones, those in folders and their subfolders, and the members of archives.

    Raises:
        UsageError: A file cannot be read, or a folder holds no file.
    """
    found: list[InputFile] = []
    for path in paths:
        if not path.is_dir():
            found.append(InputFile(path))
            continue
        inside = sorted(entry for pattern in ("*", "*/*") for entry in path.glob(pattern) if entry.is_file())
        if not inside:
            raise UsageError(f"the folder {path} holds no file")
        found.extend(InputFile(entry) for entry in inside)
    return [part for file in found for part in _parts(file)]


def _parts(file: InputFile) -> list[InputFile]:
    members = file.members() if file.path.is_file() else []
    return [InputFile(file.path, member) for member in members] or [file]


def _parquet_text(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat(sep=" ") if hasattr(value, "isoformat") else str(value)
