"""What a pod needs on this machine before its containers start: address, namespaces, files, volumes.

`PodSandbox.prepare` makes it all, again after a restart without harm; `release` lets go of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import msgspec

from strato.api import catalog, quantity
from strato.api.core import ConfigMap, Container, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Volume
from strato.client.cluster import Cluster
from strato.errors import ApiError, MethodNotAllowed, NotFound
from strato.node import beneath
from strato.node.images import ImageStore, choose
from strato.node.sandbox import capabilities
from strato.node.sandbox.atomicwriter import write_payload
from strato.node.sandbox.cgroups import Cgroups, Limits
from strato.node.sandbox.environment import ConfigProblem, DownwardContext, References, command_line, environment
from strato.node.sandbox.gpudriver import CONTROL_DEVICES, Driver
from strato.node.sandbox.gpupool import GpuPool, Grant, variables
from strato.node.sandbox.hosts import hostname_of
from strato.node.sandbox.logs import last_lines
from strato.node.sandbox.network import veth_name
from strato.node.sandbox.ownership import set_ownership
from strato.node.sandbox.paths import NodePaths
from strato.node.sandbox.podusers import ANY_USER, UserBlocks, needs_host_users
from strato.node.sandbox.pressure import rejection
from strato.node.sandbox.resolver import DnsScope, resolv_conf
from strato.node.sandbox.rootfs import PRIVATE_DIRECTORIES
from strato.node.sandbox.runtime import Launch, Runtime
from strato.node.sandbox.security import Level, Refusal, decide, refusal
from strato.node.sandbox.volumes import (
    Inputs,
    Mount,
    check_host_path,
    make_empty_dir,
    make_sub_path,
    mounts_of,
    own_directory,
    payload,
    referenced_objects,
)

MESSAGE_BYTES = 4096
"""Of a termination message, at most."""
IMAGE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""``PATH`` of containers on an image, as of container runtimes."""
PROCESSES = max(4096, 512 * (os.cpu_count() or 1))
"""Processes and threads a container may have."""
_TOKEN_USE = 0.8
"""Share of a token's lifetime after which a pod gets a new one."""


class ImageMissing(ConfigProblem):
    """No root file system for a container; it waits with ErrImageNeverPull."""


@dataclass(slots=True)
class Machine:
    """What all pods of the node share."""

    cluster: Cluster
    runtime: Runtime
    node_paths: NodePaths
    images: ImageStore
    cgroups: Cgroups
    node_name: str
    host_ip: str
    path: str
    """``PATH`` of containers on the machine's own root."""
    allocatable: Mapping[str, str]
    bridge: str = ""
    """Empty: pods share the machine's network."""
    gateway: str = ""
    prefix_length: int = 20
    has_egress: bool = False
    """Whether pods behind the bridge reach what the machine reaches."""
    gpus: GpuPool = field(default_factory=GpuPool)
    """Its GPUs that are offered, and who has them."""
    has_gpus: bool = False
    """Whether it has any; containers that get none then see ``void``."""
    driver: Driver = field(default_factory=Driver)
    dev: str = "/dev"
    """Where its device files are."""
    users: UserBlocks = field(default_factory=lambda: UserBlocks(""))
    """The ranges of users that pods with user namespaces of their own have."""
    own_users: bool = False
    """Whether pods that do not say ``hostUsers`` have a user namespace of their own where they can."""
    held: frozenset[str] = capabilities.ALL
    """Capabilities that it can give to containers."""
    profiles: str = ""
    """Directory of the seccomp profiles that pods may name."""
    hidden: Sequence[str] = ()
    """Directories of the machine that no container on its root sees."""
    pressures: frozenset[str] = frozenset()
    """Conditions in which it takes no new pods."""
    strict_images: bool = False
    substituted: int = 0
    """Containers that ran on the machine's root instead of their image."""


