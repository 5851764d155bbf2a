"""Lifetimes of jobs, counted from their submission: the one a job asks for, and its queue's default and maximum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

MAXIMUM: Final = "strato.dev/maximum-job-lifetime-seconds"
"""Annotation of a Queue: longest lifetime in seconds of jobs in it and in its descendants, whatever they ask for."""
DEFAULT: Final = "strato.dev/default-job-lifetime-seconds"
"""Annotation of a Queue: lifetime in seconds of jobs without `REQUESTED`."""
REQUESTED: Final = "strato.dev/job-lifetime-seconds"
"""Annotation of a Job: its lifetime in seconds, which the maximum of its queue bounds."""

NEVER: Final = -1
_MOST_DIGITS: Final = 10


def parse(text: str) -> int | None:
    """Return the seconds of an annotation, `NEVER` for 0 or less; None when the text is no whole number."""
    digits = text.strip().removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    return int(text) if int(text) > 0 else NEVER


def resolved(requested: int, default: int, maximum: int) -> int:
    """Return after how many seconds a job is ended; `NEVER` for one that is not.

    Args:
        requested: Lifetime that the job asks for; 0 or less if it asks for none.
        default: The queue's lifetime for jobs that ask for none; 0 or less for no limit.
        maximum: The queue's longest lifetime; 0 or less for no limit.
    """
    wanted = requested if requested > 0 else default
    if maximum > 0:
        return min(wanted, maximum) if wanted > 0 else maximum
    return wanted if wanted > 0 else NEVER


def of_job(job: Mapping[str, str], queues: Iterable[Mapping[str, str]]) -> int:
    """Return after how many seconds from its submission a job is ended; `NEVER` for one that is not.

    Args:
        job: Annotations of the job.
        queues: Annotations of its queue and then of each ancestor up to the root; the nearest queue with a valid
            annotation counts.
    """
    found: dict[str, int] = {}
    for noted in queues:
        for key in (DEFAULT, MAXIMUM):
            seconds = parse(noted[key]) if key not in found and key in noted else None
            if seconds is not None:
                found[key] = seconds
    requested = parse(job.get(REQUESTED, "0"))
    return resolved(requested if requested is not None else NEVER, found.get(DEFAULT, NEVER), found.get(MAXIMUM, NEVER))
