"""Plans a load: when each job of a trace or model is submitted, as a Volcano job or as pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strato.errors import UsageError
from strato.sim.submission import manifest_of
from strato.sim.workloads.jobs import TraceJob
from strato.units import duration_seconds

LABEL: Final = "strato.dev/load"
"""Label of every object that a load creates; its value is the name of the load's namespace."""
JOBS, PODS = "jobs", "pods"
KINDS: Final = (JOBS, PODS)
_PER: Final = {"s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How the jobs of a trace are submitted."""

    pods_per_second: float = 0.0
    """Rate of submission, in the trace's order; 0 keeps the trace's times."""
    speed: float = 1.0
    """Without a rate: factor by which submissions and run times are faster than in the trace."""
    kind: str = JOBS
    """``jobs`` creates Volcano jobs, ``pods`` creates pods without an owner."""
    run_seconds: float | None = None
    """Run time of every pod; None takes the trace's."""
    scheduler: str = "volcano"
    """``schedulerName`` of the pods."""
    drain_seconds: float = 60.0
    """How long to wait for the end of pods after the last submission."""


@dataclass(frozen=True, slots=True)
class PlannedCreate:
    """One object to create."""

    at_seconds: float
    """When it is due, after the beginning of the load."""
    name: str
    """The job's name; of a pod without an owner the job's name and a number."""
    pods: int
    body: Mapping[str, Any]


def read_rate(text: str) -> float:
    """Read ``200/s``, ``200``, ``30/m`` or ``5000/h`` as a number per second.

    Raises:
        UsageError: It is none.
    """
    number, slash, per = text.partition("/")
    try:
        value = float(number) / (_PER[per.strip()] if slash else 1.0)
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value <= 1e6:
        raise UsageError(f"{text!r} is no rate; write for example 200/s, 30/m or 5000/h")
    return value


def read_speed(text: str) -> float:
    """Read ``60`` or ``60x`` as a factor.

    Raises:
        UsageError: It is none.
    """
    try:
        value = float(text.strip().removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e6:
        raise UsageError(f"{text!r} is no speed; write for example 60 or 60x")
    return value


def read_seconds(text: str) -> float:
    """Read ``90`` or ``1m30s`` as seconds.

    Raises:
        UsageError: It is none.
    """
    try:
        value = float(text)
    except ValueError:
        try:
            value = duration_seconds(text)
        except ValueError as error:
            raise UsageError(str(error)) from error
    if not 0 <= value <= 1e8:
        raise UsageError(f"{text!r} is no time; write for example 90 or 1m30s")
    return value


def planned(jobs: Sequence[TraceJob], options: LoadOptions, namespace: str) -> Iterator[PlannedCreate]:
    """Yield the submissions of jobs, ordered by when they are due."""
    before = 0
    for job in jobs:
        rate = options.pods_per_second
        at = before / rate if rate else job.submit_seconds / options.speed
        before += job.replicas
        timed = replace(job, run_seconds=_run_seconds(job, options))
        if options.kind == PODS:
            yield from _pods(timed, at, options, namespace)
        else:
            yield PlannedCreate(at, job.name, job.replicas, _job(timed, options, namespace))


def _run_seconds(job: TraceJob, options: LoadOptions) -> float:
    if options.run_seconds is not None:
        return options.run_seconds
    return job.run_seconds if options.pods_per_second else job.run_seconds / options.speed


def _job(job: TraceJob, options: LoadOptions, namespace: str) -> dict[str, Any]:
    body = manifest_of(job)
    labels = {LABEL: namespace}
    body["metadata"] = {**body["metadata"], "namespace": namespace, "labels": labels}
    body["spec"]["schedulerName"] = options.scheduler
    for task in body["spec"]["tasks"]:
        task["template"]["metadata"]["labels"] = labels
    return body


def _pods(job: TraceJob, at: float, options: LoadOptions, namespace: str) -> Iterator[PlannedCreate]:
    template = manifest_of(job)["spec"]["tasks"][0]["template"]
    spacing = 1 / options.pods_per_second if options.pods_per_second else 0.0
    for number in range(job.replicas):
        name = f"{job.name}-{number}"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {LABEL: namespace},
                "annotations": template["metadata"]["annotations"],
            },
            "spec": {**template["spec"], "schedulerName": options.scheduler},
        }
        yield PlannedCreate(at + number * spacing, name, 1, body)
