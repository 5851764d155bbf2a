"""``strato when``: when a job will start."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.foresight import Foresight, duration, look
from strato.cli.history import store_option
from strato.cli.inputs import INPUT_FILE
from strato.cli.output import output_option, text_of
from strato.errors import StateError, UsageError

if TYPE_CHECKING:
    from strato.scheduler.model.jobs import Job

_GROUPS = ("podgroup", "podgroups", "pg")
_PODS = ("pod", "pods", "po")


@click.command()
@click.argument("target")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="Take the state from manifests instead.")
@click.option("--config", type=INPUT_FILE, default=None, help="The scheduler's configuration file.")
@click.option("--draws", type=click.IntRange(1, 200), default=11, show_default=True, help="Courses of events to try.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Decides what is drawn.")
@store_option
@output_option
@click.pass_context
def when(
    ctx: click.Context,
    target: str,
    namespace: str,
    paths: tuple[str, ...],
    config: Path | None,
    draws: int,
    seed: int,
    path: str | None,
    output: str,
) -> None:
    """Estimate when TARGET starts: job/NAME, podgroup/NAME, pod/NAME, or any KIND/NAME that has a pod group.

    The scheduler's engine is run forward on a copy of the state, several times, with run times drawn from what is
    known of them: what jobs of the same user, name and size took before, estimates, deadlines. The interval is to hold
    the start in four of five cases. What is submitted later is not foreseen. Only reads.
    """
    kind, _, name = target.rpartition("/")
    if not name:
        raise UsageError(f"{target!r}: write job/NAME, podgroup/NAME, pod/NAME or KIND/NAME")
    foresight = look(ctx, paths, config, path, seed)
    job = _find(foresight, kind.lower() or "job", f"{namespace}/{name}")
    answer = _answer(foresight, job, draws)
    click.echo(_sentence(answer) if output == "table" else text_of(answer, output))


def _find(foresight: Foresight, kind: str, key: str) -> Job:
    jobs = foresight.world.jobs
    if kind in _PODS:
        task = foresight.world.tasks.get(key)
        if task is not None and task.job is not None:
            return task.job
    elif kind in _GROUPS:
        if key in jobs:
            return jobs[key]
    else:
        for group, name in foresight.names.items():
            if name == key and group in jobs and jobs[group].tasks:
                return jobs[group]
        if key in jobs:
            return jobs[key]
    raise StateError(f"{kind} {key}: has no pod group that waits or runs; strato job list shows what there is")


def _answer(foresight: Foresight, job: Job, draws: int) -> dict[str, Any]:
    from strato.clock import format_time

    name = foresight.names.get(job.key, job.key)
    if job.ready >= max(job.min_available, 1):
        return {"job": name, "queue": job.queue_name, "state": "started"}
    found = foresight.starts(draws, only=(job.key,)).get(job.key)
    if found is None:
        return {"job": name, "queue": job.queue_name, "state": "unknown", "reason": "it has no pods that wait"}
    interval = foresight.interval(found)
    answer: dict[str, Any] = {"job": name, "queue": job.queue_name, "state": "waits"}
    for field, seconds in zip(("start", "earliest", "latest"), interval, strict=True):
        known = math.isfinite(seconds)
        answer[f"{field}Seconds"] = round(seconds) if known else None
        answer[f"{field}Time"] = format_time(foresight.copy.now + seconds) if known else None
    missed = sum(math.isinf(one) for one in found.seconds)
    answer |= {"draws": len(found.seconds), "notSeenToStart": missed, "calibrated": foresight.calibration is not None}
    return answer | ({"reason": found.reason} if missed else {})


def _sentence(answer: dict[str, Any]) -> str:
    head = f"{answer['job']} in queue {answer['queue']}"
    if answer["state"] == "started":
        return f"{head} has started"
    if answer["state"] == "unknown":
        return f"{head}: {answer['reason']}"
    start, low, high = (_seconds(answer[f"{name}Seconds"]) for name in ("start", "earliest", "latest"))
    if math.isinf(start):
        return f"{head} is not foreseen to start: {answer.get('reason') or 'nothing that runs will make room for it'}"
    if high < 1.0:
        return f"{head} starts now"
    text = (
        f"{head} starts in about {duration(start)} (80 %: {duration(low)} to {duration(high)}), {answer['startTime']}"
    )
    return text.replace("in about now", "about now")


def _seconds(value: float | None) -> float:
    return math.inf if value is None else value
