"""What a pod does on a hollow node: how long each container runs and how it ends. Pure.

In this order: the pod's annotations, a plain ``sleep`` command, the restart policy. A container of a pod that
restarts ``Always`` and says neither runs until it is deleted, as a service would; any other completes at once.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from strato.lru import memoised
from strato.node.restarts import ALWAYS

RUN_SECONDS = "strato.dev/run-seconds"
"""Pod annotation: how long its containers run, in seconds (a decimal number ≥ 0; ``inf`` never ends)."""
EXIT_CODE = "strato.dev/exit-code"
"""Pod annotation: exit code of its containers, in [0, 255]; beside a failure probability, that of a failure."""
FAILURE_PROBABILITY = "strato.dev/failure-probability"
"""Pod annotation: chance in [0, 1] that a container's run fails (exit code 1 unless ``exit-code`` says another)."""

_SLEEP_COMMAND = re.compile(
    r"\s*(?:exec\s+)?(?:/bin/|/usr/bin/)?sleep((?:\s+[0-9.]+[smhd]?|\s+infinity|\s+inf)+)\s*;?\s*"
)
_SHELLS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/sh", "/usr/bin/bash", "dash", "/bin/dash"})
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class RunPlan(NamedTuple):
    """How one run of a container goes."""

    seconds: float
    """Run time; infinite when only a deletion ends it."""
    exit_code: int


def plan_run(
    annotations: Mapping[str, str] | None,
    argv: Sequence[str],
    restart_policy: str,
    rng: random.Random,
) -> RunPlan:
    """Decide one run of a container whose command line is ``argv`` (command and args, may be empty)."""
    notes = annotations if has_run_annotations(annotations) else None
    seconds = _number(notes.get(RUN_SECONDS), low=0.0) if notes else None
    if seconds is None:
        seconds = sleep_seconds(argv)
    if seconds is None:
        seconds = math.inf if restart_policy == ALWAYS else 0.0
    return RunPlan(seconds, _exit_code(notes, rng) if notes else 0)


def has_run_annotations(annotations: Mapping[str, str] | None) -> bool:
    """Return whether a pod has annotations about how it runs."""
    if not annotations:
        return False
    return RUN_SECONDS in annotations or EXIT_CODE in annotations or FAILURE_PROBABILITY in annotations


def _exit_code(notes: Mapping[str, str], rng: random.Random) -> int:
    code = _number(notes.get(EXIT_CODE), low=0.0, high=255.0)
    chance = _number(notes.get(FAILURE_PROBABILITY), low=0.0, high=1.0)
    if chance is None:
        return int(code or 0)
    if rng.random() >= chance:
        return 0
    return int(code) if code else 1


def _number(text: str | None, *, low: float, high: float = math.inf) -> float | None:
    """Read an annotation; what cannot be read is treated as absent (`problems` reports it)."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if low <= value <= high else None


def problems(annotations: Mapping[str, str] | None) -> list[str]:
    """Return one sentence for each annotation of ours that cannot be read and is therefore ignored."""
    notes = annotations if annotations and has_run_annotations(annotations) else {}
    found = []
    for name, high, meaning in (
        (RUN_SECONDS, math.inf, "a number of seconds, 0 or more"),
        (EXIT_CODE, 255.0, "an exit code from 0 to 255"),
        (FAILURE_PROBABILITY, 1.0, "a probability from 0 to 1"),
    ):
        text = notes.get(name)
        if text is not None and _number(text, low=0.0, high=high) is None:
            found.append(f"annotation {name}: {text!r} is ignored, want {meaning}")
    return found


def sleep_seconds(argv: Sequence[str]) -> float | None:
    """Return how long a plain ``sleep N``, or a shell that does only that, takes; None for anything else."""
    return _sleep_of("\0".join(argv)) if argv else None


@memoised(1 << 20)
def _sleep_of(words: str) -> float | None:
    """Memoised part of `sleep_seconds`; ``words`` is the command line joined by NUL, which no argument contains."""
    argv = words.split("\0")
    if argv[0] in _SHELLS:
        if len(argv) == 3 and argv[1] in ("-c", "-ec", "-lc"):
            return _sleep_text(argv[2])
        return None
    return _sleep_text(" ".join(argv))


def _sleep_text(text: str) -> float | None:
    match = _SLEEP_COMMAND.fullmatch(text)
    if match is None:
        return None
    total = 0.0
    for word in match[1].split():
        if word.startswith("inf"):
            return math.inf
        unit = _UNIT_SECONDS.get(word[-1])
        try:
            total += float(word[:-1]) * unit if unit is not None else float(word)
        except ValueError:
            return None
    return total
