"""What Slurm's ``sacct --parsable2`` (or ``--parsable``) prints: columns by name, a job or a step a line.

Read are, whatever their order: JobID; Submit; Start, End, Elapsed or ElapsedRaw; State; User, Account, Partition;
Timelimit or TimelimitRaw (minutes); NNodes or AllocNodes; NCPUS or AllocCPUS; AllocTRES or ReqTRES
(``cpu=32,mem=64G,node=2, gres/gpu=4``); ReqMem (``4Gc`` per CPU, ``4Gn`` per node, ``4G`` in all); JobName. Source:
the manual page sacct(1) of Slurm. Steps (``12.batch``) are passed over, tasks of arrays (``12_3``) and parts of
heterogeneous jobs (``12+1``) are jobs of their own. A job becomes a gang with a pod per node where its GPUs divide
evenly, else with a pod per GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores, instant_seconds, memory, shown
from strato.sim.traces.formats.tables import cells_by_title, gpu_requests
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

STEPS: Final = "steps of jobs"
_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,9}):(\d{1,2})(?:\.\d+)?")
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d+)?)([KMGTPE]?)([cn]?)", re.IGNORECASE)
_UNITS = {"": 20, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_NO_TIME = frozenset({"", "unknown", "none", "n/a"})
_NO_LIMIT = frozenset({"", "unlimited", "partition_limit", "invalid"})
_NOT_ENDED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING")

_Cells = Mapping[str, str]


def _recognise(head: Head) -> int:
    titles = {title.strip().lower() for title in head.lines[0].split("|")} if head.lines else set()
    return 10 if {"jobid", "submit"} <= titles and titles & {"elapsed", "elapsedraw", "end"} else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        for line, cells in cells_by_title(file, reading, ("jobid", "submit"), delimiter="|"):
            job = _job(cells, line, reading)
            if not line.reject() and job is not None:
                reading.add(job)


def _job(cells: _Cells, line: LineReader, reading: Reading) -> TraceJob | None:
    number, state = cells["jobid"], cells.get("state", "").partition(" ")[0].upper()
    if "." in number:
        line.skip(STEPS)
        return None
    submit = _instant(cells, "submit", line)
    begun, run = _optional_instant(cells, "start", line), _run_seconds(cells, line)
    if state in _NOT_ENDED or not run or submit is None:
        reason = "had not ended" if state in _NOT_ENDED else "never ran"
        line.skip(f"{reason} ({state.lower()[:20] or 'no state'})")
        return None
    tres = _tres(cells.get("alloctres", "") or cells.get("reqtres", ""))
    nodes = max(1, _count(line, cells, ("nnodes", "allocnodes", "reqnodes"), tres.get("node", "")))
    cpus = max(1, _count(line, cells, ("alloccpus", "ncpus", "reqcpus"), tres.get("cpu", "")))
    gpus = line.whole("gres/gpu", tres["gres/gpu"]) if "gres/gpu" in tres else 0
    pods = nodes if gpus % nodes == 0 else gpus
    limit = _limit_seconds(cells, line)
    return TraceJob(
        name=reading.names.new(number),
        submit_seconds=submit,
        run_seconds=run,
        replicas=pods,
        requests={**gpu_requests(gpus // pods, cores(cpus / pods)), **_memory(cells, tres, cpus, nodes, pods, line)},
        queue=reading.queue(
            queue=cells.get("partition", ""), user=cells.get("user", ""), group=cells.get("account", "")
        ),
        estimate_seconds=limit,
        user=cells.get("user", ""),
        application=cells.get("jobname", ""),
        waited_seconds=max(0.0, begun - submit) if begun is not None else None,
    )


def _instant(cells: _Cells, column: str, line: LineReader) -> float | None:
    """Return an instant; report a problem if the column is missing."""
    text = cells.get(column, "")
    if text.lower() in _NO_TIME:
        line.note(column, "is empty" if not text else f"{text!r} is no time")
        return None
    return _optional_instant(cells, column, line)


def _optional_instant(cells: _Cells, column: str, line: LineReader) -> float | None:
    text = cells.get(column, "")
    if text.lower() in _NO_TIME:
        return None
    if text.isdecimal():  # sacct prints seconds with SLURM_TIME_FORMAT=%s
        return line.number_in(column, text, 0, MOST_SECONDS)
    found = instant_seconds(text)
    if found is None:
        line.note(column, f"{shown(text)} is no time such as 2024-01-31T12:00:00")
    return found


def _run_seconds(cells: _Cells, line: LineReader) -> float:
    """Return how long a job ran; 0 if no column has it."""
    raw, elapsed = cells.get("elapsedraw", ""), cells.get("elapsed", "")
    if raw:
        return line.number_in("ElapsedRaw", raw, 0, MOST_SECONDS)
    if elapsed:
        return _duration(elapsed, "Elapsed", line)
    begun, ended = _optional_instant(cells, "start", line), _optional_instant(cells, "end", line)
    return 0.0 if begun is None or ended is None else max(0.0, ended - begun)


def _duration(text: str, column: str, line: LineReader) -> float:
    """Read ``[days-]hours:minutes:seconds`` or ``minutes:seconds``."""
    found = _TIME.fullmatch(text)
    if found is None:
        line.note(column, f"{shown(text)} is no time such as 1-02:03:04")
        return 0.0
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return min(MOST_SECONDS, float(((days * 24 + hours) * 60 + minutes) * 60 + seconds))


def _limit_seconds(cells: _Cells, line: LineReader) -> float | None:
    raw, text = cells.get("timelimitraw", ""), cells.get("timelimit", "")
    if raw and raw.lower() not in _NO_LIMIT:
        return line.number_in("TimelimitRaw", raw, 0, MOST_SECONDS / 60) * 60
    return None if text.lower() in _NO_LIMIT else _duration(text, "Timelimit", line)


def _tres(text: str) -> dict[str, str]:
    """Read ``cpu=32,mem=64G,gres/gpu:a100=4``; GPUs are the sum over their types if ``gres/gpu`` is not given."""
    found: dict[str, str] = {}
    kinds = 0
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        name = name.strip().lower()
        if name.startswith("gres/gpu:") and amount.isdecimal():
            kinds += int(amount[:9])
        found[name] = amount.strip()
    if kinds:
        found.setdefault("gres/gpu", str(kinds))
    return found


def _count(line: LineReader, cells: _Cells, columns: Sequence[str], other: str) -> int:
    for column in columns:
        if text := cells.get(column, ""):
            return line.whole(column, text)
    return line.whole("TRES", other) if other else 0


def _memory(
    cells: _Cells, tres: Mapping[str, str], cpus: int, nodes: int, pods: int, line: LineReader
) -> dict[str, str]:
    """Return the memory request of each pod."""
    text = tres.get("mem", "") or cells.get("reqmem", "")
    if not text or text in ("0", "?"):
        return {}
    found = _AMOUNT.fullmatch(text)
    if found is None:
        line.note("memory", f"{shown(text)} is no amount such as 4000M or 4Gc")
        return {}
    total = float(found[1]) * 2.0 ** _UNITS[found[2].upper()] * {"c": cpus, "n": nodes, "": 1}[found[3].lower()]
    amount = memory(line.number_in("memory", repr(total / pods), 0, 2.0**60))
    return {"memory": amount} if amount else {}


FORMAT: Final = Format(
    name="sacct",
    title="Slurm's accounting, sacct --parsable2",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("group", "queue", "user"),
)
