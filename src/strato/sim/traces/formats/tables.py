"""Functions for formats that are tables: with columns named in a header, or with a fixed number of fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from strato.node.shapes import GPU
from strato.sim.traces.cells import LineReader
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Head, Reading

SHARE: Final = "volcano.sh/gpu-memory"
"""Resource of a share of one GPU in thousandths, as the plugins deviceshare and fgd read it; each GPU has 1,000."""
WHOLE: Final = "volcano.sh/gpu-number"
"""Resource of whole GPUs, on nodes whose GPUs can be shared."""
USE_MODELS: Final = "nvidia.com/use-gputype"
"""Annotation of pods: models of GPUs that they accept, separated by commas."""


_LOOKED_AT: Final = 20
"""Lines by which a format without a header is recognised; some of them may be wrong."""


def has_header(head: Head, *columns: str) -> bool:
    """Return whether a file begins with a header that has these columns."""
    return set(columns) <= set(head.header)


def most_fit(head: Head, fits: Callable[[Sequence[str]], bool], delimiter: str = ",") -> bool:
    """Return whether more than three fifths of a file's first lines are rows of a format without a header."""
    rows = [line.split(delimiter) for line in head.lines[:_LOOKED_AT]]
    return sum(map(fits, rows)) * 5 > len(rows) * 3


def records(
    file: InputFile, reading: Reading, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[LineReader, list[str]]]:
    """Yield the cells of rows below a header, in the order of the arguments; "" for missing optional columns."""
    for line, cells in cells_by_title(file, reading, columns):
        yield line, [cells.get(column, "") for column in (*columns, *optional)]


def cells_by_title(
    file: InputFile, reading: Reading, required: Sequence[str] = (), *, delimiter: str = ","
) -> Iterator[tuple[LineReader, dict[str, str]]]:
    """Yield the cells of rows below a header, by their titles in lower case.

    Raises:
        InvalidInput: The header lacks a required column.
    """
    line = reading.line(file)
    rows = file.rows(reading.odd, delimiter=delimiter)
    at, header = next(rows, (1, []))
    titles = [title.strip().lower() for title in header]
    for column in required:
        if column not in titles:
            line.at(at).note(column, f"is missing in the header, which has {header[:30]}")
    if line.reject():
        reading.odd.raise_all()
    for number, row in rows:
        line.at(number)
        if len(row) != len(titles):
            line.note("", f"has {len(row)} fields, the header {len(titles)}")
            line.reject()
            continue
        yield line, {title: cell.strip() for title, cell in zip(titles, row, strict=True)}


def fixed(
    file: InputFile, reading: Reading, fields: int, *, delimiter: str = ",", header: str = ""
) -> Iterator[tuple[LineReader, list[str]]]:
    """Yield the cells of the rows with a fixed number of fields; other rows are reported and skipped.

    Args:
        file: The file.
        reading: Takes the problems.
        fields: Number of fields of each row.
        delimiter: The character between fields.
        header: First field of the header that some copies of the file have; that line is left out.
    """
    line = reading.line(file)
    for number, row in file.rows(reading.odd, delimiter=delimiter):
        line.at(number)
        if len(row) != fields:
            line.note("", f"has {len(row)} fields, the format has {fields}")
            line.reject()
            continue
        cells = [cell.strip() for cell in row]
        if header and cells[0] == header:
            continue
        yield line, cells


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number."""
    return text.strip().removeprefix("-").isdecimal()


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def gpu_requests(gpus: int, cpu: str = "") -> dict[str, str]:
    """Return the requests of a pod with so many GPUs."""
    return {**({GPU: str(gpus)} if gpus else {}), **({"cpu": cpu} if cpu else {})} or {"cpu": "1"}


def share_requests(percent: float) -> dict[str, str]:
    """Return the requests of a pod for percents of shared GPUs: a share of one below 100 %, else whole ones."""
    if percent <= 0:
        return {}
    return {SHARE: str(math.ceil(percent * 10))} if percent < 100 else {WHOLE: str(math.ceil(percent / 100))}


def shared_cards(gpus: int) -> dict[str, str]:
    """Return the resources of a node with so many GPUs that pods can share."""
    return {WHOLE: str(gpus), SHARE: str(gpus * 1000)} if gpus else {}
