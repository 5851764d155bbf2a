"""`MesosMaster`, the component: it serves its port from the start, and is the master while it holds the lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.client.leases import LeaderElector, LeaseTiming
from strato.client.namespaces import ensure_namespace
from strato.clock import Clock
from strato.errors import ApiError
from strato.http.listen import serve
from strato.http.plain import PlainService
from strato.interop.mesos.allocator import Allocator, AllocatorOptions
from strato.interop.mesos.books import Order
from strato.interop.mesos.cluster.edge import Edge
from strato.interop.mesos.cluster.nodes import Dimensions
from strato.interop.mesos.cluster.pods import PodSettings
from strato.interop.mesos.endpoints.certificate import CertificateFiles, FollowedCertificate
from strato.interop.mesos.endpoints.service import MasterEndpoints
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master.core import Master
from strato.interop.mesos.master.state import MasterIdentity, MasterOptions
from strato.interop.mesos.resourcetext import parse
from strato.seeding import child

_RELEASE_SECONDS = 2.0
_RETRY_SECONDS = 2.0
"""Interval of retries while the API server is not up yet."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MesosSettings:
    """How the master is reached, and how its tasks become pods."""

    host: str = "127.0.0.1"
    """Address to listen on; empty is every address of the machine."""
    port: int = 5050
    advertise: str = "127.0.0.1"
    """Host name or address at which frameworks and executors reach it."""
    name: str = "mesos"
    """Name of the master, as several may work in one cluster. Used as a label value and in names of objects."""
    namespace: str = "mesos"
    """Namespace of the tasks' pods and of the ConfigMaps with the master's state."""
    image: str = "busybox"
    """Image of tasks that name none."""
    scheduler_name: str = "volcano"
    dimensions: Dimensions = field(default_factory=Dimensions)
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Secrets by principal; if empty, requests are not authenticated."""
    tls: CertificateFiles | None = None
    """Certificate of the port; None serves plain HTTP."""

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "http" if self.tls is None else "https"


class MesosMaster:
    """A Mesos master whose agents are a cluster's nodes.

    Args:
        options: Mesos' own flags.
        lease: Settings of the lease; None for a single master, which leads at once.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        random: Random,
        *,
        settings: MesosSettings,
        options: MasterOptions,
        lease: LeaseTiming | None = None,
    ) -> None:
        self._cluster, self._informers, self._clock, self._random = cluster, informers, clock, random
        self._settings, self._options, self._lease = settings, options, lease
        self._endpoints = MasterEndpoints(settings.credentials)
        self._elector: LeaderElector | None = None
        self.port = settings.port
        """The bound port, after `run` has started also if the settings have 0."""
        self.serves = asyncio.Event()
        """Set once calls are answered, by this master or by redirects to the leader."""

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            PortInUse: The address is taken or not ours.
            OSError: The certificate cannot be used.
            LeadershipLost: Another master may lead now.
        """
        settings = self._settings
        await ensure_namespace(self._cluster, self._clock, settings.namespace, _RETRY_SECONDS)
        shown = None if settings.tls is None else FollowedCertificate(settings.tls, self._clock)
        context = None if shown is None else shown.context
        service = PlainService(self._endpoints.handle)
        server = await serve(service, settings.host, settings.port, tls=context, clock=self._clock)
        self.port = server.port
        _log.info("Mesos master: %s://%s:%d", settings.scheme, settings.advertise, self.port)
        following = None if shown is None else asyncio.create_task(shown.follow())
        try:
            if self._lease is None:
                await self._lead()
            else:
                await self._elect(self._lease)
        finally:
            if following is not None:
                following.cancel()
            await server.stop()

    async def _elect(self, timing: LeaseTiming) -> None:
        identity = f"{self._settings.advertise}:{self.port}_{self._uuid().hex[:8]}"
        elector = self._elector = LeaderElector(
            self._cluster, self._clock, self._random, name=f"{self._settings.name}-master",
            namespace=self._settings.namespace, identity=identity, timing=timing,
        )  # fmt: skip
        self._endpoints.find_leader = lambda: elector.leader.rpartition("_")[0]
        self.serves.set()
        await elector.run(self._lead)

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    async def _lead(self) -> None:
        """Run the master until cancelled."""
        settings, options = self._settings, self._options
        self._endpoints.leads = True
        identity = MasterIdentity(
            id=str(self._uuid()),
            hostname=settings.advertise,
            ip=settings.advertise if settings.advertise.replace(".", "").isdecimal() else "127.0.0.1",
            port=self.port,
            started_at=self._clock.now(),
            scheme=settings.scheme,
        )
        allocator = Allocator(_allocator_options(options), child(self._random))
        master = Master(identity, options, allocator, self._uuid)
        pods = PodSettings(
            settings.name,
            settings.namespace,
            settings.image,
            f"{settings.advertise}:{self.port}",
            settings.scheduler_name,
            settings.dimensions,
            has_tls=settings.tls is not None,
        )
        edge = Edge(self._cluster, self._informers, self._clock, master, pods)
        if self._lease is None:
            self._endpoints.find_leader = lambda: f"{settings.advertise}:{self.port}"
        try:
            await edge.recover()
            self._endpoints.serving = Serving(master, self._clock.now, edge.flush, edge.files, edge.wake.set)
            self.serves.set()
            _log.info("Mesos master leads: id=%s agents=%d", identity.id, len(master.state.agents))
            await edge.run()
        finally:
            self._endpoints.serving, self._endpoints.leads = None, False
            if self._elector is None or self._elector.is_leader:  # else the next leader owns the annotations
                with contextlib.suppress(TimeoutError, ApiError):
                    async with asyncio.timeout(_RELEASE_SECONDS):
                        await edge.release()


def _allocator_options(options: MasterOptions) -> AllocatorOptions:
    return AllocatorOptions(
        interval_seconds=options.allocation_interval_seconds,
        min_allocatable=tuple(parse(text).quantities() for text in options.min_allocatable_resources),
        filter_gpus=options.filter_gpu_resources,
        order=Order(excluded=options.fair_sharing_excluded),
    )