def interpreter_mounts(taken: AbstractSet[str] = frozenset()) -> list[Mount]:
    """Return mounts that keep this Python visible on the machine's root where it lies below a private directory.

    ``PATH`` on the machine's root begins with this Python's programs, so a virtual environment in ``/tmp`` must not
    vanish behind the container's own ``/tmp``.
    """
    found: list[str] = []
    for path in dict.fromkeys((sys.prefix, sys.base_prefix, *_packages())):
        if not f"{path}/".startswith(tuple(f"{private}/" for private in PRIVATE_DIRECTORIES)):
            continue
        if _is_deep(path):
            found.append(path)
        else:
            found += [part for name in _OF_A_PREFIX if os.path.exists(part := os.path.join(path, name))]
    return [Mount(path, path, read_only=True, programs=True) for path in found if path not in taken]


_OF_A_PREFIX = ("bin", "lib", "lib64", "pyvenv.cfg")
"""What of an installation in somebody's home directory is Python's."""


def _packages() -> list[str]:
    """Return where this package lies, if that is a checkout."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return (
        [] if source.startswith((sys.prefix + os.sep, sys.base_prefix + os.sep)) else [os.path.join(source, "strato")]
    )


def _is_deep(path: str) -> bool:
    """Tell whether a directory is nobody's home, which holds more than Python."""
    parts = path.strip("/").split("/")
    return len(parts) > (2 if parts[0] == "home" else 1)


