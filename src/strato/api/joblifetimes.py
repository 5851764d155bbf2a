"""Lifetimes of jobs, counted from their submission: what a job asks for, and what its queue has to say about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

MAXIMUM: Final = "strato.dev/maximum-job-lifetime-seconds"
"""Annotation of a Queue: jobs in it and below it are ended after so many seconds, whatever they ask for."""
DEFAULT: Final = "strato.dev/default-job-lifetime-seconds"
"""Annotation of a Queue: jobs that ask for nothing are ended after so many seconds."""
REQUESTED: Final = "strato.dev/job-lifetime-seconds"
"""Annotation of a Job: it is ended after so many seconds, or earlier if its queue says so."""

NEVER: Final = -1
_MOST_DIGITS: Final = 10


def parse(text: str) -> int | None:
    """Return the seconds that an annotation says, `NEVER` where it says 0 or less; None when it is no whole number."""
    digits = text.strip().removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    return int(text) if int(text) > 0 else NEVER


def resolved(requested: int, default: int, maximum: int) -> int:
    """Return after how many seconds a job is ended; `NEVER` for one that is not.

    Args:
        requested: What the job asks for; 0 or less when it asks for nothing.
        default: What its queue gives to who asks for nothing; 0 or less for no limit.
        maximum: What its queue allows at most; 0 or less for no limit.
    """
    wanted = requested if requested > 0 else default
    if maximum > 0:
        return min(wanted, maximum) if wanted > 0 else maximum
    return wanted if wanted > 0 else NEVER


def of_job(job: Mapping[str, str], queues: Iterable[Mapping[str, str]]) -> int:
    """Return after how many seconds from its submission a job is ended; `NEVER` for one that is not.

    Args:
        job: Its annotations.
        queues: Annotations of its queue, and of those above it up to the root; the nearest that says something counts.
    """
    found: dict[str, int] = {}
    for noted in queues:
        for key in (DEFAULT, MAXIMUM):
            seconds = parse(noted[key]) if key not in found and key in noted else None
            if seconds is not None:
                found[key] = seconds
    requested = parse(job.get(REQUESTED, "0"))
    return resolved(requested if requested is not None else NEVER, found.get(DEFAULT, NEVER), found.get(MAXIMUM, NEVER))
