"""Compute the control group files of a pod for lent resources, memory QoS and bursts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from strato.agent.volcano.levels import ResourceNames, lent_amount, may_borrow, uses_lent
from strato.api.core.container import Container
from strato.api.quantity import InvalidQuantity, value
from strato.decoding import UNDECODABLE
from strato.errors import InvalidInput, Problem, one_line
from strato.kernelstats import CFS_PERIOD_MICROSECONDS, LEAST_QUOTA_MICROSECONDS

POD: Final = ""
"""Stands for the pod's own group in place of a container's name."""
COLOCATION_CONFIG: Final = "volcano.sh/colocation-config"
QUOTA_BURST: Final = "volcano.sh/enable-quota-burst"
QUOTA_BURST_TIME: Final = "volcano.sh/quota-burst-time"
_MOST_CHARACTERS: Final = 64 << 10
_MOST_SHARES, _MOST_WEIGHT = 262_144, 10_000
_LEAST_SHARES, _DEFAULT_WEIGHT = 2, 100
_PERCENT = 100
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))


class GroupFile(NamedTuple):
    """Wanted content of one file of a control group."""

    container: str
    """Name of the container; `POD` for the pod's group."""
    name: str
    text: str


def lent_files(containers: Sequence[Container], level: int, names: ResourceNames, *, unified: bool) -> list[GroupFile]:
    """Return the files with limits for lent resources, for which kubelets set none, as they are extended resources.

    Args:
        containers: The pod's containers without ordinary init containers.
        level: Level of the pod.
        names: Names of the lent resources.
        unified: Whether control groups are of version 2.
    """
    if not may_borrow(level) or not uses_lent(containers, names):
        return []
    write = _unified if unified else _legacy
    found = []
    requests, limits, memory = [], [], []
    for one in containers:
        asked = lent_amount(one.resources.requests, names.cpu)
        limit = lent_amount(one.resources.limits, names.cpu)
        most = lent_amount(one.resources.limits, names.memory)
        requests.append(asked or 0)
        limits.append(limit)
        memory.append(most)
        found += write(one.name, asked, limit, most)
    total = sum(requests)
    weight = total or None
    if weight is None:
        least = ("cpu.weight", _DEFAULT_WEIGHT) if unified else ("cpu.shares", _LEAST_SHARES)
        found.append(GroupFile(POD, least[0], str(least[1])))
    return found + write(POD, weight, _sum(limits, unified=unified), _sum(memory, unified=unified))


def _sum(amounts: Sequence[int | None], *, unified: bool) -> int | None:
    """Return the sum of limits for a pod; None if one container has no limit, as the pod then has none either."""
    found = [amount for amount in amounts if amount is not None and (unified or amount)]
    return sum(found) if found and len(found) == len(amounts) else None


def _legacy(container: str, request: int | None, limit: int | None, memory: int | None) -> list[GroupFile]:
    found = []
    if request:
        shares = min(max(request * 1024 // 1000, _LEAST_SHARES), _MOST_SHARES)
        found.append(GroupFile(container, "cpu.shares", str(shares)))
    if limit:
        found.append(GroupFile(container, "cpu.cfs_quota_us", str(_quota(limit))))
    if memory:
        found.append(GroupFile(container, "memory.limit_in_bytes", str(memory)))
    return found


def _unified(container: str, request: int | None, limit: int | None, memory: int | None) -> list[GroupFile]:
    found = []
    if request is not None:
        found.append(GroupFile(container, "cpu.weight", str(min(max(request // 10, 1), _MOST_WEIGHT))))
    if limit is not None:
        quota = _quota(limit) if limit else "max"
        found.append(GroupFile(container, "cpu.max", f"{quota} {CFS_PERIOD_MICROSECONDS}"))
    if memory is not None:
        found.append(GroupFile(container, "memory.max", str(memory or "max")))
    return found


def _quota(milli: int) -> int:
    return max(milli * CFS_PERIOD_MICROSECONDS // 1000, LEAST_QUOTA_MICROSECONDS)


class _MemoryQos(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    high_ratio: int = 100
    low_ratio: int = 0
    min_ratio: int = 0


class _PodConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    memory_qos: _MemoryQos | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRatios:
    """Memory QoS of a container in percent: protected memory, and where it is throttled."""

    high: int = 100
    """Percent of its limit above which its memory is reclaimed (``memory.high``)."""
    low: int = 0
    """Percent of its request that is reclaimed only after all unprotected memory (``memory.low``)."""
    least: int = 0
    """Percent of its request that is never reclaimed (``memory.min``)."""


def memory_ratios(text: str) -> MemoryRatios | None:
    """Return the memory settings in the annotation ``volcano.sh/colocation-config``.

    Args:
        text: Text of the annotation; empty without one, which gives None.

    Raises:
        InvalidInput: Lists all problems of the text.
    """
    if not text:
        return None
    if len(text) > _MOST_CHARACTERS:
        problem = Problem("", f"has {len(text)} characters; write at most {_MOST_CHARACTERS}")
        raise InvalidInput(COLOCATION_CONFIG, [problem])
    try:
        found = msgspec.json.decode(text, type=_PodConfig).memory_qos or _MemoryQos()
    except UNDECODABLE as error:
        raise InvalidInput(COLOCATION_CONFIG, [Problem("", one_line(error))]) from error
    ratios = {"highRatio": found.high_ratio, "lowRatio": found.low_ratio, "minRatio": found.min_ratio}
    problems = [
        Problem(f"memoryQos.{key}", f"{ratio} must be at least 0 and at most {_PERCENT}")
        for key, ratio in ratios.items()
        if not 0 <= ratio <= _PERCENT
    ]
    if problems:
        raise InvalidInput(COLOCATION_CONFIG, problems)
    return MemoryRatios(high=found.high_ratio, low=found.low_ratio, least=found.min_ratio)


def memory_files(
    containers: Sequence[Container], level: int, ratios: MemoryRatios, names: ResourceNames
) -> list[GroupFile]:
    """Return the files with memory protection of containers, which version 2 has."""
    found = []
    for one in containers:
        request = _memory(one.resources.requests, level, names)
        limit = _memory(one.resources.limits, level, names)
        is_slowed = limit > 0 and ratios.high < _PERCENT
        high = str(limit * ratios.high // _PERCENT) if is_slowed else "max"
        found.append(GroupFile(one.name, "memory.high", high))
        found.append(GroupFile(one.name, "memory.low", str(request * ratios.low // _PERCENT)))
        found.append(GroupFile(one.name, "memory.min", str(request * ratios.least // _PERCENT)))
    return found


def _memory(amounts: Mapping[str, str | int | float], level: int, names: ResourceNames) -> int:
    lent = lent_amount(amounts, names.memory) if may_borrow(level) else None
    if lent is not None:
        return lent
    try:
        return max(0, value(amounts.get("memory", 0)))
    except InvalidQuantity:
        return 0


def wants_burst(annotations: Mapping[str, str]) -> int | None:
    """Return the burst in µs that a pod wants for its containers; 0 means as much as the quota.

    Return None if the pod wants none, or its annotation is no valid time.
    """
    if annotations.get(QUOTA_BURST, "") not in _TRUE:
        return None
    text = annotations.get(QUOTA_BURST_TIME, "")
    if not text:
        return 0
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 18 and int(text) else None


def burst_files(
    burst_microseconds: int, quotas: Mapping[str, int | None], pod_quota: int | None, *, unified: bool
) -> list[GroupFile]:
    """Return the bursts of a pod's groups: of each container with a quota, and of the pod the sum if it has one.

    Args:
        burst_microseconds: The result of `wants_burst`.
        quotas: Quota in µs per period, by container; None for no quota.
        pod_quota: Quota of the pod in µs per period; None for no quota.
        unified: Whether control groups are of version 2.

    Bursts are at most the quota, as the kernel refuses larger ones.
    """
    name = "cpu.max.burst" if unified else "cpu.cfs_burst_us"
    bursts = {
        container: min(burst_microseconds or quota, quota) for container, quota in quotas.items() if quota is not None
    }
    found = [GroupFile(container, name, str(burst)) for container, burst in bursts.items()]
    if pod_quota is not None and bursts:
        found.insert(0, GroupFile(POD, name, str(min(sum(bursts.values()), pod_quota))))
    return found
