"""Probes: whether a job that has not completed is ready for the steps after it.

Volcano accepts probes and ignores them. Here a target with a probe need not be completed: it suffices that enough
pods of the named task (``minAvailable``, else all) are in a phase, accept a connection or answer a request. An entry
applies to the targets that have its task, and to all targets when it names no task. A target to which no entry applies
must complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from strato.api.core import Pod
from strato.api.volcano.batch import Job, TaskSpec
from strato.api.volcano.flow import FlowProbe, HttpGetProbe, TaskStatusProbe, TcpSocketProbe
from strato.http.fetch import exchange
from strato.http.headers import host_port

PROBE_TIMEOUT_SECONDS = 1.0
"""How long a pod may take to answer."""

PROBE_PERIOD_SECONDS = 2.0
"""Seconds between two checks of a network probe."""

_PASSED: dict[str, tuple[str, ...]] = {
    "Running": ("Running", "Succeeded"),
    "Pending": ("Pending", "Running", "Succeeded"),
}
"""Phases that satisfy a wanted phase: a pod in a later phase has been in the wanted one."""


Entry = TaskStatusProbe | TcpSocketProbe | HttpGetProbe


class NetworkProber:
    """Checks a pod over the network."""

    async def connects(self, host: str, port: int) -> bool:
        """Return whether the pod accepts a TCP connection."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                _, writer = await asyncio.open_connection(host, port)
        except OSError:
            return False
        writer.close()
        return True

    async def answers(self, host: str, port: int, path: str, header: tuple[str, str] | None) -> bool:
        """Return whether the pod answers a GET with a status from 200 to 399."""
        url = f"http://{host_port(host, port)}/{path.removeprefix('/')}"
        headers = [("User-Agent", "strato-probe"), *((header,) if header is not None else ())]
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS), exchange(url, headers=headers) as answer:
                return 200 <= answer.status < 400
        except (OSError, ValueError):
            return False


@dataclass(frozen=True, slots=True)
class Target:
    """A job that a later step waits for, and how to find its pods."""

    job: Job
    pods_of: Callable[[TaskSpec], Sequence[Pod]]


async def is_ready(target: Target, probe: FlowProbe, prober: NetworkProber) -> bool:
    """Return whether at least one entry applies to the target and all that do hold."""
    asked = False
    of_pods = [entry for entry in probe.http_get_list if not entry.service_name]
    entries: list[Entry] = [*probe.task_status_list, *probe.tcp_socket_list, *of_pods]
    for entry in entries:
        for task in target.job.spec.tasks:
            if entry.task_name not in ("", task.name):
                continue
            asked = True
            if not await _holds(target, task, entry, prober):
                return False
    return asked


async def _holds(target: Target, task: TaskSpec, entry: Entry, prober: NetworkProber) -> bool:
    needed = task.replicas if task.min_available is None else task.min_available
    if isinstance(entry, TaskStatusProbe):
        state = target.job.status.task_status_count.get(task.name)
        counts = state.phase if state is not None else {}
        return sum(counts.get(phase, 0) for phase in _PASSED.get(entry.phase, (entry.phase,))) >= needed
    running = [pod for pod in target.pods_of(task) if pod.status.phase == "Running" and pod.status.pod_ip]
    if len(running) < needed:
        return False
    answers = await asyncio.gather(*(_ask(entry, prober)(pod) for pod in running))
    return sum(answers) >= needed


def _ask(entry: TcpSocketProbe | HttpGetProbe, prober: NetworkProber) -> Callable[[Pod], Awaitable[bool]]:
    def ask(pod: Pod) -> Awaitable[bool]:
        if isinstance(entry, TcpSocketProbe):
            return prober.connects(pod.status.pod_ip, entry.port)
        return prober.answers(pod.status.pod_ip, entry.port, entry.path, header_of(entry))

    return ask


def header_of(entry: HttpGetProbe) -> tuple[str, str] | None:
    """Return the header that an entry adds to its request, None without one."""
    header = entry.http_header
    return (header.name, header.value) if header is not None and header.name else None
