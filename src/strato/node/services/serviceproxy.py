"""`ServiceProxy`: starts the data plane process, sends it services and host ports, and restarts it when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import sys
from collections.abc import Callable, Iterable, Mapping

import msgspec

from strato.api.core import Pod, Service
from strato.api.discovery import EndpointSlice
from strato.api.meta import Key
from strato.client.informer import Change, Informer
from strato.clock import Clock
from strato.decoding import UNDECODABLE
from strato.errors import one_line
from strato.node.services.records import (
    DataPlaneReport,
    DataPlaneSettings,
    ServiceRecord,
    Update,
    host_ports_of,
    record_of,
)

SERVICE_NAME = "kubernetes.io/service-name"
_INDEX = "service proxy"
_RESTART_SECONDS = 1.0
_START_SECONDS = 30.0
_END_SECONDS = 5.0
_MAX_REPORT_BYTES = 64 << 10

_log = logging.getLogger(__name__)

OnProblem = Callable[[Service | Pod, str], None]

Subject = tuple[bool, Key]
"""Whether it is a pod, and which service or pod."""


class ServiceProxy:
    """See the module.

    Args:
        nodes: The machine's nodes by name, with the address at which the host ports of their pods are opened. It is
            empty for the first node, whose host ports are opened at all addresses.
        clock: Times the restarts.
        on_problem: Called with a service or pod some of whose ports cannot be opened.
        on_refused: Called with a pod's address and a name that it asked for beyond what pods reach here.
    """

    def __init__(
        self,
        nodes: Mapping[str, str],
        services: Informer[Service],
        slices: Informer[EndpointSlice],
        pods: Informer[Pod],
        clock: Clock,
        on_problem: OnProblem,
        on_refused: Callable[[str, str], None],
    ) -> None:
        self._nodes, self._services, self._slices, self._pods, self._clock = nodes, services, slices, pods, clock
        self._on_problem, self._on_refused = on_problem, on_refused
        self._process: asyncio.subprocess.Process | None = None
        self._settings: DataPlaneSettings | None = None
        self._shares_network = False
        self._dirty: set[Subject] = set()
        self._changed = asyncio.Event()
        self._reported: dict[Subject, str] = {}
        self._with_host_ports: set[Key] = set()
        """Pods whose host ports were sent to the process."""
        slices.add_index(_INDEX, _services_of)
        services.add_handler(self._on_service)
        slices.add_handler(self._on_slice)
        pods.add_handler(self._on_pod)

    async def start(self, settings: DataPlaneSettings) -> DataPlaneReport:
        """Start the process and return its report on the settings."""
        self._settings = settings
        self._shares_network = ipaddress.IPv4Network(settings.pods).is_loopback
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "strato.node.services.dataplane"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_REPORT_BYTES,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._send(Update(settings=settings))
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = await process.stdout.readline()
            report = msgspec.json.decode(line, type=DataPlaneReport)
        except (*UNDECODABLE, TimeoutError) as error:
            await self.close()
            return DataPlaneReport(problem=f"the process of services does not start: {one_line(error)}")
        if report.problem:
            _log.warning("%s", report.problem)
        return report

    async def run(self) -> None:
        """Send changes to the process until cancelled."""
        try:
            while True:
                await self._feed()
                _log.warning("the process of services has ended and is started again: nodes=%s", ",".join(self._nodes))
                await self._clock.sleep(_RESTART_SECONDS)
                assert self._settings is not None
                await self.start(self._settings)
                self._dirty.update((False, service.key) for service in self._services.list())
                self._dirty.update((True, key) for key in self._with_host_ports)
                self._changed.set()
        finally:
            await self.close()

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    async def _feed(self) -> None:
        """Send changes until the process ends."""
        listening = asyncio.ensure_future(self._listen())
        try:
            while not listening.done():
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({changed, listening}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._changed.clear()
                dirty, self._dirty = self._dirty, set()
                updates = [self._update_of(subject) for subject in sorted(dirty)]
                for update in sorted(
                    updates, key=lambda update: update.service is not None
                ):  # removed pods first, because they free their ports for others
                    self._send(update)
                    await self._drain()
        finally:
            listening.cancel()

    def _update_of(self, subject: Subject) -> Update:
        is_pod, key = subject
        text = f"{key.namespace}/{key.name}"
        if is_pod:
            pod = self._pods.get(key)
            record = self._host_ports_of(pod) if pod is not None else None
            if record is None:
                self._with_host_ports.discard(key)
            return Update(key=text, is_pod=True, service=record)
        service = self._services.get(key)
        if service is None:
            return Update(key=text)
        return Update(key=text, service=record_of(service, self._slices.index(_INDEX, text), self._nodes))

    def _host_ports_of(self, pod: Pod) -> ServiceRecord | None:
        address = self._nodes.get(pod.spec.node_name)
        if address is None:
            return None  # a pod on a node of another machine
        return host_ports_of(pod, shares_network=self._shares_network, node_address=address)

    def _send(self, update: Update) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(msgspec.json.encode(update) + b"\n")

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):  # the process has ended, which `_feed` notices
            if self._process is not None and self._process.stdin is not None:
                await self._process.stdin.drain()

    async def _listen(self) -> None:
        """Handle reports until the process ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            report = msgspec.json.decode(line, type=DataPlaneReport)
            if report.client:
                self._on_refused(report.client, report.name)
                continue
            namespace, _, name = report.key.partition("/")
            key = Key(namespace, name)
            found = self._pods.get(key) if report.is_pod else self._services.get(key)
            if found is not None and self._reported.get((report.is_pod, key)) != report.problem:
                self._reported[report.is_pod, key] = report.problem
                self._on_problem(found, report.problem)

    def _on_service(self, change: Change[Service]) -> None:
        if change.new is None:
            self._reported.pop((False, change.key), None)
        self._mark((False, change.key))

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is not None and pod.spec.node_name in self._nodes and self._host_ports_of(pod):
            self._with_host_ports.add(change.key)
        elif change.key not in self._with_host_ports:
            return
        if pod is None:
            self._reported.pop((True, change.key), None)
        self._mark((True, change.key))

    def _on_slice(self, change: Change[EndpointSlice]) -> None:
        for one in (change.old, change.new):
            for text in () if one is None else _services_of(one):
                namespace, _, name = text.partition("/")
                self._mark((False, Key(namespace, name)))

    def _mark(self, subject: Subject) -> None:
        self._dirty.add(subject)
        self._changed.set()


def _services_of(one: EndpointSlice) -> Iterable[str]:
    name = one.metadata.label(SERVICE_NAME)
    if name:
        yield f"{one.metadata.namespace}/{name}"
