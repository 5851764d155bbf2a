"""Writes the answer to a what-if question as a table, before beside after, and as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.api.meta import Json
from strato.sim.foresight.forward import Forecast, JobForecast
from strato.sim.foresight.whatif import Fewest, WhatIfAnswer
from strato.units import human_duration

_ROWS: Final = 40
"""Most jobs in the table; the data has all."""


def to_json(answer: WhatIfAnswer, fewest: Fewest | None = None) -> Json:
    """Return an answer as data; starts are in seconds from now, null for jobs that did not start."""
    keys = dict.fromkeys([*answer.before.jobs, *answer.after.jobs])
    body: Json = {
        "changes": list(answer.changes),
        "before": _side_json(answer.before),
        "after": _side_json(answer.after),
        "jobs": [_job_json(answer, key) for key in keys],
    }
    if fewest is not None:
        body["fewestNodes"] = {
            "nodes": fewest.nodes,
            "tried": [{"nodes": number, "waiting": fewest.tried[number]} for number in sorted(fewest.tried)],
            "monotone": fewest.is_monotone,
            "waiting": dict(fewest.waiting),
        }
    return body


def _side_json(found: Forecast) -> Json:
    return {
        "nodes": found.nodes,
        "startAtOnce": len(found.at_once),
        "startLater": len(_later(found)),
        "wait": len(found.waiting),
        "meanWaitSeconds": _mean_wait(found),
        "inUse": found.in_use,
        "inUseUntilLastStart": found.in_use_later,
        "evictions": [{"pod": pod, "for": by} for pod, by in found.evictions],
        "podsOfUnknownRunTime": found.unknown,
        "lookedAheadSeconds": found.ended_at,
        "cutShort": found.is_cut,
    }


def _job_json(answer: WhatIfAnswer, key: str) -> Json:
    known = answer.after.jobs.get(key) or answer.before.jobs[key]
    body: Json = {"name": known.name, "podGroup": key, "queue": known.queue, "pods": known.pods}
    for name, found in (("before", answer.before), ("after", answer.after)):
        job = found.jobs.get(key)
        body[name] = None
        if job is not None:
            body[name] = {
                "startsInSeconds": job.starts_at,
                "evictedPods": job.evicted,
                "reason": job.reason or None,
            }
        elif key in found.running:
            body[name] = {"runs": True}
    return body


def to_table(answer: WhatIfAnswer, fewest: Fewest | None = None) -> str:
    """Return an answer as text for a terminal."""
    before, after = answer.before, answer.after
    parts = ["changes: " + ("; ".join(answer.changes) or "none")]
    rows = [
        ("nodes that take pods", str(before.nodes), str(after.nodes)),
        ("jobs that start at once", str(len(before.at_once)), str(len(after.at_once))),
        ("jobs that start later", str(len(_later(before))), str(len(_later(after)))),
        ("jobs that go on waiting", str(len(before.waiting)), str(len(after.waiting))),
        ("mean wait until start", _wait_text(before), _wait_text(after)),
        ("pods evicted", str(len(before.evictions)), str(len(after.evictions))),
        *[
            (f"{name} in use{when}", _percent(old.get(name)), _percent(new.get(name)))
            for name in dict.fromkeys([*before.in_use, *after.in_use])
            for when, old, new in (
                ("", before.in_use, after.in_use),
                (", until the last start", before.in_use_later, after.in_use_later),
            )
            if old.get(name) or new.get(name)
        ],
    ]
    parts.append(_layout([("", "BEFORE", "AFTER"), *rows]))
    jobs = _jobs_table(answer)
    if jobs:
        parts.append(jobs)
    parts += _notes(answer)
    if fewest is not None:
        parts.append(fewest_text(fewest))
    return "\n\n".join(parts)


def _jobs_table(answer: WhatIfAnswer) -> str:
    keys = list(dict.fromkeys([*answer.after.jobs, *answer.before.jobs]))
    if not keys:
        return ""
    rows = []
    for key in keys[:_ROWS]:
        old, new = answer.before.jobs.get(key), answer.after.jobs.get(key)
        known = new or old
        assert known is not None
        rows.append((known.name, known.queue, str(known.pods), _when(answer.before, key), _when(answer.after, key)))
    text = _layout([("JOB", "QUEUE", "PODS", "BEFORE", "AFTER"), *rows])
    return text + (f"\n… and {len(keys) - _ROWS} more; -o json has all" if len(keys) > _ROWS else "")


def _when(found: Forecast, key: str) -> str:
    job = found.jobs.get(key)
    if job is None:
        return "runs" if key in found.running else "-"
    if job.starts_at is None:
        return "waits" + (f": {job.reason}" if job.reason else "")
    text = "at once" if job.starts_at == 0.0 else f"in {human_duration(job.starts_at)}"
    return text + (f", evicted ({job.evicted} pods)" if job.evicted else "")


def _notes(answer: WhatIfAnswer) -> list[str]:
    notes = []
    unknown = max(answer.before.unknown, answer.after.unknown)
    if unknown:
        notes.append(
            f"note: the run time of {unknown} pods is unknown; they are taken to run for good. "
            "--run-seconds N assumes a time, the annotation strato.dev/expected-seconds gives one"
        )
    if answer.before.is_cut or answer.after.is_cut:
        ahead = human_duration(max(answer.before.ended_at, answer.after.ended_at))
        notes.append(f"note: looked ahead {ahead}, no further; --horizon looks further")
    return notes


def fewest_text(fewest: Fewest) -> str:
    """Return the result of a search for the fewest nodes as sentences."""
    if fewest.nodes is None:
        most = max(fewest.tried)
        held = "; ".join(f"{name}: {reason or 'no reason given'}" for name, reason in list(fewest.waiting.items())[:5])
        return f"no number of nodes starts everything: with {most} more still waits {held}"
    if fewest.nodes == 0:
        return "everything that waits starts at once without further nodes"
    text = f"{fewest.nodes} nodes start everything that waits; {fewest.nodes - 1} do not"
    if not fewest.is_monotone:
        text += "; of the numbers that were tried, a larger one left more waiting, so a smaller one may do"
    return text


def _later(found: Forecast) -> list[JobForecast]:
    return [job for job in found.jobs.values() if job.starts_at]


def _mean_wait(found: Forecast) -> float | None:
    starts = [job.starts_at for job in found.jobs.values() if job.starts_at is not None]
    return sum(starts) / len(starts) if starts else None


def _wait_text(found: Forecast) -> str:
    mean = _mean_wait(found)
    return "-" if mean is None else human_duration(mean)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _layout(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) + 3 for column in range(len(rows[0]))]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
