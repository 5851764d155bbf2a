"""`PodSandbox`: what a pod needs on this machine before its containers start: address, namespaces, files, volumes.

`PodSandbox.prepare` makes all of it, and may be repeated after a restart; `release` removes it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
from collections.abc import Set as AbstractSet

from strato.api.core import Container, EphemeralContainer, Pod, PodSpec
from strato.node import beneath
from strato.node.images.store import Image
from strato.node.predicates import PodRejection
from strato.node.sandbox.environment import ConfigProblem, command_line
from strato.node.sandbox.gpudriver import CONTROL_DEVICES
from strato.node.sandbox.gpupool import Grant, variables
from strato.node.sandbox.hosts import CLUSTER_DOMAIN, hostname_of
from strato.node.sandbox.imageconfig import stop_signal, user_of
from strato.node.sandbox.interpretermounts import interpreter_mounts
from strato.node.sandbox.logs import last_lines
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.network import veth_name
from strato.node.sandbox.podlimits import container_limits, inherits, pod_limits
from strato.node.sandbox.podusers import ANY_USER, needs_host_users
from strato.node.sandbox.podvolumes import PodVolumes
from strato.node.sandbox.pressure import rejection
from strato.node.sandbox.resolver import ClusterDns, DnsScope, resolv_conf
from strato.node.sandbox.runtime import ContainerLaunch
from strato.node.sandbox.security import IsolationLevel, decide, refusal, unsupported
from strato.node.sandbox.volumes import Mount, make_sub_path

MESSAGE_BYTES = 4096
"""Longest termination message."""
IMAGE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Default ``PATH`` of containers on an image, the same as with container runtimes."""


