"""The schedulers that share the nodes, and their policies: the key ``sharding.yaml`` of a ConfigMap, or flags.

Source: volcano-controllers Part I, Configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from strato.api.configtext import read_mapping
from strato.controllers.sharding.policies import POLICIES, AllocationRate, NodeLimit, ShardPolicy, Warmup
from strato.errors import InvalidInput, Problem, one_line
from strato.units import duration_seconds

CONFIG_KEY: Final = "sharding.yaml"
NODE_LIMIT_ARGUMENTS: Final = frozenset({"minNodes", "maxNodes"})
FALLBACK_PERIOD_SECONDS: Final = 120.0
_FLAG_FIELDS: Final = 7


@dataclass(frozen=True, slots=True)
class SchedulerShare:
    """One scheduler and the policies that choose its nodes, in order."""

    name: str
    policies: tuple[ShardPolicy, ...]


@dataclass(frozen=True, slots=True)
class ShardingSettings:
    """The settings in force."""

    shares: tuple[SchedulerShare, ...]
    sync_seconds: float | None = None
    """Time between passes; None when the file does not set it."""
    on_events: bool | None = None
    """Whether events cause passes; None when the file does not set it."""


class _Policy(msgspec.Struct, frozen=True):
    name: str
    weight: int = 0
    arguments: Mapping[str, Any] = {}


class _Scheduler(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    type: str = ""
    policies: list[_Policy] = []
    arguments: Mapping[str, Any] = {}
    cpu_utilization_min: float = 0.0
    cpu_utilization_max: float = 0.0
    prefer_warmup_nodes: bool = False
    min_nodes: int = 0
    max_nodes: int = 0


class _File(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_configs: list[_Scheduler] = []
    shard_sync_period: str = ""
    enable_node_event_trigger: bool | None = None


def parse_sharding(text: str) -> ShardingSettings:
    """Read the file.

    Raises:
        InvalidInput: Something in it is wrong; all problems are listed.
    """
    try:
        parsed = msgspec.convert(read_mapping(text, CONFIG_KEY), _File, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(CONFIG_KEY, [Problem("", one_line(error))]) from error
    problems: list[Problem] = []
    if not parsed.scheduler_configs:
        problems.append(Problem("schedulerConfigs", "names no scheduler; give at least one"))
    shares = [_share(one, f"schedulerConfigs[{place}]", problems) for place, one in enumerate(parsed.scheduler_configs)]
    seconds: float | None = None
    if parsed.shard_sync_period:
        try:
            seconds = period_or_fallback(duration_seconds(parsed.shard_sync_period))
        except ValueError as error:
            problems.append(Problem("shardSyncPeriod", str(error)))
    if problems:
        raise InvalidInput(CONFIG_KEY, problems)
    return ShardingSettings(tuple(shares), seconds, parsed.enable_node_event_trigger)


def parse_flags(flags: Sequence[str]) -> ShardingSettings:
    """Read ``name:type:min:max:warmup:minNodes:maxNodes`` of each scheduler.

    Raises:
        InvalidInput: A flag is wrong; all problems are listed.
    """
    problems: list[Problem] = []
    shares = []
    for flag in flags:
        fields = flag.split(":")
        where = f"--scheduler-configs {flag}"
        if len(fields) != _FLAG_FIELDS:
            problems.append(Problem(where, f"has {len(fields)} fields; {_FLAG_FIELDS} are wanted"))
            continue
        try:
            entry = _Scheduler(
                name=fields[0],
                type=fields[1],
                cpu_utilization_min=float(fields[2]),
                cpu_utilization_max=float(fields[3]),
                prefer_warmup_nodes=fields[4].lower() in ("true", "1", "t"),
                min_nodes=int(fields[5]),
                max_nodes=int(fields[6]),
            )
        except ValueError as error:
            problems.append(Problem(where, str(error)))
            continue
        shares.append(_share(entry, where, problems))
    if problems:
        raise InvalidInput("sharding flags", problems)
    return ShardingSettings(tuple(shares))


def period_or_fallback(seconds: float) -> float:
    """Return a period, or two minutes if it is not positive."""
    return seconds if seconds > 0 else FALLBACK_PERIOD_SECONDS


def _share(entry: _Scheduler, where: str, problems: list[Problem]) -> SchedulerShare:
    if not entry.name:
        problems.append(Problem(f"{where}.name", "is empty; it names the NodeShard"))
    low, high = entry.cpu_utilization_min, entry.cpu_utilization_max
    if not 0 <= low <= 1 or not 0 <= high <= 1 or low > high:
        problems.append(Problem(f"{where}.cpuUtilizationMin", f"{low} to {high} is no range within 0 and 1"))
    if entry.min_nodes < 0 or entry.max_nodes < entry.min_nodes:
        problems.append(Problem(f"{where}.minNodes", f"{entry.min_nodes} to {entry.max_nodes} is no range of counts"))
    policies = [
        built
        for place, one in enumerate(entry.policies)
        if (built := _policy(one.name, one.weight, one.arguments, f"{where}.policies[{place}]", problems)) is not None
    ]
    if not entry.policies:
        policies = _synthesized(entry, where, problems)
    if (entry.min_nodes or entry.max_nodes) and not any(isinstance(one, NodeLimit) for one in policies):
        policies.append(NodeLimit(min_nodes=entry.min_nodes, max_nodes=entry.max_nodes))
    return SchedulerShare(entry.name, tuple(policies))


def _synthesized(entry: _Scheduler, where: str, problems: list[Problem]) -> list[ShardPolicy]:
    """Return the policies of an entry that lists none: from its utilisation bounds and preference for warm nodes."""
    policies: list[ShardPolicy] = []
    bounds: Mapping[str, Any] = entry.arguments or {
        "minCPUUtil": entry.cpu_utilization_min,
        "maxCPUUtil": entry.cpu_utilization_max,
    }
    rate = _policy(AllocationRate.name, 1, bounds, where, problems)
    if rate is not None:
        policies.append(rate)
    if entry.prefer_warmup_nodes:
        policies.append(Warmup())
    return policies


def _policy(
    name: str, weight: int, arguments: Mapping[str, Any], where: str, problems: list[Problem]
) -> ShardPolicy | None:
    kind = POLICIES.get(name)
    if kind is None:
        problems.append(Problem(f"{where}.name", f"{name!r} is no sharding policy; known are {', '.join(POLICIES)}"))
        return None
    if weight < 0:
        problems.append(Problem(f"{where}.weight", f"{weight} is negative"))
    unknown = sorted(NODE_LIMIT_ARGUMENTS & set(arguments)) if kind is not NodeLimit else []
    if unknown:
        problems.append(Problem(f"{where}.arguments", f"{', '.join(unknown)}: only the policy node-limit takes them"))
        return None
    try:
        return kind.from_arguments(arguments, float(weight or 1))
    except ValueError as error:
        problems.append(Problem(f"{where}.arguments", str(error)))
        return None
