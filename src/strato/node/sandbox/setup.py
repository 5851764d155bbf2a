"""`MachineSetup`: determines what this machine supports (network, users, GPUs, limits); the rest becomes warnings."""

from __future__ import annotations

import ipaddress
import logging
import os
import sys
import tempfile

from strato.node.sandbox.cgroups import CONTROLLERS, Cgroups
from strato.node.sandbox.gpudriver import driver, look
from strato.node.sandbox.gpupool import GpuOffer, GpuPool
from strato.node.sandbox.gpus import MEMORY, capacity, device_numbers, find, labels
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.network import PodAddresses, bridge_name, choose_block, routes_in_use
from strato.node.sandbox.permissions import plain_warning
from strato.node.sandbox.podusers import ANY_USER
from strato.node.sandbox.runtime import Runtime, RuntimeProblem
from strato.node.sandbox.settings import NO_EGRESS, NodeOffer, PodIsolation, PodNetwork

_log = logging.getLogger(__name__)


class MachineSetup:
    """Prepares the machine before the first pod; the runtime must be open."""

    def __init__(self, machine: Machine, runtime: Runtime, offer: NodeOffer, isolation: PodIsolation) -> None:
        self._machine = machine
        self._runtime = runtime
        self._offer = offer
        self._isolation = isolation
        self.events: list[tuple[str, str]] = []
        """Those of the warnings that the node's events tell too: reason and text."""
        self.warnings: list[str] = []
        """Texts about what is weaker than it could be, and why."""
        self.gpu_labels: dict[str, str] = {}

    async def run(self) -> None:
        """Determine all properties of the machine, and record what pods from before a restart have."""
        await self._set_up_network()
        await self._find_users()
        await self._find_gpus()
        for warning in self.warnings:
            _log.warning("%s", warning)
        self._machine.restore()

    async def _set_up_network(self) -> None:
        machine, directory = self._machine, self._machine.node_paths.data_dir
        if self._runtime.isolation == "plain":
            self.warnings.append(plain_warning())
        self._warn("LimitsNotEnforced", *_unenforced(machine.cgroups))
        if self._runtime.shows_machines_program and self._runtime.isolation != "plain":
            self.warnings.append(
                f"containers can get at {sys.executable} by /proc/self/exe: this machine runs no programs in memory "
                "(vm.memfd_noexec); make that file, and the directories above it, read-only or another user's"
            )
        if self._runtime.isolation != "root" or self._isolation.network is PodNetwork.HOST:
            return
        name = bridge_name(directory)
        note = os.path.join(directory, "network")
        block = _noted_block(note) or choose_block(directory, routes_in_use())
        addresses = PodAddresses(block)
        with open(note, "w") as file:
            file.write(str(block))
        try:
            await self._runtime.call("bridge", name=name, address=addresses.gateway, prefix=block.prefixlen)
        except RuntimeProblem as err:
            self.warnings.append(f"pods share the machine's network: {err}")
            return
        machine.addresses = addresses
        machine.bridge, machine.gateway, machine.prefix_length = name, addresses.gateway, block.prefixlen
        await self._set_up_egress(str(block))

    async def give_address(self, other: Machine, number: int) -> None:
        """Give another node of this machine its own address on the bridge, if there is a bridge.

        Args:
            other: The other node; it has joined this one.
            number: How many other nodes there are already. They have the last addresses of the pods' network.
        """
        machine = self._machine
        if not machine.bridge:
            return
        address = str(machine.addresses.network[-2 - number])
        machine.addresses.keep(f"node {other.node_name}", address)
        await self._runtime.call("bridge", name=machine.bridge, address=address, prefix=machine.prefix_length)
        other.host_ip = address

    async def _set_up_egress(self, network: str) -> None:
        machine, wanted = self._machine, self._isolation.network is PodNetwork.NAT
        try:
            answer = await self._runtime.call("egress", bridge=machine.bridge, network=network, wanted=wanted)
        except RuntimeProblem as err:
            answer = {"problem": str(err)}
        machine.egress_problem = answer["problem"] or ("" if wanted else "strato up --pod-network isolated")
        if answer["problem"]:
            text = f"pods reach one another and this machine, but nothing beyond it: {answer['problem']}"
            self._warn(NO_EGRESS, text)

    def _warn(self, reason: str, *texts: str) -> None:
        self.warnings += texts
        self.events += [(reason, text) for text in texts]

    async def _find_users(self) -> None:
        """Determine whether pods can have their own user namespaces by default; adds a warning if not."""
        machine = self._machine
        if not (self._isolation.own_users and self._runtime.isolation == "root" and machine.bridge):
            return
        with tempfile.TemporaryDirectory(prefix="users-", dir=machine.node_paths.data_dir) as trial:
            answer = await self._runtime.call("mapUsers", userBase=ANY_USER, paths=[], image=trial)
        machine.own_users = not answer["problem"]
        if machine.own_users:
            _log.info("pods have user namespaces of their own, but for those that ask for something of the machine's")
        else:
            self.warnings.append(f"root in a pod is root of this machine: {answer['problem']}")

    async def _find_gpus(self) -> None:
        machine, offer = self._machine, self._offer.gpus
        where = driver(self._offer.gpu_root)
        seen = await look(where.smi, self._offer.gpu_root)
        machine.has_gpus = bool(device_numbers(seen.devices))
        if offer is GpuOffer.NONE or not (machine.has_gpus or seen.driver):
            return
        found = find(seen)
        self.warnings += found.warnings
        if "nvidia-uvm" not in seen.devices and found.gpus:
            self.warnings.append("CUDA will not start in pods: /dev/nvidia-uvm is not there; sudo nvidia-modprobe -u")
        offered = capacity(found.gpus, shared=offer is GpuOffer.SHARED)
        if offered.get(MEMORY) == "0":
            self.warnings.append("GPUs are not shared: nobody says how much memory they have")
            return
        machine.gpus, machine.driver = GpuPool(found.gpus, offer), where
        machine.allocatable = machine.capacity = {**machine.capacity, **offered}
        self.gpu_labels = labels(found.gpus)


def _noted_block(note: str) -> ipaddress.IPv4Network | None:
    try:
        with open(note) as file:
            return ipaddress.IPv4Network(file.read().strip())
    except (OSError, ValueError):
        return None


_LIMITED = {"cpu": "CPU limits", "memory": "memory limits", "pids": "limits of processes"}


def _unenforced(cgroups: Cgroups) -> list[str]:
    """Return warnings about limits that this node cannot enforce, and what to do about it."""
    if not cgroups.enabled:
        return ["CPU and memory limits are not enforced: no control group can be written"]
    if not cgroups.missing:
        return []
    what = " and ".join(_LIMITED[name] for name in cgroups.missing)
    names = " and ".join(cgroups.missing)
    return [
        f"{what} are not enforced: {', '.join(cgroups.directories)} has no controller {names}; with systemd: "
        f"Delegate={' '.join(CONTROLLERS)} for the unit that this runs in"
    ]