class PodSandbox:
    """One pod's share of the machine."""

    def __init__(self, machine: Machine, pod: Pod, ip: str) -> None:
        self._machine = machine
        self._pod = pod
        self.ip = ip
        self.place = machine.node_paths.pod(pod.metadata.uid)
        self._locations: dict[str, str] = {}
        self._payloads: frozenset[str] = frozenset()
        self._references = References()
        self._token_texts: dict[tuple[str, int], str] = {}
        self._tokens_until = 0.0
        self._user_base = 0
        """The user outside that is root in the pod's own user namespace; 0 when it has none."""

    @property
    def hostname(self) -> str:
        """The pod's host name, with its domain when the pod asks for that."""
        return hostname_of(self._pod)

    async def prepare(self, hosts: str) -> None:
        """Make everything the containers need.

        Args:
            hosts: Content of ``/etc/hosts``.

        Raises:
            ConfigProblem: Something the pod refers to is missing.
            RuntimeProblem: The machine refused something.
        """
        pod = self._pod
        if not self.place.identity():
            self.place.forget_logs()  # 'strato down --keep-pods' ended the pod
        self.place.write_identity(pod.metadata.namespace, pod.metadata.name, self.ip)
        names = self._machine.gpus.take(pod)
        if names:
            self.place.write_gpus(names)
        self.write_hosts(hosts)
        self._write("hostname", self.hostname + "\n")
        self._write("resolv.conf", resolv_conf(pod.spec, self._network_scope))
        self._references = await self._read_references()
        await self._make_volumes()
        if self._machine.runtime.isolation != "root":
            return
        if os.path.exists(self._owned):
            self._user_base = self._machine.users.given(pod.metadata.uid)
        else:
            self._user_base = await self._choose_users()
            security = pod.spec.security_context
            await self._machine.runtime.call(
                "pod",
                directory=self.place.namespaces,
                hostname=self.hostname,
                userBase=self._user_base,
                hostIPC=pod.spec.host_ipc,
                sharedProcesses=pod.spec.share_process_namespace and not pod.spec.host_pid,
                sysctls={sysctl.name: sysctl.value for sysctl in security.sysctls} if security is not None else {},
                network=self._has_network,
                veth=self._veth,
                bridge=self._machine.bridge,
                address=self.ip,
                prefix=self._machine.prefix_length,
                gateway=self._machine.gateway,
            )

    @property
    def level(self) -> Level:
        """What the machine allows its pods."""
        machine = self._machine
        own_network = bool(machine.bridge)
        return Level(machine.runtime.isolation, os.geteuid(), os.getegid(), own_network, machine.held)

    @property
    def is_unknown(self) -> bool:
        """Whether nothing on this machine tells that the pod was here."""
        return not (self.place.identity() or self.place.begins_anew)

    def refusal(self) -> Refusal | None:
        """Return why the pod cannot run on this machine, None when it can."""
        is_new = not self.place.identity()
        return (rejection(self._pod, self._machine.pressures) if is_new else None) or refusal(self._pod, self.level)

    @property
    def _owned(self) -> str:
        """File of a namespace that every pod has, and that its user namespace owns."""
        return f"{self.place.namespaces}/uts"

    async def _choose_users(self) -> int:
        """Return the first user of a block for the pod, 0 when it shares the machine's users."""
        uid, users = self._pod.metadata.uid, self._machine.users
        if self._pod.spec.host_users is not False and await self._shares_users():
            users.release(uid)
            return 0
        return users.give(uid)

    async def _shares_users(self) -> bool:
        machine, volumes = self._machine, self._pod.spec.volumes
        if not machine.own_users or not self._has_network or needs_host_users(self._pod):
            return True
        foreign = [
            self._locations[volume.name]
            for volume in volumes
            if volume.name not in self._payloads and self._locations[volume.name] != self.place.volume(volume.name)
        ]
        if not foreign:
            return False
        answer = await machine.runtime.call("mapUsers", userBase=ANY_USER, paths=foreign, image="")
        return bool(answer["unmapped"])

    @property
    def _has_network(self) -> bool:
        return bool(self._machine.bridge) and not self._pod.spec.host_network

    @property
    def _network_scope(self) -> DnsScope:
        if not self._has_network:
            return DnsScope.MACHINE
        return DnsScope.TRANSLATED if self._machine.has_egress else DnsScope.PODS

    @property
    def _veth(self) -> str:
        return veth_name(self._pod.metadata.uid, self._machine.bridge)

    def write_hosts(self, text: str) -> None:
        """Bring ``/etc/hosts`` up to date, in place: containers see the file itself."""
        if os.path.isdir(self.place.home):  # a pod that is going has no files any more
            self._write("hosts", text)

    def _write(self, name: str, text: str) -> None:
        path = self.place.file(name)
        data = text.encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, data, 0)  # never truncated first: a reader must not see an empty file
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)

    async def _read_references(self) -> References:
        config_maps, secrets = referenced_objects(self._pod)
        namespace, cluster = self._pod.metadata.namespace, self._machine.cluster
        return References(
            {name: await _get(cluster, ConfigMap, name, namespace) for name in sorted(config_maps)},
            {name: await _get(cluster, Secret, name, namespace) for name in sorted(secrets)},
        )

    def _downward(self) -> DownwardContext:
        machine = self._machine
        return DownwardContext(machine.node_name, machine.host_ip, self.ip, machine.allocatable)

    async def _make_volumes(self) -> None:
        pod, payloads = self._pod, set()
        self._token_texts = await self._tokens()
        inputs = Inputs(pod, self._references, self._downward(), self._token_texts)
        for volume in pod.spec.volumes:
            files = payload(volume, inputs)
            if files is None:
                self._locations[volume.name] = await self._locate(volume)
                continue
            directory = self.place.volume(volume.name)
            payloads.add(volume.name)
            self._locations[volume.name] = directory
            write_payload(directory, files, self._volume_group)
        self._payloads = frozenset(payloads)

    @property
    def has_payloads(self) -> bool:
        """Whether there are files that can change while the pod runs."""
        return bool(self._payloads)

    async def refresh(self, now: float) -> None:
        """Bring the files of configMap, secret, downwardAPI and projected volumes up to date.

        Containers that start later see the new values in their variables too, as with a kubelet.

        Args:
            now: Seconds on a clock that never goes back; tokens are asked for again when most of their time is over.

        Raises:
            ConfigProblem: Something the pod refers to has gone; the files stay as they are.
            ApiError: The server cannot be asked.
        """
        self._references = await self._read_references()
        if now >= self._tokens_until:
            self._token_texts = await self._tokens()
            lifetime = min((seconds for _, seconds in self._token_texts), default=0)
            self._tokens_until = now + _TOKEN_USE * lifetime
        inputs = Inputs(self._pod, self._references, self._downward(), self._token_texts)
        changed = {volume.name: payload(volume, inputs) for volume in self._pod.spec.volumes}
        for name, files in changed.items():
            if files is not None and os.path.isdir(self.place.home):
                write_payload(self.place.volume(name), files, self._volume_group)

    async def _locate(self, volume: Volume) -> str:
        if volume.host_path is not None:
            return check_host_path(volume.host_path)
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim
            return await self._claimed(claim.claim_name, read_only=claim.read_only)
        if volume.ephemeral is not None:
            return await self._claimed(f"{self._pod.metadata.name}-{volume.name}")
        if volume.empty_dir is None and (volume.csi is not None or volume.nfs is not None):
            raise ConfigProblem(f"volume {volume.name!r}: csi and nfs volumes cannot be mounted by this node")
        directory = self.place.volume(volume.name)
        if volume.empty_dir is not None and volume.empty_dir.medium == "Memory":
            directory = os.path.join(own_directory(self._memory_dir), volume.name)
        return make_empty_dir(directory, self._volume_group)

    @property
    def _memory_dir(self) -> str:
        return self._machine.node_paths.memory_dir(self._pod.metadata.uid)

    @property
    def _volume_group(self) -> int | None:
        """Group of the volumes' files; only root can give them one."""
        security = self._pod.spec.security_context
        if security is None or self._machine.runtime.isolation == "user" or os.geteuid() != 0:
            return None
        return security.fs_group

    async def _claimed(self, name: str, *, read_only: bool = False) -> str:
        cluster, namespace = self._machine.cluster, self._pod.metadata.namespace
        claim = await _get(cluster, PersistentVolumeClaim, name, namespace)
        if claim is None:
            raise ConfigProblem(f'persistentvolumeclaim "{name}" not found')
        if not claim.spec.volume_name:
            raise ConfigProblem(f'persistentvolumeclaim "{name}" is not bound to a volume yet')
        volume = await _get(cluster, PersistentVolume, claim.spec.volume_name, "")
        source = (volume.spec.host_path or volume.spec.local) if volume is not None else None
        if source is None:
            raise ConfigProblem(f"volume {claim.spec.volume_name!r} is no hostPath or local volume of this machine")
        path = check_host_path(source)
        security, group = self._pod.spec.security_context, self._volume_group
        runs = os.path.exists(self._owned)  # then the files are its own affair
        if volume.spec.local is not None and not (read_only or runs) and group is not None and security is not None:
            await asyncio.to_thread(set_ownership, path, group, security.fs_group_change_policy)
        return path

    async def _tokens(self) -> dict[tuple[str, int], str]:
        tokens: dict[tuple[str, int], str] = {}
        for volume in self._pod.spec.volumes:
            for part in volume.projected.sources if volume.projected is not None else ():
                wanted = part.service_account_token
                if wanted is not None:
                    text = await self._token(wanted.audience, wanted.expiration_seconds)
                    if text is not None:
                        tokens[wanted.audience, wanted.expiration_seconds] = text
        return tokens

    async def _token(self, audience: str, expiration_seconds: int) -> str | None:
        pod = self._pod
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid}
        spec: dict[str, Any] = {"expirationSeconds": expiration_seconds, "boundObjectRef": bound}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = pod.spec.service_account_name or "default"
        path = catalog.SERVICEACCOUNT.path(pod.metadata.namespace, account, "token")
        try:
            answer = await self._machine.cluster.raw("POST", path, body=msgspec.json.encode(body))
        except (NotFound, MethodNotAllowed):  # no such account, or a server without tokens: the file is left out
            return None
        except ApiError as err:
            raise ConfigProblem(f"service account token of {account!r}: {err}") from err
        return str(msgspec.json.decode(answer)["status"]["token"])

    def unenforced_limits(self, container: Container) -> list[str]:
        """Return which limits of a container that was launched the kernel does not hold it to."""
        return self._machine.cgroups.unenforced(f"{self._pod.metadata.uid}/{container.name}", _limits(container))

    def launch(self, container: Container, attempt: int) -> tuple[Launch, bool]:
        """Decide how a container is run; also whether its image was substituted.

        Raises:
            ConfigProblem: A reference cannot be followed.
            ImageMissing: There is nothing to run it on.
        """
        machine, pod = self._machine, self._pod
        own = environment(pod, container, self._references, self._downward())
        on_machine = {"PATH": machine.path, "HOSTNAME": self.hostname, "HOME": "/tmp"}
        env = on_machine | own
        argv = command_line(container, own, (), ())
        choice = choose(machine.images, container.image, argv[0] if argv else "", env, strict=machine.strict_images)
        if choice.image is None:
            raise ImageMissing(choice.problem)
        if not argv:
            raise ImageMissing(f"container {container.name!r} names no command and image {container.image!r} has none")
        if choice.image.root and machine.runtime.isolation == "plain":
            raise ConfigProblem(f"image {container.image!r} cannot be used: this machine allows no namespaces")
        security = decide(pod, container, self.level, machine.profiles)
        mounts = self._mounts(container, own, attempt)
        if choice.image.root:
            env = {"PATH": IMAGE_PATH, "HOSTNAME": self.hostname} | own
        if choice.image.is_host:
            taken = {mount.target for mount in mounts}
            mounts += interpreter_mounts(taken)
            mounts += self._shadow_mounts(taken)
        grant = machine.gpus.grant(pod, container)
        if machine.has_gpus:
            env = self._gpu_variables(grant, own_root=bool(choice.image.root)) | env
        if grant.gpus and choice.image.root:
            mounts += machine.driver.mounts()
        key = f"{pod.metadata.uid}/{container.name}"
        return Launch(
            directory=self.place.attempt(container.name, attempt),
            log=self.place.log(container.name, attempt),
            argv=argv,
            env=env,
            hostname=self.hostname,
            working_dir=container.working_dir or "/",
            base=choice.image.root,
            mounts=mounts,
            namespaces=[
                path
                for path in (f"{self.place.namespaces}/{kind}" for kind in ("net", "ipc", "uts"))
                if machine.runtime.isolation == "root" and os.path.exists(path)
            ],
            cgroups=machine.cgroups.create(key, _limits(container)),
            hide=machine.hidden,
            security=security,
            host_ipc=pod.spec.host_ipc,
            process_namespace=self._process_namespace,
            user_namespace=self._owned if self._user_base else "",
            user_base=self._user_base,
            devices=self._devices(grant),
        ), choice.substituted

    @property
    def _process_namespace(self) -> str:
        spec = self._pod.spec
        if self._machine.runtime.isolation != "root":
            return ""
        return "host" if spec.host_pid else f"{self.place.namespaces}/pid" if spec.share_process_namespace else ""

    def _gpu_variables(self, grant: Grant, *, own_root: bool) -> dict[str, str]:
        """Return the GPU variables of a container; its own ``env`` wins, as with a kubelet."""
        machine = self._machine
        found = variables(grant, machine.gpus.gpus, fenced=machine.runtime.isolation != "plain")
        folder = machine.driver.library_path(own_root=own_root) if grant.gpus else ""
        return found | ({"LD_LIBRARY_PATH": folder} if folder else {})

    def _devices(self, grant: Grant) -> list[str]:
        if not grant.gpus:
            return []
        names = (*(gpu.device for gpu in grant.gpus), *CONTROL_DEVICES)
        paths = [os.path.join(self._machine.dev, name) for name in names]
        return [path for path in paths if os.path.exists(path)]

    def give_back_gpus(self) -> None:
        """Let other pods have its GPUs: no container of it runs any more."""
        self._machine.gpus.release(self._pod.metadata.uid)
        self.place.drop_gpus()

    def _mounts(self, container: Container, variables: Mapping[str, str], attempt: int) -> list[Mount]:
        mounts = mounts_of(container, self._locations, variables, self._payloads)
        for mount in mounts:
            if mount.sub_path:
                make_sub_path(mount)
        taken = {mount.target for mount in mounts}
        message = self.place.attempt(container.name, attempt) + "/termination-log"
        os.makedirs(os.path.dirname(message), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(message)
        descriptor = os.open(message, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        os.fchmod(descriptor, 0o666)
        os.close(descriptor)
        own = [Mount(self.place.file(name), f"/etc/{name}") for name in ("hosts", "hostname", "resolv.conf")]
        own.append(Mount(message, container.termination_message_path or "/dev/termination-log"))
        return mounts + [mount for mount in own if mount.target not in taken]

    def _shadow_mounts(self, taken: AbstractSet[str]) -> list[Mount]:
        """Return the mount of a password file without passwords: programs that look up an account need one."""
        path = self.place.file("shadow")
        if self._machine.runtime.isolation == "plain" or "/etc/shadow" in taken:
            return []
        if not os.path.exists(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w") as file:
                file.writelines(f"{entry.pw_name}:*:::::::\n" for entry in pwd.getpwall())
        return [Mount(path, "/etc/shadow")]

    def last_attempt(self, container: str) -> int:
        """Return the newest run of a container on disk, -1 before the first."""
        return self.place.last_attempt(container)

    def attempt(self, container: str, number: int) -> str:
        """Return the directory of a run."""
        return self.place.attempt(container, number)

    def drop_attempt(self, container: str, number: int) -> None:
        """Forget an old run."""
        if number >= 0:
            self.place.drop_attempt(container, number)

    def oom_killed(self, container: str) -> bool:
        """Return whether the kernel killed something of it for lack of memory."""
        return self._machine.cgroups.oom_killed(f"{self._pod.metadata.uid}/{container}")

    def termination_message(self, container: Container, number: int, *, failed: bool) -> str:
        """Return what a container wrote to its termination message path; else, if it asks for that, the end of its log.

        Args:
            container: Which.
            number: Its run.
            failed: Whether it ended with an error: only then the log counts.
        """
        path = self.place.attempt(container.name, number) + "/termination-log"
        text = beneath.read_regular(path, MESSAGE_BYTES).decode(errors="replace")
        if text or not failed or container.termination_message_policy != "FallbackToLogsOnError":
            return text
        return last_lines(self.place, container.name, number)

    def note_substitution(self) -> None:
        """Count a container that runs on the machine's root instead of its image."""
        self._machine.substituted += 1

    async def release(self) -> None:
        """Let go of GPUs, namespaces, control groups and what the pod wrote; logs stay until the pod is deleted."""
        self.give_back_gpus()
        if self._machine.runtime.isolation == "root":
            await self._machine.runtime.call(
                "removeNamespaces", directory=self.place.namespaces, veth=self._veth if self._has_network else ""
            )
        self._machine.cgroups.remove(self._pod.metadata.uid)
        for container in (*self._pod.spec.init_containers, *self._pod.spec.containers):
            number = self.place.last_attempt(container.name)
            if number >= 0:
                self.place.remove(self.place.attempt(container.name, number) + "/scratch")
        self.place.remove(self._memory_dir)
        for volume in self._pod.spec.volumes:
            if volume.empty_dir is not None:
                self.place.remove(self.place.volume(volume.name))


def _limits(container: Container) -> Limits:
    limits, requests = container.resources.limits, container.resources.requests
    return Limits(
        cpu_millicores=quantity.milli(limits.get("cpu", 0)),
        cpu_request_millicores=quantity.milli(requests.get("cpu", limits.get("cpu", 0))),
        memory_bytes=quantity.value(limits.get("memory", 0)),
        processes=PROCESSES,
    )


async def _get(cluster: Cluster, view: type[Any], name: str, namespace: str) -> Any:
    try:
        return await cluster.get(view, name, namespace)
    except NotFound:
        return None
