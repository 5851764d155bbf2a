"""Which pods get their own user namespace, and the range of the machine's user ids to which it is mapped.

A pod gets one unless it asks for something that needs the machine's users, such as the machine's network. If the kernel
or a file system does not support it, the pod runs with the machine's users; with ``hostUsers: false`` it fails instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from strato.api.core import Container, Pod
from strato.node.sandbox import capabilities
from strato.node.sandbox.container import USERS_OF_A_POD
from strato.node.sandbox.gpus import RESOURCES

ANY_USER = USERS_OF_A_POD
"""First user of a block that is used only for tests of the kernel's abilities."""
_FIRST, _COUNT = 8192, 24576
"""Blocks from 536,870,912 on, above what people, services and ``/etc/subuid`` use, below 2**31."""
_NOTE = "users"
_GRANTED = capabilities.DEFAULT | {"DAC_READ_SEARCH", "IPC_OWNER", "NET_ADMIN", "NET_BROADCAST", "SYS_PTRACE"}
"""Capabilities that give as much in a user namespace that owns the pod's network and IPC as outside of it."""


class UserBlocks:
    """Gives each pod a block of `USERS_OF_A_POD` user and group ids, noted in the pod's directory."""

    def __init__(self, pods: str) -> None:
        self._pods = pods
        self._given: dict[str, int] = {}
        self._newest = _FIRST - 1

    def keep(self, uids: Iterable[str]) -> None:
        """Read the blocks that these pods got before this process started."""
        for uid in uids:
            with contextlib.suppress(OSError, ValueError), open(self._note(uid)) as file:
                self._given[uid] = int(file.read())

    def given(self, uid: str) -> int:
        """Return the first user of a pod's block, 0 when it has none."""
        return self._given.get(uid, 0)

    def give(self, uid: str) -> int:
        """Return the first user of a pod's block, which it gets now unless it has one."""
        if uid not in self._given:
            used = {first // USERS_OF_A_POD for first in self._given.values()}
            numbers = (_FIRST + (self._newest + step - _FIRST) % _COUNT for step in range(1, _COUNT + 1))
            # after the newest one: reuses a block as late as possible
            self._newest = number = next(n for n in numbers if n not in used)
            self._given[uid] = number * USERS_OF_A_POD
            with open(self._note(uid), "w") as file:
                file.write(str(self._given[uid]))
        return self._given[uid]

    def release(self, uid: str) -> None:
        """Free a pod's block."""
        if self._given.pop(uid, None) is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._note(uid))

    def _note(self, uid: str) -> str:
        return os.path.join(self._pods, uid, _NOTE)


def needs_host_users(pod: Pod) -> str:
    """Return which member of a pod's spec needs the machine's users, empty when it can have its own. Pure."""
    return next(_needs(pod), "")


def _needs(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    if spec.host_users:
        yield "hostUsers"
    for name, shared in (("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)):
        if shared:
            yield name
    for volume in spec.volumes:
        if volume.host_path is not None:
            yield "hostPath"
    security = spec.security_context
    if security is not None:
        ids = (security.run_as_user, security.run_as_group, security.fs_group, *security.supplemental_groups)
        yield from _beyond(*ids)
    for container in (*spec.init_containers, *spec.containers):
        yield from _needs_of_container(container)


def _needs_of_container(container: Container) -> Iterator[str]:
    if not {*RESOURCES}.isdisjoint((*container.resources.limits, *container.resources.requests)):
        yield "devices"
    security = container.security_context
    if security is None:
        return
    if security.privileged:
        yield "privileged"
    yield from _beyond(security.run_as_user, security.run_as_group)
    if security.capabilities is not None:
        for name in security.capabilities.add:
            if name.upper().removeprefix("CAP_") not in _GRANTED:
                yield f"capability {name}"


def _beyond(*ids: int | None) -> Iterator[str]:
    """Yield the ids that are too large for a block."""
    for number in ids:
        if number is not None and number >= USERS_OF_A_POD:
            yield f"user or group {number}"