class PodSandbox:
    """One pod's share of the machine."""

    def __init__(self, machine: Machine, pod: Pod, ip: str) -> None:
        self._machine = machine
        self._pod = pod
        self.ip = ip
        self.place = machine.node_paths.pod(pod.metadata.uid)
        self.volumes = PodVolumes(machine, pod, ip)
        self._given = pod.spec
        """The pod's spec with the resources that the node has allocated to it."""
        self._user_base = 0
        """The user outside that is root in the pod's own user namespace; 0 when it has none."""

    @property
    def hostname(self) -> str:
        """The pod's host name, with its domain if the pod has ``setHostnameAsFQDN``."""
        return hostname_of(self._pod)

    def update(self, pod: Pod) -> None:
        """Take the present pod; containers that start later get its labels, annotations and images."""
        self._pod = pod
        self.volumes.update(pod)

    async def prepare(self, hosts: str, given: PodSpec) -> None:
        """Make everything that the containers need.

        Args:
            hosts: Content of the pod's ``/etc/hosts``.
            given: Its spec with the resources that the node has allocated to it.

        Raises:
            ConfigProblem: An object that the pod refers to is missing.
            RuntimeProblem: The machine refused an operation.
        """
        pod = self._pod
        if not self.place.identity():
            self.place.forget_logs()  # 'strato down --keep-pods' ended the pod
        meta = pod.metadata
        self.place.write_identity(meta.namespace, meta.name, self.ip, shares_network=not self._has_network)
        self._given = given
        self._machine.cgroups.create(meta.uid, pod_limits(given))
        names = self._machine.gpus.take(pod)
        if names:
            self.place.write_gpus(names)
        self.write_hosts(hosts)
        self._write("hostname", self.hostname + "\n")
        self._write("resolv.conf", resolv_conf(pod.spec, self._network_scope, self._cluster_dns))
        await self.volumes.make()
        if self._machine.runtime.isolation != "root":
            return
        if self.place.has_namespaces:
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
    def level(self) -> IsolationLevel:
        """What the machine allows its pods."""
        machine = self._machine
        own_network = bool(machine.bridge)
        return IsolationLevel(machine.runtime.isolation, os.geteuid(), os.getegid(), own_network, machine.held)

    @property
    def is_unknown(self) -> bool:
        """Whether the machine has no trace that the pod ran here before."""
        return not (self.place.identity() or self.place.begins_anew)

    def refusal(self) -> PodRejection | None:
        """Return why the pod cannot run on this machine, None when it can."""
        is_new = not self.place.identity()
        return (rejection(self._pod, self._machine.pressures) if is_new else None) or refusal(self._pod, self.level)

    async def _choose_users(self) -> int:
        """Return the first user of a block for the pod, 0 when it shares the machine's users."""
        uid, users = self._pod.metadata.uid, self._machine.users
        if self._pod.spec.host_users is not False and await self._shares_users():
            users.release(uid)
            return 0
        return users.give(uid)

    async def _shares_users(self) -> bool:
        machine = self._machine
        if not machine.own_users or not self._has_network or needs_host_users(self._pod):
            return True
        foreign = self.volumes.foreign
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
    def _cluster_dns(self) -> ClusterDns | None:
        server = self._machine.dns
        return ClusterDns(server, self._pod.metadata.namespace, CLUSTER_DOMAIN) if server else None

    @property
    def _veth(self) -> str:
        return veth_name(self._pod.metadata.uid, self._machine.bridge)

    def write_hosts(self, text: str) -> None:
        """Bring ``/etc/hosts`` up to date, in place: containers see the file itself."""
        if os.path.isdir(self.place.home):  # the files of a pod being removed may be gone already
            self._write("hosts", text)

    def _write(self, name: str, text: str) -> None:
        path = self.place.file(name)
        data = text.encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, data, 0)  # truncated afterwards, so that no reader sees an empty file
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)

    def unenforced_limits(self, container: Container) -> list[str]:
        """Return which limits of a launched container the kernel does not enforce."""
        return self._machine.cgroups.unenforced(
            f"{self._pod.metadata.uid}/{container.name}", container_limits(self._given, container)
        )

    def resize(self, container: Container) -> str:
        """Apply a running container's allocated resources; return why that is not possible, empty when it is done."""
        key = f"{self._pod.metadata.uid}/{container.name}"
        problem = self._machine.cgroups.update(key, container_limits(self._given, container))
        return f'attempting to set container "{container.name}" {problem}' if problem else ""

    def resize_pod(self, given: PodSpec) -> str:
        """Apply the allocated resources to the pod as a whole, and to containers whose limits are the pod's.

        A control group cannot have more than its parent. So call this both before and after its containers are resized:
        before for those that get more, after for those that get less.

        Returns:
            Why that is not possible, empty when it is done.
        """
        self._given = given
        groups, uid = self._machine.cgroups, self._pod.metadata.uid
        problem = groups.update(uid, pod_limits(given))
        for container in given.all_containers:
            if inherits(given, container):
                groups.update(f"{uid}/{container.name}", container_limits(given, container))
        return f"attempting to set pod {problem}" if problem else ""

    def machines_command(self, container: Container) -> str:
        """Return the program of a container's command if this machine has it, else empty.

        Raises:
            ConfigProblem: A reference cannot be resolved.
        """
        own = self.volumes.variables(container)
        argv = command_line(container, own, (), ())
        found = argv and shutil.which(argv[0], path=(self._variables_of_machine | own)["PATH"])
        return argv[0] if found else ""

    @property
    def _variables_of_machine(self) -> dict[str, str]:
        return {"PATH": self._machine.path, "HOSTNAME": self.hostname, "HOME": "/tmp"}

    def launch(self, container: Container, attempt: int, image: Image) -> ContainerLaunch:
        """Decide how a container is run on an image.

        Raises:
            ConfigProblem: A reference cannot be resolved, or the image cannot be used.
        """
        machine, pod = self._machine, self._pod
        own = self.volumes.variables(container)
        says = image.config
        argv = command_line(container, own, says.entrypoint, says.command)
        if not argv:
            raise ConfigProblem(f"container {container.name!r} names no command and image {container.image!r} has none")
        if image.root and machine.runtime.isolation == "plain":
            raise ConfigProblem(f"image {container.image!r} cannot be used: this machine allows no namespaces")
        if isinstance(container, EphemeralContainer) and (fields := unsupported(pod, container, self.level)):
            raise ConfigProblem(f"securityContext.{', '.join(fields)}: not possible on this node")
        security = decide(pod, container, self.level, machine.profiles, user_of(image))
        mounts = self._mounts(container, own, attempt)
        env = self._variables_of_machine | own
        if image.root:
            env = {"PATH": IMAGE_PATH, "HOSTNAME": self.hostname} | says.variables | own
        if image.is_host:
            taken = {mount.target for mount in mounts}
            mounts += interpreter_mounts(taken)
            mounts += self._shadow_mounts(taken)
        grant = machine.gpus.grant(pod, container)
        if machine.has_gpus:
            env = self._gpu_variables(grant, own_root=bool(image.root)) | env
        if grant.gpus and image.root:
            mounts += machine.driver.mounts()
        key = f"{pod.metadata.uid}/{container.name}"
        return ContainerLaunch(
            directory=self.place.attempt(container.name, attempt),
            log=self.place.log(container.name, attempt),
            argv=argv,
            env=env,
            hostname=self.hostname,
            working_dir=container.working_dir or says.working_dir or "/",
            base=image.root,
            mounts=mounts,
            namespaces=[
                path
                for path in (f"{self.place.namespaces}/{kind}" for kind in ("net", "ipc", "uts"))
                if machine.runtime.isolation == "root" and os.path.exists(path)
            ],
            cgroups=machine.cgroups.create(key, container_limits(self._given, container)),
            hide=machine.hidden,
            security=security,
            host_ipc=pod.spec.host_ipc,
            process_namespace=self._process_namespace,
            target_directory=self._target_directory(container),
            user_namespace=self.place.uts_namespace if self._user_base else "",
            user_base=self._user_base,
            devices=self._devices(grant),
            stdin=container.stdin,
            stdin_once=container.stdin_once,
            tty=container.tty,
            stop_signal=stop_signal(image),
        )

    @property
    def _process_namespace(self) -> str:
        spec = self._pod.spec
        if self._machine.runtime.isolation != "root":
            return ""
        return "host" if spec.host_pid else f"{self.place.namespaces}/pid" if spec.share_process_namespace else ""

    def _target_directory(self, container: Container) -> str:
        """Return the directory of the run whose process namespace an ephemeral container joins; empty for none.

        Raises:
            ConfigProblem: The target container does not run.
        """
        name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
        if not name or self._process_namespace or self._machine.runtime.isolation != "root":
            return ""
        directory = self.place.attempt(name, self.place.last_attempt(name))
        if not self.place.runs(directory):
            raise ConfigProblem(f'target container "{name}" is not running')
        return directory

    def _gpu_variables(self, grant: Grant, *, own_root: bool) -> dict[str, str]:
        """Return the GPU variables of a container; its own ``env`` overrides them, as with a kubelet."""
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
        """Free the pod's GPUs; call it when none of its containers runs any more."""
        self._machine.gpus.release(self._pod.metadata.uid)
        self.place.drop_gpus()

    def _mounts(self, container: Container, variables: dict[str, str], attempt: int) -> list[Mount]:
        mounts = self.volumes.mounts(container, variables)
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
        """Return the mount of a shadow file without passwords, which programs need that look up accounts."""
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
        """Return whether the kernel has killed a process of the container for its memory limit."""
        return self._machine.cgroups.oom_killed(f"{self._pod.metadata.uid}/{container}")

    def termination_message(self, container: Container, number: int, *, failed: bool) -> str:
        """Return what a container wrote to its termination message path, else, if its policy says so, the log's end.

        Args:
            container: The container.
            number: Number of its run.
            failed: Whether it ended with an error; only then the log is used.
        """
        path = self.place.attempt(container.name, number) + "/termination-log"
        text = beneath.read_regular(path, MESSAGE_BYTES).decode(errors="replace")
        if text or not failed or container.termination_message_policy != "FallbackToLogsOnError":
            return text
        return last_lines(self.place, container.name, number)

    async def release(self) -> None:
        """Free GPUs, namespaces and control groups, and remove the pod's files; logs stay until the pod is deleted."""
        self.give_back_gpus()
        if self._machine.runtime.isolation == "root":
            await self._machine.runtime.call(
                "removeNamespaces", directory=self.place.namespaces, veth=self._veth if self._has_network else ""
            )
        self._machine.cgroups.remove(self._pod.metadata.uid)
        for container in self._pod.spec.all_containers:
            number = self.place.last_attempt(container.name)
            if number >= 0:
                self.place.remove(self.place.attempt(container.name, number) + "/scratch")
        self.volumes.remove()
