"""What lent resources, memory QoS and bursts of a pod come to in its control groups. Pure: amounts in, files out."""

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
"""In the place of a container's name: the pod's own group."""
COLOCATION_CONFIG: Final = "volcano.sh/colocation-config"
QUOTA_BURST: Final = "volcano.sh/enable-quota-burst"
QUOTA_BURST_TIME: Final = "volcano.sh/quota-burst-time"
_MOST_CHARACTERS: Final = 64 << 10
_MOST_SHARES, _MOST_WEIGHT = 262_144, 10_000
_LEAST_SHARES, _DEFAULT_WEIGHT = 2, 100
_PERCENT = 100
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))


class GroupFile(NamedTuple):
    """What one file of a control group is to say."""

    container: str
    """Name of the container; `POD` is its pod."""
    name: str
    text: str


def lent_files(containers: Sequence[Container], level: int, names: ResourceNames, *, unified: bool) -> list[GroupFile]:
    """Return what lent resources come to: a kubelet makes no limits of resources that it does not know.

    Args:
        containers: Of the pod, those that are started in turn left out.
        level: Of the pod.
        names: Under which resources are lent.
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
    """Return what limits come to for a pod; None: one container has none, so that the pod has none either."""
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
    """How much of its memory a container is promised, and where it is slowed down; percent."""

    high: int = 100
    """Of its limit: above, it is made to give memory back."""
    low: int = 0
    """Of its request: taken from it only if nobody else has any left."""
    least: int = 0
    """Of its request: never taken from it."""


def memory_ratios(text: str) -> MemoryRatios | None:
    """Return what the annotation ``volcano.sh/colocation-config`` says about memory.

    Args:
        text: Of the annotation; empty: there is none, and nothing is said.

    Raises:
        InvalidInput: All that is wrong with it.
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
    """Return what containers are promised of memory, as version 2 knows it."""
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
    """Return the microseconds by which a pod's containers may exceed their quotas for once; 0: as much as the quota.

    None: it does not want that, or says something that is no such time.
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
        burst_microseconds: What `wants_burst` returned.
        quotas: Microseconds in each period, by container; None: no quota.
        pod_quota: The same of the pod.
        unified: Whether control groups are of version 2.

    The kernel refuses a burst above the quota, so none is.
    """
    name = "cpu.max.burst" if unified else "cpu.cfs_burst_us"
    bursts = {
        container: min(burst_microseconds or quota, quota) for container, quota in quotas.items() if quota is not None
    }
    found = [GroupFile(container, name, str(burst)) for container, burst in bursts.items()]
    if pod_quota is not None and bursts:
        found.insert(0, GroupFile(POD, name, str(min(sum(bursts.values()), pod_quota))))
    return found
