"""Follow jobs until they end, with live progress in a terminal and one line per change elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random, SystemRandom

import click

from strato.api import catalog
from strato.cli.reasons.reading import report_on_job
from strato.cli.reasons.report import ReasonReport
from strato.cli.verbs import VerbFailed
from strato.client.backoff import Backoff
from strato.client.cluster import Cluster, EventType, Json
from strato.clock import Clock, SystemClock
from strato.errors import Forbidden, Gone, NotFound, TooManyRequests, Unavailable

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.2, 5.0
_EXPLAIN_SECONDS = 5.0
"""After this time, `_Follower.advise` prints why a job still waits."""
_LOOK_SECONDS = 2.0
"""Interval of listing again while a flow has not created a job yet: the flow may end without creating it."""
_MOST_REPORTED = 10
"""`_Follower.advise` explains at most so many jobs."""
_FLOW_ENDED = frozenset({"Succeed", "Failed", "Terminating"})
FINISHED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})

Why = Callable[[str], Awaitable[ReasonReport | None]]
"""Returns why a job is as it is, by its name."""


async def wait_until_completed(
    cluster: Cluster, namespace: str, names: Sequence[str], timeout_seconds: float | None
) -> None:
    """Wait until jobs have ended.

    Raises:
        VerbFailed: A job did not complete, with the reason; or as `wait_for_jobs`.
    """
    await cluster.list(catalog.VCJOB, namespace, limit=1)  # fails on a wrong address, where watching retries
    phases = await wait_for_jobs(cluster, namespace, names, timeout_seconds)
    bad = []
    for name, phase in phases.items():
        if phase != "Completed":
            report = await report_on_job(cluster, namespace, name)
            bad.append(f"{name} ended as {phase}" + (f": {_brief(report)}" if report is not None else ""))
    if bad:
        raise VerbFailed("; ".join(bad))


def _brief(report: ReasonReport) -> str:
    return report.summary + (f"; next: {report.hints[0]}" if report.hints else "")


async def wait_for_jobs(
    cluster: Cluster,
    namespace: str,
    names: Sequence[str],
    timeout_seconds: float | None,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
    why: Why | None = None,
) -> dict[str, str]:
    """Return the last phase of each job once all have ended.

    Jobs are watched, also those that a flow is still to make. A server that does not answer is asked again after a
    growing, jittered wait. Of a job that is still pending after some seconds a line says how to learn why.

    Args:
        cluster: Where the jobs are.
        namespace: Of all of them.
        names: At least one.
        timeout_seconds: None waits for ever.
        clock: Times the waits; the machine's when None.
        random: Jitter; the machine's when None.
        why: Says why a job is as it is; asks the cluster when None.

    Raises:
        VerbFailed: A job was deleted or will not be made, or the time is up; says what each job still waits for.
    """
    why = why or partial(report_on_job, cluster, namespace)
    follower = _Follower(names)
    clock = clock or SystemClock()
    advice = asyncio.ensure_future(follower.advise(clock, namespace, why))
    backoff = Backoff(random or SystemRandom(), initial_seconds=_FIRST_WAIT_SECONDS, max_seconds=_LONGEST_WAIT_SECONDS)
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                moved = await _follow(cluster, namespace, follower)
                if follower.done:
                    break
                if not moved:
                    await clock.sleep(backoff.next_delay(clock.monotonic()))
    except TimeoutError as error:
        left = [
            await _reported(name, follower.phases.get(name, "not made yet"), why)
            for name in follower.unfinished[:_MOST_REPORTED]
        ]
        more = len(follower.unfinished) - len(left)
        left += [f"{more} more"] if more else []
        name = follower.unfinished[0]
        raise VerbFailed(
            f"not finished after {timeout_seconds:g} s: {', '.join(left)}; ask '{_explain(name, namespace)}' why"
        ) from error
    finally:
        advice.cancel()
        follower.close()
    return {name: follower.phases[name] for name in names}


async def _reported(name: str, phase: str, why: Why) -> str:
    report = await why(name)
    return f"{name} is {phase}" + (f" ({report.summary})" if report is not None and report.code else "")


def _explain(name: str, namespace: str) -> str:
    return f"strato explain job/{name}" + ("" if namespace == "default" else f" -n {namespace}")


async def _follow(cluster: Cluster, namespace: str, follower: _Follower) -> bool:
    """List, then watch until all jobs have ended or the watch ends; return whether the server delivered anything."""
    moved = False
    try:
        page = await cluster.list(catalog.VCJOB, namespace, field_selector=follower.selector)
        missing = follower.replace(page.items)
        if follower.done:
            return True
        if missing:
            await _check_steps(cluster, namespace, missing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS if missing else None):
                async for batch in cluster.watch(
                    catalog.VCJOB, namespace, field_selector=follower.selector, resource_version=page.resource_version
                ):
                    moved = True
                    for event in batch:
                        if event.type is not EventType.BOOKMARK:
                            follower.observe(event.object, deleted=event.type is EventType.DELETED)
                    if follower.done:
                        break
            return moved
        return True
    except (Gone, Unavailable, TooManyRequests):
        return moved


async def _check_steps(cluster: Cluster, namespace: str, missing: Sequence[str]) -> None:
    """Check that a JobFlow is still going to create each missing job.

    Raises:
        VerbFailed: A job will not be created.
    """
    try:
        flows = (await cluster.list(catalog.JOBFLOW, namespace)).items
    except (NotFound, Forbidden):
        flows = []
    for name in missing:
        of = [flow for flow in flows for step in flow["spec"].get("flows") or () if name == _job_of(flow, step)]
        if not of:
            raise VerbFailed(f"job {name} does not exist")
        phase = ((of[0].get("status") or {}).get("state") or {}).get("phase", "")
        if phase in _FLOW_ENDED:
            flow = of[0]["metadata"]["name"]
            raise VerbFailed(f"job {name} does not exist: its flow is {phase}; ask 'strato explain jobflow/{flow}' why")


def _job_of(flow: Json, step: Json) -> str:
    return f"{flow['metadata']['name']}-{step['name']}"


class _Follower:
    """Knows the phase of each awaited job and prints changes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._shown: dict[str, str] = {}
        self.phases: dict[str, str] = {}
        self._live = sys.stderr.isatty()

    @property
    def selector(self) -> str:
        """Field selector that narrows the watch if there is one job only."""
        return f"metadata.name={self._names[0]}" if len(self._names) == 1 else ""

    @property
    def unfinished(self) -> list[str]:
        return [name for name in self._names if self.phases.get(name) not in FINISHED]

    @property
    def done(self) -> bool:
        return not self.unfinished

    def replace(self, jobs: Sequence[Json]) -> list[str]:
        """Observe the listed jobs; return the names of awaited jobs that are missing."""
        for job in jobs:
            self.observe(job, deleted=False)
        return sorted({*self._names} - {job["metadata"]["name"] for job in jobs})

    def observe(self, job: Json, *, deleted: bool) -> None:
        name = job["metadata"]["name"]
        if name not in self._names:
            return
        if deleted:
            raise VerbFailed(f"job {name} was deleted while it was waited for")
        status = job.get("status", {})
        self.phases[name] = status.get("state", {}).get("phase", "Pending")
        line = progress_line(job)
        if self._shown.get(name) != line:
            self._shown[name] = line
            self._print(line)

    async def advise(self, clock: Clock, namespace: str, why: Why) -> None:
        """Print, once, why jobs wait or cannot go on, and the command that explains more."""
        await clock.sleep(_EXPLAIN_SECONDS)
        for name in self.unfinished[:_MOST_REPORTED]:
            report = await why(name)
            waits = self.phases.get(name) == "Pending"
            if name not in self.unfinished or not (waits or (report is not None and report.code)):
                continue
            begin = "\r\033[K" if self._live else ""
            reason = f": {_brief(report)}" if report is not None and report.code else ""
            more = "more" if reason else "why"
            word = "still waits" if waits else "does not go on"
            click.echo(f"{begin}{name} {word}{reason}; '{_explain(name, namespace)}' says {more}", err=True)
            if self._live and len(self._names) == 1:  # print again the progress line that this overwrote
                self._print(self._shown[name])

    def _print(self, line: str) -> None:
        if self._live and len(self._names) == 1:
            click.echo(f"\r\033[K{line}", err=True, nl=False)
        else:
            click.echo(line, err=True)

    def close(self) -> None:
        if self._live and len(self._names) == 1 and self._shown:
            click.echo("", err=True)


def progress_line(job: Json) -> str:
    """Return one line on how far a job is."""
    status = job.get("status", {})
    total = sum(task.get("replicas", 0) for task in job.get("spec", {}).get("tasks", ()))
    phase = status.get("state", {}).get("phase", "Pending")
    if phase in FINISHED:  # the controller resets the counters when pods are deleted
        return f"{job['metadata']['name']}: {phase}"
    counters = [f"{status[name]} {name}" for name in ("pending", "running", "succeeded", "failed") if status.get(name)]
    none = "no pods yet" if phase == "Pending" else "no pods"  # a job that is ending may have had pods
    return f"{job['metadata']['name']}: {phase}, {', '.join(counters) or none} of {total}"
