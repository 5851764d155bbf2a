"""What a pod does on a hollow node: how long each container runs, how it ends, and how long it takes to stop. Pure.

The first of these that applies decides: the pod's annotations, the command line (`strato.node.hollow.commandlines`),
the restart policy. A container without a command line is a service, which runs until it is deleted; so is one with an
unknown command line in a pod that restarts ``Always``. Any other container completes at once. docs/hollow-nodes.md has
the rules for users.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from strato.api.core import Container
from strato.api.cpudemand import CPU_DEMAND
from strato.node.hollow.commandlines import run_of
from strato.node.hollow.distributions import BadDistribution, Draws, Random, parse_distribution
from strato.node.restarts import ALWAYS

RUN_SECONDS = "strato.dev/run-seconds"
"""Pod annotation: how long its containers run: seconds (``inf`` never ends), or a distribution of them."""
START_SECONDS = "strato.dev/start-seconds"
"""Pod annotation: how long its containers take from the bind to running, once their images are pulled: seconds, or a
distribution of them."""
EXIT_CODE = "strato.dev/exit-code"
"""Pod annotation: exit code of its containers, in [0, 255]; with a failure probability, the code of failed runs."""
FAILURE_PROBABILITY = "strato.dev/failure-probability"
"""Pod annotation: chance in [0, 1] that a container's run fails (exit code 1 unless ``exit-code`` says another)."""
STOP_SECONDS = "strato.dev/stop-seconds"
"""Pod annotation: how long its containers take to end after SIGTERM: seconds, or a distribution of them. They are
killed at the end of the grace period."""

_ALL = frozenset((RUN_SECONDS, START_SECONDS, EXIT_CODE, FAILURE_PROBABILITY, STOP_SECONDS, CPU_DEMAND))


class RunPlan(NamedTuple):
    """How long one run of a container takes, and its exit code."""

    seconds: float
    """Run time; infinite when only a deletion ends it."""
    exit_code: int


def plan_run(annotations: Mapping[str, str] | None, argv: Sequence[str], restart_policy: str, draws: Random) -> RunPlan:
    """Decide one run of a container whose command line is ``argv`` (command and args, may be empty).

    Args:
        annotations: Annotations of the pod.
        argv: The command line.
        restart_policy: Restart policy of the pod.
        draws: Generator of this run's random numbers.
    """
    notes = annotations if has_run_annotations(annotations) else None
    run = run_of(argv)
    seconds = _seconds(notes.get(RUN_SECONDS), draws) if notes else None
    if seconds is None:
        otherwise = math.inf if restart_policy == ALWAYS or not argv else 0.0
        seconds = run.seconds if run is not None else otherwise
    code = _exit_code(notes, draws) if notes else None
    if code is None:
        code = run.exit_code if run is not None else 0
    return RunPlan(seconds, code)


def certain_seconds(annotations: Mapping[str, str] | None) -> float | None:
    """Return the run time that a pod's annotation sets as a fixed number of seconds.

    None without the annotation, if it is a distribution, or if it is invalid and therefore ignored.
    """
    text = annotations.get(RUN_SECONDS) if annotations else None
    if text is None:
        return None
    try:
        return parse_distribution(text).certain
    except BadDistribution:
        return None


def start_seconds(annotations: Mapping[str, str] | None, uid: str) -> float:
    """Return how long a pod's containers take from the bind to running, not counting the pulls of images."""
    text = annotations.get(START_SECONDS) if annotations else None
    return _seconds(text, Draws(uid, "start")) or 0.0 if text is not None else 0.0


def stop_seconds(annotations: Mapping[str, str] | None, container: Container, uid: str) -> float:
    """Return how long a running container takes to end when its pod is deleted, before the grace period bounds it."""
    hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
    before = 0.0
    if hook is not None:
        run = run_of(hook.exec.command) if hook.exec is not None else None
        before = run.seconds if run is not None else float(hook.sleep.seconds) if hook.sleep is not None else 0.0
    if annotations:
        seconds = _seconds(annotations.get(STOP_SECONDS), Draws(uid, "stop", container.name))
        if seconds is not None:
            return before + seconds
        if RUN_SECONDS in annotations and not _distribution_problem(annotations[RUN_SECONDS]):
            return before
    run = run_of((*container.command, *container.args))
    return before if run is None or run.heeds_sigterm else math.inf


def has_run_annotations(annotations: Mapping[str, str] | None) -> bool:
    """Return whether a pod has annotations about how it runs."""
    if not annotations:
        return False
    return not annotations.keys().isdisjoint(_ALL)


def _exit_code(notes: Mapping[str, str], draws: Random) -> int | None:
    """Return the exit code that annotations set; None when they set none."""
    code = _number(notes.get(EXIT_CODE), low=0.0, high=255.0)
    chance = _number(notes.get(FAILURE_PROBABILITY), low=0.0, high=1.0)
    if chance is None:
        return None if code is None else int(code)
    if draws.random() >= chance:
        return 0
    return int(code) if code else 1


def _seconds(text: str | None, draws: Random) -> float | None:
    """Return the seconds of an annotation, or a draw from its distribution; an invalid one counts as absent.

    `problems` reports invalid annotations.
    """
    if text is None:
        return None
    try:
        return parse_distribution(text).draw(draws)
    except BadDistribution:
        return None


def _distribution_problem(text: str) -> str:
    try:
        parse_distribution(text)
    except BadDistribution as error:
        return str(error)
    return ""


def _number(text: str | None, *, low: float, high: float = math.inf) -> float | None:
    """Return the number of an annotation; an invalid one counts as absent (`problems` reports it)."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if low <= value <= high else None


def problems(annotations: Mapping[str, str] | None) -> list[str]:
    """Return one sentence for each of these annotations that is invalid and therefore ignored."""
    notes = annotations if annotations and has_run_annotations(annotations) else {}
    found = []
    for name in (RUN_SECONDS, START_SECONDS, STOP_SECONDS):
        problem = _distribution_problem(notes[name]) if name in notes else ""
        if problem:
            found.append(f"annotation {name} is ignored: {problem}")
    for name, high, meaning in (
        (EXIT_CODE, 255.0, "an exit code from 0 to 255"),
        (FAILURE_PROBABILITY, 1.0, "a probability from 0 to 1"),
    ):
        text = notes.get(name)
        if text is not None and _number(text, low=0.0, high=high) is None:
            found.append(f"annotation {name}: {text!r} is ignored, want {meaning}")
    return found
