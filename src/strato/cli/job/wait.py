"""Follow jobs until they end, with live progress in a terminal and one line per change elsewhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from random import Random, SystemRandom

import click

from strato.api import catalog
from strato.cli.verbs import VerbFailed
from strato.client.backoff import Backoff
from strato.client.cluster import Cluster, EventType, Json
from strato.clock import Clock, SystemClock
from strato.errors import Gone, TooManyRequests, Unavailable

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.2, 5.0
_EXPLAIN_SECONDS = 5.0
"""A job that has waited this long for resources gets a hint to `strato explain`."""
FINISHED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


async def wait_for_jobs(
    cluster: Cluster,
    namespace: str,
    names: Sequence[str],
    timeout_seconds: float | None,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
) -> dict[str, str]:
    """Return the last phase of each job once all have ended.

    Jobs are watched. A server that does not answer is asked again after a growing, jittered wait. Of a job that is
    still pending after some seconds a line says how to learn why.

    Args:
        cluster: Where the jobs are.
        namespace: Of all of them.
        names: At least one.
        timeout_seconds: None waits for ever.
        clock: Times the waits; the machine's when None.
        random: Jitter; the machine's when None.

    Raises:
        VerbFailed: A job was deleted, or the time is up; says what each job still waits for.
    """
    follower = _Follower(names)
    clock = clock or SystemClock()
    advice = asyncio.ensure_future(follower.advise(clock, namespace))
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
        left = ", ".join(f"{name} is {follower.phases.get(name, 'unknown')}" for name in follower.unfinished)
        raise VerbFailed(
            f"not finished after {timeout_seconds:g} s: {left}; ask 'strato explain job/NAME' why"
        ) from error
    finally:
        advice.cancel()
        follower.close()
    return {name: follower.phases[name] for name in names}


async def _follow(cluster: Cluster, namespace: str, follower: _Follower) -> bool:
    """List, then watch until done or the watch ends; return whether the watch brought anything."""
    moved = False
    try:
        page = await cluster.list(catalog.VCJOB, namespace, field_selector=follower.selector)
        follower.replace(page.items)
        if follower.done:
            return True
        async for batch in cluster.watch(
            catalog.VCJOB, namespace, field_selector=follower.selector, resource_version=page.resource_version
        ):
            moved = True
            for event in batch:
                if event.type is not EventType.BOOKMARK:
                    follower.observe(event.object, deleted=event.type is EventType.DELETED)
            if follower.done:
                break
    except (Gone, Unavailable, TooManyRequests):
        pass
    return moved


class _Follower:
    """Knows the phase of each awaited job and prints changes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._shown: dict[str, str] = {}
        self.phases: dict[str, str] = {}
        self._live = sys.stderr.isatty()

    @property
    def selector(self) -> str:
        """Narrows the watch when there is one job only."""
        return f"metadata.name={self._names[0]}" if len(self._names) == 1 else ""

    @property
    def unfinished(self) -> list[str]:
        return [name for name in self._names if self.phases.get(name) not in FINISHED]

    @property
    def done(self) -> bool:
        return not self.unfinished

    def replace(self, jobs: Sequence[Json]) -> None:
        by_name = {job["metadata"]["name"]: job for job in jobs}
        for name in self._names:
            if name not in by_name:
                raise VerbFailed(f"job {name} does not exist")
            self.observe(by_name[name], deleted=False)

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

    async def advise(self, clock: Clock, namespace: str) -> None:
        """Say once how to learn why a job waits."""
        await clock.sleep(_EXPLAIN_SECONDS)
        option = "" if namespace == "default" else f" -n {namespace}"
        for name in self.unfinished:
            if self.phases.get(name) == "Pending":
                begin = "\r\033[K" if self._live else ""
                click.echo(f"{begin}{name} still waits; 'strato explain job/{name}{option}' says why", err=True)
                if self._live and len(self._names) == 1:  # the line that was written over
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
    if phase in FINISHED:  # its counters are emptied with its pods
        return f"{job['metadata']['name']}: {phase}"
    counters = [f"{status[name]} {name}" for name in ("pending", "running", "succeeded", "failed") if status.get(name)]
    none = "no pods yet" if phase == "Pending" else "no pods"  # of a job that ends they may be gone already
    return f"{job['metadata']['name']}: {phase}, {', '.join(counters) or none} of {total}"
