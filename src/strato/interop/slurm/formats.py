"""How Slurm prints tables: squeue's and sinfo's ``-o``, their ``-O``, and sacct's ``--format``. Pure.

A field of ``-o`` is ``%``, an optional ``.`` (to the right), an optional width and a letter; longer texts are cut, and
other characters are printed between fields. A column of ``-O`` is ``Name:WIDTH``, 20 wide without one; a column of
sacct is ``Name%WIDTH``, to the left with a negative one, and ends in ``+`` where it is cut.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Record = Mapping[str, str]
"""Fields of one line: text by Slurm's name of the field, in lower case."""

_FIELD: Final = re.compile(r"%(#?)(\.?)(\d{0,4})([A-Za-z])|([^%]+)|%%|%")
_DEFAULT_LONG_WIDTH: Final = 20
_MOST_WIDTH: Final = 1000


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    field: str
    """Name of the record's field; empty for literal text between fields, which is ``header``."""
    header: str
    width: int = 0
    """0: as wide as the text; negative: as wide as the longest text of all lines."""
    right: bool = False
    cut_mark: str = ""
    """Mark at the end of a text that was cut."""

    def cell(self, text: str) -> str:
        """Return a text padded or cut to the column's width."""
        if self.width <= 0:
            return text
        if len(text) > self.width:
            text = text[: self.width - len(self.cut_mark)] + self.cut_mark
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def short_columns(text: str, fields: Mapping[str, tuple[str, str]]) -> list[Column]:
    """Read a format of ``-o``.

    Args:
        text: The format, such as ``%.18i %P``.
        fields: Name and header of each field, by letter.

    Raises:
        ValueError: A letter is unknown.
    """
    columns = []
    for found in _FIELD.finditer(text):
        fitted, dot, width, letter, plain = found.groups()
        if letter is None:
            columns.append(Column("", plain if plain is not None else "%"))
            continue
        if letter not in fields:
            raise ValueError(f"%{letter} is not known; known are {' '.join('%' + one for one in fields)}")
        name, header = fields[letter]
        size = -1 if fitted else min(int(width or 0), _MOST_WIDTH)
        columns.append(Column(name, header, size, right=bool(dot)))
    return columns


def long_columns(text: str, fields: Mapping[str, tuple[str, str]]) -> list[Column]:
    """Read a format of ``-O``: names with widths, separated by commas; ``.`` before the width aligns to the right.

    Raises:
        ValueError: A name is none of theirs, or a width no number.
    """
    by_name = dict(fields.values())
    columns = []
    for word in filter(None, text.split(",")):
        name, _, size = word.partition(":")
        right, size = size.startswith("."), size.removeprefix(".")
        if name.lower() not in by_name:
            raise ValueError(f"{name!r} is not known; known are {', '.join(by_name)}")
        if size and not size.isdecimal():
            raise ValueError(f"{word!r}: {size!r} is no width")
        width = min(int(size or _DEFAULT_LONG_WIDTH), _MOST_WIDTH)
        columns.append(Column(name.lower(), by_name[name.lower()], width, right=right))
    return columns


def accounting_columns(text: str, fields: Mapping[str, tuple[str, int]]) -> list[Column]:
    """Read a format of sacct.

    Args:
        text: The format, such as ``JobID%30,State``.
        fields: Name and default width of each field, by header; a negative width aligns to the left.

    Raises:
        ValueError: A name is none of theirs, or a width no number.
    """
    by_name = {header.lower(): (header, name, width) for header, (name, width) in fields.items()}
    columns = []
    for word in filter(None, text.split(",")):
        wanted, _, size = word.partition("%")
        if wanted.lower() not in by_name:
            raise ValueError(f"{wanted!r} is not known; known are {', '.join(fields)}")
        header, name, width = by_name[wanted.lower()]
        if size:
            if not size.removeprefix("-").isdecimal():
                raise ValueError(f"{word!r}: {size!r} is no width")
            width = int(size)
        columns.append(Column(name, header, min(abs(width), _MOST_WIDTH), right=width > 0, cut_mark="+"))
    return columns


def table(columns: Sequence[Column], records: Sequence[Record], *, header: bool) -> list[str]:
    """Return the lines of a table of ``-o`` or ``-O``."""
    fitted = []
    for column in columns:
        width = column.width
        if width < 0:
            width = max(len(column.header), *(len(one.get(column.field, "")) for one in records), 0)
        fitted.append(Column(column.field, column.header, width, column.right))
    lines = [_line(fitted, None)] if header else []
    return lines + [_line(fitted, record) for record in records]


def _line(columns: Sequence[Column], record: Record | None) -> str:
    return "".join(
        column.header
        if not column.field
        else column.cell(column.header if record is None else record.get(column.field, ""))
        for column in columns
    )


def accounting_table(
    columns: Sequence[Column], records: Sequence[Record], *, header: bool, delimiter: str = "", closed: bool = False
) -> list[str]:
    """Return the lines of sacct's table.

    Args:
        columns: The columns to print.
        records: The records, one per line.
        header: Whether to print the names first, underlined by dashes.
        delimiter: Text between columns, which then have no padding; empty for padded columns.
        closed: Whether lines also end with a delimiter.
    """
    rows = [[record.get(column.field, "") for column in columns] for record in records]
    if delimiter:
        rows = ([[column.header for column in columns]] if header else []) + rows
        return [delimiter.join(row) + (delimiter if closed else "") for row in rows]
    lines = []
    if header:
        lines.append([column.cell(column.header) for column in columns])
        lines.append(["-" * column.width for column in columns])
    lines += [[column.cell(text) for column, text in zip(columns, row, strict=True)] for row in rows]
    return [" ".join(line) + " " for line in lines]
