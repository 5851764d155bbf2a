"""Startup, readiness and liveness probes of one container."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from strato.api.core import Container, HTTPGetAction, Probe
from strato.clock import Clock
from strato.http.fetch import exchange
from strato.http.headers import host_port
from strato.http.tls import client_context
from strato.node.podstatus import ContainerRecord
from strato.node.registration import KUBELET_VERSION
from strato.node.sandbox.grpchealth import is_serving
from strato.node.sandbox.runtime import ContainerRun, Runtime, RuntimeProblem

_USER_AGENT = f"kube-probe/{KUBELET_VERSION.removeprefix('v')}"


class Prober:
    """Runs a container's probes while it runs."""

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        run: ContainerRun,
        record: ContainerRecord,
        spec: Container,
        address: str,
        changed: Callable[[], None],
        event: Callable[[str, str, str], None],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._run = run
        self._record = record
        self._spec = spec
        self._address = address
        self._changed = changed
        self._event = event

    def first_verdict(self) -> tuple[bool, bool]:
        """Return whether the container counts as started, and whether as ready, before any probe has run."""
        started = self._spec.startup_probe is None
        return started, started and self._spec.readiness_probe is None

    async def run(self) -> Probe:
        """Probe until cancelled, or until the container has failed a probe and must end; return that probe."""
        spec = self._spec
        if spec.startup_probe is not None:
            if not await self._until_started(spec.startup_probe):
                return spec.startup_probe
            self._record.started = True
            self._record.ready = spec.readiness_probe is None
            self._changed()
        if spec.readiness_probe is None:
            return await self._watch_liveness(spec.liveness_probe)
        watching = asyncio.create_task(self._watch_readiness(spec.readiness_probe))
        try:
            return await self._watch_liveness(spec.liveness_probe)
        finally:
            watching.cancel()

    async def _until_started(self, probe: Probe) -> bool:
        await self._clock.sleep(probe.initial_delay_seconds)
        failures = 0
        while not await self._succeeds(probe):
            failures += 1
            self._event("Warning", "Unhealthy", "Startup probe failed")
            if failures >= probe.failure_threshold:
                return False
            await self._clock.sleep(probe.period_seconds)
        return True

    async def _watch_readiness(self, probe: Probe) -> None:
        await self._clock.sleep(probe.initial_delay_seconds)
        in_a_row, last = 0, False
        while True:
            verdict = await self._succeeds(probe)
            in_a_row = in_a_row + 1 if verdict == last else 1
            last = verdict
            needed = probe.success_threshold if verdict else probe.failure_threshold
            if in_a_row >= needed and self._record.ready != verdict:
                self._record.ready = verdict
                self._changed()
            if not verdict:
                self._event("Warning", "Unhealthy", "Readiness probe failed")
            await self._clock.sleep(probe.period_seconds)

    async def _watch_liveness(self, probe: Probe | None) -> Probe:
        if probe is None:
            await asyncio.get_running_loop().create_future()  # until cancelled
        assert probe is not None
        await self._clock.sleep(probe.initial_delay_seconds)
        failures = 0
        while failures < probe.failure_threshold:
            if await self._succeeds(probe):
                failures = 0
            else:
                failures += 1
                self._event("Warning", "Unhealthy", "Liveness probe failed")
            if failures < probe.failure_threshold:
                await self._clock.sleep(probe.period_seconds)
        return probe

    async def _succeeds(self, probe: Probe) -> bool:
        try:
            async with asyncio.timeout(probe.timeout_seconds + 1.0):
                if probe.exec is not None:
                    command = list(probe.exec.command)
                    return await self._runtime.exec(self._run, command, timeout_seconds=probe.timeout_seconds) == 0
                if probe.tcp_socket is not None:
                    host = probe.tcp_socket.host or self._address
                    _, writer = await asyncio.open_connection(host, port_number(self._spec, probe.tcp_socket.port))
                    writer.close()
                elif probe.http_get is not None:
                    return await answers(probe.http_get, self._address, self._spec)
                elif probe.grpc is not None:
                    call = probe.grpc
                    return await is_serving(self._address, call.port, call.service, user_agent=_USER_AGENT)
        except (OSError, ValueError, RuntimeProblem):
            return False
        return True


async def answers(get: HTTPGetAction, address: str, spec: Container) -> bool:
    """Send the HTTP request of a probe or hook; return whether the answer is a success.

    Certificates are not checked.

    Raises:
        OSError: There is no answer.
        ValueError: The request is invalid.
    """
    host = get.host or address
    port = port_number(spec, get.port)
    url = f"{get.scheme.lower()}://{host_port(host, port)}/{get.path.removeprefix('/')}"
    tls = client_context(insecure=True) if get.scheme == "HTTPS" else None
    headers = [("User-Agent", _USER_AGENT), *((header.name, header.value) for header in get.http_headers)]
    async with exchange(url, headers=headers, tls=tls) as answer:
        return 200 <= answer.status < 400


def port_number(spec: Container, port: int | str) -> int:
    """Return a port given by number or by the name of one of the container's."""
    if isinstance(port, int):
        return port
    named = [p.container_port for p in spec.ports if p.name == port]
    return named[0] if named else int(port) if port.isdigit() else 0
