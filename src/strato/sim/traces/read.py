"""`read_trace`: reads a trace from a file, files or a folder, or generates it by a model of workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from strato.errors import InvalidInput, Problem, UsageError
from strato.sim.traces.companions import with_companions
from strato.sim.traces.input import InputFile, files_of
from strato.sim.traces.oddities import Oddities
from strato.sim.traces.reading import Format, Reading, ReadOptions
from strato.sim.traces.registry import FORMATS, format_named, recognised
from strato.sim.workloads.jobs import Trace, only_known
from strato.sim.workloads.spec import is_model, make


class SeveralTraces(UsageError):
    """The paths name several traces, not one; `files` has their files."""

    def __init__(self, message: str, files: Sequence[InputFile]) -> None:
        super().__init__(message)
        self.files = tuple(files)


def read_trace(
    source: Path | str | Sequence[Path],
    *,
    queue_by: str = "",
    limit: int = 0,
    options: ReadOptions | None = None,
) -> Trace:
    """Read a trace; its files may be compressed with gzip.

    Args:
        source: A file, a folder or several files that are one trace (see `FORMATS`), or a model (`workloads.spec`).
        queue_by: ``queue``, ``user`` or ``group`` puts each job into a queue named after that field, if the format
            has it.
        limit: Number of jobs to read from the beginning; 0 is all.
        options: All options, in place of ``queue_by`` and ``limit``.

    Raises:
        UsageError: A file cannot be read, is of no known format, or holds no job that ran.
        InvalidInput: Lines have problems, and the reading is strict or no job is left.
    """
    options = options or ReadOptions(queue_by=queue_by, limit=limit)
    if not isinstance(source, str | Path) and len(source) == 1:
        source = source[0]
    if isinstance(source, str | Path) and is_model(str(source)):
        made = make(str(source), lambda file: read_trace(file, options=replace(options, limit=0)))
        return replace(made, jobs=only_known(made.jobs[: options.limit])) if options.limit else made
    paths = [Path(source)] if isinstance(source, str | Path) else list(source)
    trace = read_files(paths, options)
    if not trace.jobs:
        raise _nothing(" ".join(map(str, paths)), trace)
    return trace


def read_files(paths: Sequence[Path], options: ReadOptions) -> Trace:
    """Read files or folders, which may hold machines and no jobs.

    Raises:
        UsageError: A file cannot be read or is of no known format.
        InvalidInput: Lines have problems, and the reading is strict.
    """
    kind, files = _format_of(paths, options)
    reading = Reading(options, Oddities(strict=options.strict))
    reading.check_queue_by(kind.title, kind.queue_fields)
    alone = kind.alone(files)
    if len(alone) > 1:
        _of_one(replace(kind, reads_parts=False), list(alone))
    kind.read(with_companions(kind.name, files), reading)
    return reading.trace(kind.name)


def _format_of(paths: Sequence[Path], options: ReadOptions) -> tuple[Format, list[InputFile]]:
    """Return the format of files, and those of them that have it.

    Files that the user named must all have one format. In a folder, files of no known format are left out.
    """
    files = files_of(paths)
    if options.format:
        kind = format_named(options.format)
        return kind, _of_one(kind, [file for file in files if len(files) == 1 or _has(file, kind)] or files)
    found: dict[str, list[InputFile]] = {}
    for file in files:
        formats = _recognised(file, is_named=file.path in paths)
        if len(formats) > 1:
            names = " or ".join(format_.name for format_ in formats)
            raise UsageError(f"{file.label} may be {names}; say which with --format")
        for format_ in formats:
            found.setdefault(format_.name, []).append(file)
    if not found:
        raise UsageError(_unknown(paths))
    if len(found) > 1:
        held = "; ".join(f"{name}: {', '.join(file.label for file in some[:3])}" for name, some in found.items())
        message = f"these are traces of several formats, which cannot be one ({held}); name those of one"
        raise SeveralTraces(message, [file for some in found.values() for file in some])
    (name,) = found
    return FORMATS[name], _of_one(FORMATS[name], found[name])


def _of_one(kind: Format, files: list[InputFile]) -> list[InputFile]:
    if len(files) > 1 and not kind.reads_parts:
        names = ", ".join(file.label for file in files[:5])
        raise SeveralTraces(f"each of these is a trace of its own ({kind.name}): {names}; name one", files)
    return files


def _has(file: InputFile, kind: Format) -> bool:
    try:
        return kind in recognised(file)
    except UsageError:
        return False


def _recognised(file: InputFile, *, is_named: bool) -> tuple[Format, ...]:
    if is_named and not file.member:
        formats = recognised(file)
        if not formats:
            raise UsageError(_unknown([file.path]))
        return formats
    try:
        return recognised(file)
    except UsageError:  # a folder may hold other files too: pictures, archives, files without read permission
        return ()


def _unknown(paths: Sequence[Path]) -> str:
    names = ", ".join(map(str, paths))
    return f"{names}: of no known format; name one with --format: {', '.join(FORMATS)}"


def _nothing(label: str, trace: Trace) -> UsageError:
    reasons = "".join(f"; {count} skipped: {reason}" for reason, count in trace.reasons.items())
    if trace.problems:
        return InvalidInput("the trace", [*trace.problems, Problem(label, f"holds no job that ran{reasons}")])
    machines = sum(shape.count for shape in trace.nodes)
    held = f", only {machines} machines" if machines else ""
    return UsageError(f"{label} holds no job that ran{held}{reasons}")
