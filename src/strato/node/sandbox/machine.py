"""`Machine`: the properties and resources of this machine that all pods of the node share, and what each pod has."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping

from strato.api.amplification import CPU_INFO
from strato.api.core import Pod
from strato.client.cluster import Cluster
from strato.node.images.store import ImageStore
from strato.node.sandbox import capabilities, linux
from strato.node.sandbox.cgroups import Cgroups
from strato.node.sandbox.gpudriver import Driver
from strato.node.sandbox.gpupool import GpuPool
from strato.node.sandbox.network import PodAddresses, bridge_name, loopback_block, machine_address
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.podusers import UserBlocks
from strato.node.sandbox.runtime import Runtime
from strato.node.sandbox.settings import NodeOffer, PodIsolation

_MAX_PODS = "110"
_LONGEST_FILE = 1 << 14
"""Most characters read of ``/proc/cpuinfo``; the first processor is described at its beginning."""


class Machine:
    """See the module. `MachineSetup` determines the properties that have no value at first."""

    def __init__(
        self, cluster: Cluster, runtime: Runtime, node_paths: NodePaths, offer: NodeOffer, isolation: PodIsolation
    ) -> None:
        directory = node_paths.data_dir
        self.cluster = cluster
        self.runtime = runtime
        self.node_paths = node_paths
        self.images = ImageStore(directory)
        self.cgroups = Cgroups(bridge_name(directory), note=node_paths.cgroups)
        self.node_name = offer.name
        self.host_ip = machine_address()
        self.path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
        """``PATH`` of containers on the machine's own root: this Python's programs, then this process's PATH."""
        self.capacity = _capacity(_existing(directory), offer)
        self.allocatable: Mapping[str, str] = self.capacity
        """Amounts by which pods are admitted: the capacity, with the amplified cpu."""
        self.bridge = ""
        """Name of the pods' bridge; empty if pods share the machine's network."""
        self.gateway = ""
        self.prefix_length = 20
        self.egress_problem = ""
        """Why pods behind the bridge have no egress NAT; empty when they have it."""
        self.addresses = PodAddresses(loopback_block(directory))
        self.dns = ""
        """Address of the cluster's name server; empty if there is none that pods can reach."""
        self.service_variables: Callable[[Pod], dict[str, str]] = lambda _pod: {}
        """Returns the variables by which a pod's containers find services."""
        self.gpus = GpuPool()
        """The offered GPUs, and which pods have them."""
        self.has_gpus = False
        """Whether the machine has GPUs; then containers without any get NVIDIA_VISIBLE_DEVICES=void."""
        self.driver = Driver()
        self.dev = offer.gpu_root + "dev"
        """Directory of the device files."""
        self.users = UserBlocks(os.path.join(directory, "pods"))
        """The user id ranges of pods with their own user namespaces."""
        self.own_users = False
        """Whether pods without ``hostUsers`` get their own user namespace where possible."""
        self.held = capabilities.names_of(linux.held_capabilities())
        """Capabilities that the node can give to containers."""
        self.profiles = os.path.join(directory, "seccomp")
        """Directory of the seccomp profiles that pods may name."""
        self.hidden = sorted({os.path.realpath(path) for path in (directory, *isolation.hidden)})
        """Directories of the machine that are hidden from all containers on its root."""
        self.pressures: frozenset[str] = frozenset()
        """Pressure conditions that hold, in which new pods are refused."""
        self.image_policy = isolation.images
        self.substituted = 0
        """Number of containers that have run on the machine's root instead of their image."""

    @property
    def has_egress(self) -> bool:
        """Whether pods have egress NAT; without a bridge they need none."""
        return bool(self.bridge) and not self.egress_problem

    def restore(self) -> None:
        """Record what pods from before a restart have."""
        self.users.keep(self.node_paths.uids())
        for uid in self.node_paths.uids():
            place = self.node_paths.pod(uid)
            identity = place.identity()
            if identity.get("ip"):
                self.addresses.keep(uid, identity["ip"])
            self.gpus.keep(uid, place.gpus())

    def join(self, first: Machine) -> None:
        """Become a further node of a machine whose first node is set up; shares its pod files, network and users."""
        self.runtime, self.images, self.users = first.runtime, first.images, first.users
        self.cgroups = first.cgroups
        self.bridge, self.gateway, self.prefix_length = first.bridge, first.gateway, first.prefix_length
        self.egress_problem, self.addresses, self.dns = first.egress_problem, first.addresses, first.dns
        self.own_users, self.has_gpus = first.own_users, first.has_gpus

    def forget(self, uid: str) -> None:
        """Take back the resources of a pod whose processes are gone, and remove its files."""
        self.addresses.release(uid)
        self.gpus.release(uid)
        self.users.release(uid)
        self.node_paths.remove_pod(uid)


def _capacity(directory: str, offer: NodeOffer) -> dict[str, str]:
    pages, share = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), offer.share
    cpus = len(os.sched_getaffinity(0))
    return {
        "cpu": offer.cpus or (f"{cpus * 1000 // share}m" if cpus % share else str(cpus // share)),
        "memory": offer.memory or f"{pages // 1024 // share}Ki",
        "pods": _MAX_PODS,
        "ephemeral-storage": f"{shutil.disk_usage(directory).total // 1024 // share}Ki",
    }


def system_info() -> dict[str, str]:
    """Return the members of ``status.nodeInfo`` about the system."""
    return {
        "bootID": linux.boot_id(),
        "osImage": _os_name(),
        "kernelVersion": platform.release(),
        "machineID": _read("/etc/machine-id"),
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def cpu_info(root: str = "/") -> dict[str, str]:
    """Return the annotation about the machine's processor; empty if that cannot be determined.

    Args:
        root: Directory that has ``proc`` and ``sys``; anything but ``/`` is for tests.
    """
    lines = _read(f"{root}proc/cpuinfo").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    if not model:
        return {}
    devices = f"{root}sys/devices/system/cpu/"
    turbo = _read(f"{devices}intel_pstate/no_turbo") == "0" or _read(f"{devices}cpufreq/boost") == "1"
    info = {"cpuModel": model, "hyperThreadEnabled": _read(f"{devices}smt/active") == "1", "turboEnabled": turbo}
    return {CPU_INFO: json.dumps(info, separators=(",", ":"))}


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read(_LONGEST_FILE).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _existing(directory: str) -> str:
    """Return the nearest existing parent of a directory, which lies on the same disk."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory
