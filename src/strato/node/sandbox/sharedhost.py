"""`SharedHost`: what several nodes on one machine share: helper process, images, network, services, files of pods.

Mostly a machine is one node. `SandboxNode.neighbour` makes further nodes, whose pods use the same kernel, bridge and
name server; each has its own name, offer, address, lease and conditions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sized

from strato.node.sandbox.clusterservices import NodeServiceAccess
from strato.node.sandbox.imagemanager import ImageManager
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.runtime import Runtime
from strato.node.sandbox.setup import MachineSetup


class SharedHost:
    """See the module.

    Args:
        runtime: Runtime with the helper process.
        machine: The machine of the first node.
        setup: Prepares that machine.
        images: Pulls images for all nodes.
        services: Connects the pods of all nodes to services.
    """

    def __init__(
        self,
        runtime: Runtime,
        machine: Machine,
        setup: MachineSetup,
        images: ImageManager,
        services: NodeServiceAccess,
    ) -> None:
        self.runtime = runtime
        self.images = images
        self._machine = machine
        self._setup = setup
        self._services = services
        self._others: list[Machine] = []
        self._workers: list[Sized] = []
        self.is_ready = asyncio.Event()
        """Set when the machine is prepared, so that pods of every node can run."""

    @property
    def pods(self) -> int:
        """Number of pods on all its nodes."""
        return sum(map(len, self._workers))

    def count(self, workers: Sized) -> None:
        """Include a node's pods in the count."""
        self._workers.append(workers)

    def add(self, other: Machine) -> None:
        """Add a further node; call it before `open`."""
        self._others.append(other)
        self._services.add_neighbour(other.node_name)

    async def open(self) -> None:
        """Start the helper and prepare the machine.

        Raises:
            RuntimeProblem: The helper does not start.
        """
        pods = os.path.join(self._machine.node_paths.data_dir, "pods")
        os.makedirs(pods, exist_ok=True)
        os.chmod(pods, 0o700)  # it contains mounted Secrets
        await self.runtime.open()
        await self._setup.run()
        for number, other in enumerate(self._others):
            other.join(self._machine)
            await self._setup.give_address(other, number)
            self._services.place_neighbour(other)

    async def serve(self) -> Callable[[], Coroutine[None, None, None]] | None:
        """Open the services; return the coroutine function that keeps them current until it is cancelled."""
        keep = await self._services.start()
        if self._services.problem:
            self._setup.warnings.append(self._services.problem)
        for other in self._others:
            other.dns = self._machine.dns
        self.is_ready.set()
        return keep
