"""`FORMATS`: all formats of traces; `recognised` finds the format of a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Final

from strato.errors import UsageError, nearest
from strato.sim.traces.formats import (
    alibaba2018,
    azure,
    chronus,
    cloudsimpy,
    elasticflow,
    gavel,
    google2011,
    google2019,
    helios,
    kube,
    lisa,
    mapping,
    openb,
    ours,
    pai2020,
    philly,
    philly_json,
    sacct,
    swf,
)
from strato.sim.traces.input import InputFile, head_text
from strato.sim.traces.reading import Format, Head

FORMATS: Final[Mapping[str, Format]] = {
    format_.name: format_
    for format_ in (
        ours.FORMAT,
        swf.FORMAT,
        openb.FORMAT,
        philly.FORMAT,
        philly_json.FORMAT,
        chronus.FORMAT,
        elasticflow.FORMAT,
        helios.FORMAT,
        alibaba2018.FORMAT,
        cloudsimpy.FORMAT,
        pai2020.FORMAT,
        google2011.FORMAT,
        google2019.FORMAT,
        azure.FORMAT,
        lisa.FORMAT,
        gavel.FORMAT,
        sacct.FORMAT,
        kube.FORMAT,
        mapping.FORMAT,
    )
}
"""Name of a format → the format, in the order of the documentation."""
_HEAD_LINES = 50


def head_of(file: InputFile) -> Head:
    """Return the beginning of a file, by which its format is recognised.

    Raises:
        UsageError: The file cannot be read or is no text.
    """
    if file.is_parquet:
        _, header = next(file.parquet_rows(), (1, []))
        text = ",".join(header)
    else:
        text = head_text(file.head, file.label)
    lines = tuple(line for line in text.splitlines()[:_HEAD_LINES] if line.strip())
    return Head(file=file, name=file.name, text=text, lines=lines, header=_header(lines))


def _header(lines: Sequence[str]) -> tuple[str, ...]:
    for line in lines:
        if not line.lstrip().startswith("#"):
            try:
                return tuple(cell.strip().lower() for cell in next(csv.reader(io.StringIO(line)), []))
            except csv.Error:
                return ()
    return ()


def recognised(file: InputFile) -> tuple[Format, ...]:
    """Return the formats that are most sure of a file; several if they are equally sure, none if none knows it.

    Raises:
        UsageError: The file cannot be read or is no text.
    """
    head = head_of(file)
    sure = {name: format_.recognise(head) for name, format_ in FORMATS.items()}
    best = max(sure.values())
    return tuple(FORMATS[name] for name, score in sure.items() if score == best) if best else ()


def format_named(name: str) -> Format:
    """Return the format of a name.

    Raises:
        UsageError: No format has that name.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r} of traces{nearest(name, FORMATS)}")
    return FORMATS[name]
