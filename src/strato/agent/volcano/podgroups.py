"""Write decisions about pods into their control groups, if the kernel has the file and its content differs."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from strato.agent.containers import ContainerFacts
from strato.agent.sampling.groupfiles import read_quota
from strato.agent.sampling.layouts import CgroupLayout, ControlGroup
from strato.agent.sampling.weights import give_way, gives_way, read_weight, take_part
from strato.agent.volcano.levels import normalised
from strato.agent.volcano.podresources import POD, GroupFile
from strato.errors import one_line
from strato.kernelstats import cpu_shares, cpu_weight, read_text

_log = logging.getLogger(__name__)

_QUOTAS: Final = frozenset(("cpu.cfs_quota_us", "cpu.max"))
_WEIGHTS: Final = frozenset(("cpu.shares", "cpu.weight"))
_UNSIGNED: Final = 1 << 32
_MOST_GROUPS: Final = 1000
"""Most groups that are visited below one pod, as containers may create their own."""


class PodGroups:
    """The control groups of one node's pods.

    Args:
        layout: Finds the groups.
        is_held: Returns, by a container's key, whether the quota writer owns its quota at present.
    """

    def __init__(self, layout: CgroupLayout, is_held: Callable[[str], bool]) -> None:
        self._layout = layout
        self._is_held = is_held
        self._weights: dict[str, int] = {}
        """Former weights of groups that were made idle, by directory."""

    @property
    def is_unified(self) -> bool:
        """Whether control groups are of version 2."""
        group = self._layout.all_pods()
        return group is not None and group.is_unified

    def quotas(self, running: Sequence[ContainerFacts]) -> tuple[dict[str, int | None], int | None]:
        """Return the quotas of a pod's containers and of the pod, in µs per period; None for no quota."""
        return {one.name: _quota(self._container(one)) for one in running}, _quota(self._pod(running))

    def write(self, running: Sequence[ContainerFacts], files: Iterable[GroupFile]) -> None:
        """Write files of one pod's groups.

        Args:
            running: The pod's running containers; files of others are skipped.
            files: The files with their content.

        A container's and the pod's limit must be written in an order that depends on whether they grow or shrink;
        therefore writes that the kernel refuses are tried once more after the others.
        """
        groups: dict[str, ControlGroup] = {
            one.name: group for one in running if (group := self._container(one)) is not None
        }
        pod = self._pod(running)
        if pod is not None:
            groups[POD] = pod
        held = {one.name for one in running if self._is_held(one.key)}
        held |= {POD} if held else set()
        wanted = []
        for file in files:
            group = groups.get(file.container)
            if group is None or (file.name in _QUOTAS and file.container in held):
                continue
            if file.name in _WEIGHTS and _gives_way(group):
                continue  # an idle group takes no weight; `take_part` sets it later
            wanted.append((os.path.join(_directory(group, file.name), file.name), file.text))
        refused = [(path, text) for path, text in wanted if not _write(path, text, is_last=False)]
        for path, text in refused:
            _write(path, text, is_last=True)

    def set_level(self, running: Sequence[ContainerFacts], level: int) -> None:
        """Set a pod's CPU level by the mechanism that this kernel has.

        ``cpu.qos_level`` is openEuler's, ``cpu.bvt_warp_ns`` that of Alibaba's kernels; others have ``cpu.idle`` since
        5.15, and before that weights alone.
        """
        pod = self._pod(running)
        if pod is None:
            return
        for name, text in (("cpu.qos_level", str(level)), ("cpu.bvt_warp_ns", str(min(max(level, -1), 2)))):
            if os.path.exists(os.path.join(pod.cpu, name)):
                for directory in _below(pod.cpu):
                    _write(os.path.join(directory, name), text, is_last=True)
                return
        if level < 0:
            self._give_way(pod, running)
        elif pod.cpu in self._weights:
            self.end_level(running)

    def end_level(self, running: Sequence[ContainerFacts]) -> None:
        """Make a pod compete with others again, after its level is no longer low."""
        pod = self._pod(running)
        if pod is None:
            return
        if any(os.path.exists(os.path.join(pod.cpu, name)) for name in ("cpu.qos_level", "cpu.bvt_warp_ns")):
            self.set_level(running, 0)
            return
        if any(one.suppression is not None and one.suppression.pod_weight is not None for one in running):
            return  # idle because a container was suppressed
        convert = cpu_weight if pod.is_unified else cpu_shares
        requests = [(pod, sum(one.request_milli for one in running))]
        requests += [(group, one.request_milli) for one in running if (group := self._container(one)) is not None]
        for group, milli in requests:
            with contextlib.suppress(OSError, ValueError):
                take_part(group, self._weights.pop(group.cpu, 0) or convert(milli))

    def set_network_class(self, running: Sequence[ContainerFacts], level: int) -> bool:
        """Mark a pod's network traffic with its level; return whether this kernel supports that."""
        pod = self._pod(running)
        if pod is None or not os.path.exists(os.path.join(pod.network or pod.cpu, "net_cls.classid")):
            return False
        for directory in _below(pod.network or pod.cpu):
            _write(os.path.join(directory, "net_cls.classid"), str(normalised(level) % _UNSIGNED), is_last=True)
        return True

    def set_memory_level(self, running: Sequence[ContainerFacts], level: int) -> None:
        """Set a pod's memory level, by which openEuler's kernel chooses pods to reclaim memory from."""
        pod = self._pod(running)
        if pod is not None and pod.memory:
            for directory in _below(pod.memory):
                _write(os.path.join(directory, "memory.qos_level"), str(normalised(level)), is_last=True)

    def forget(self, running: Mapping[str, object]) -> None:
        """Drop the stored weights of pods that are gone.

        Args:
            running: Running pods by uid.
        """
        for directory in [one for one in self._weights if not os.path.isdir(one)]:
            del self._weights[directory]

    def _give_way(self, pod: ControlGroup, running: Sequence[ContainerFacts]) -> None:
        for group in (pod, *(group for one in running if (group := self._container(one)) is not None)):
            weight = read_weight(group)
            if weight is not None:
                self._weights[group.cpu] = weight
            try:
                give_way(group)
            except (OSError, ValueError) as error:
                _log.info("weight not written: group=%s: %s", group.cpu, one_line(error))

    def _container(self, one: ContainerFacts) -> ControlGroup | None:
        return self._layout.container(one.pod.metadata.uid, one.qos, one.name, one.id)

    def _pod(self, running: Sequence[ContainerFacts]) -> ControlGroup | None:
        return self._layout.pod(running[0].pod.metadata.uid, running[0].qos) if running else None


def _quota(group: ControlGroup | None) -> int | None:
    try:
        quota = None if group is None else read_quota(group)
    except (OSError, ValueError):
        return None
    return None if quota is None or quota.milli is None else quota.milli * quota.period_microseconds // 1000


def _gives_way(group: ControlGroup) -> bool:
    try:
        return os.path.exists(os.path.join(group.cpu, "cpu.idle")) and gives_way(group)
    except (OSError, ValueError):
        return False


def _directory(group: ControlGroup, name: str) -> str:
    return group.memory if name.startswith("memory.") else group.cpu


def _below(directory: str) -> Iterator[str]:
    """Yield a directory and those below it, at most `_MOST_GROUPS`."""
    for number, (path, _, _) in enumerate(os.walk(directory)):
        if number >= _MOST_GROUPS:
            return
        yield path


def _write(path: str, text: str, *, is_last: bool) -> bool:
    """Write a file unless it has the text; return whether it has it now, or does not exist in this kernel."""
    try:
        if not os.path.exists(path) or read_text(path).strip() == text:
            return True
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        if is_last:
            _log.info("not written: file=%s value=%s: %s", path, text, one_line(error))
        return False
    return True
