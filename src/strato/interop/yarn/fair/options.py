"""Options of ``yarn-site.xml`` that change what the Fair Scheduler decides (spec yarn A2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from strato.errors import InvalidInput, Problem
from strato.interop.yarn.fair.placement import PlacementRule, rules_of_options
from strato.interop.yarn.hadoopxml import HEARTBEAT, HadoopSettings
from strato.interop.yarn.resources import LEAST, MEMORY, MOST_TYPES, VCORES, Amounts, ResourceTypes, fits, times

PREFIX = "yarn.scheduler.fair."
_AM_PREEMPTION = PREFIX + "am.preemption"
_VALUE_WITH_UNIT = re.compile(r"(-?\d+)\s*([a-zA-Z]*)")
_UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_UNITS |= {"Ti": 2**40, "Pi": 2**50}
_HEARTBEAT_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FairOptions:
    """Options of the scheduler as a whole."""

    types: ResourceTypes = field(default_factory=ResourceTypes)
    minimum: Amounts = LEAST
    """``minimum-allocation``: the smallest container."""
    maximum: Amounts = (8192, 4)
    """``maximum-allocation``: the largest container."""
    increment: Amounts = LEAST
    """Requests are raised to multiples of it."""
    user_as_default_queue: bool = True
    allow_undeclared: bool = True
    check_rules: bool = True
    """Whether placement rules that are never reached are refused."""
    preemption: bool = False
    utilization_threshold: float = 0.8
    """Fraction of the cluster's memory or vcores that must be in use before applications count as starved."""
    wait_before_kill_ms: int = 15_000
    wait_before_check_ms: int = 10_000
    """Part of `check_delay_ms`, beside the wait before the kill and four heartbeats."""
    am_preemption: Mapping[str, bool] = field(default_factory=dict)
    """Whether application masters may be preempted, by queue; ``""`` is for all others."""
    size_based_weight: bool = False
    assign_multiple: bool = False
    dynamic_max_assign: bool = True
    max_assign: int = -1
    node_threshold: float = -1.0
    """Scheduling opportunities, as a fraction of the nodes, skipped before a request uses its rack; negative: none."""
    rack_threshold: float = -1.0
    continuous: bool = False
    continuous_sleep_ms: int = 5
    node_delay_ms: int = -1
    rack_delay_ms: int = -1
    reservable_nodes: float = 0.05
    """Fraction of the nodes (of a rack) that one application may reserve."""
    reservation_multiple: float = 2.0
    """A request smaller than so many increments never reserves a node."""
    heartbeat_ms: int = _HEARTBEAT_MS

    @property
    def default_rules(self) -> tuple[PlacementRule, ...]:
        """The placement rules of files without any."""
        return rules_of_options(allow_undeclared=self.allow_undeclared, user_as_default=self.user_as_default_queue)

    @property
    def check_delay_ms(self) -> int:
        """Time after which an application that got victims is checked for starvation again."""
        allocation = 10 * self.continuous_sleep_ms if self.continuous else 4 * _HEARTBEAT_MS
        return self.wait_before_kill_ms + allocation + self.wait_before_check_ms

    @property
    def reservation_threshold(self) -> Amounts:
        """The smallest request that reserves a node."""
        return times(self.increment, self.reservation_multiple)

    def may_take_masters_of(self, queue: str) -> bool:
        """Return whether containers of application masters of a queue may be taken."""
        return self.am_preemption.get(queue, self.am_preemption.get("", True))


def options_of(settings: HadoopSettings, types: ResourceTypes | None = None) -> FairOptions:
    """Read the options.

    Args:
        settings: Properties of ``yarn-site.xml`` and its like.
        types: The resource types; None takes those that the settings name.

    Raises:
        InvalidInput: Values cannot be parsed, or a minimum exceeds a maximum; lists all, each with its place.
    """
    read = _Reader(settings)
    known = types or ResourceTypes.with_others(settings.get("yarn.resource-types").split(",")[:MOST_TYPES])
    am_preemption = {"": read.truth(_AM_PREEMPTION, True)}
    for setting in settings:
        if setting.name.startswith(_AM_PREEMPTION + "."):
            am_preemption[setting.name[len(_AM_PREEMPTION) + 1 :]] = read.truth(setting.name, True)
    options = FairOptions(
        types=known,
        minimum=_containers(read, known, "minimum", 1024, 1, 0),
        maximum=_containers(read, known, "maximum", 8192, 4, 2**63 - 1),
        increment=_increments(read, known),
        user_as_default_queue=read.truth(PREFIX + "user-as-default-queue", True),
        allow_undeclared=read.truth(PREFIX + "allow-undeclared-pools", True),
        check_rules=not read.truth(PREFIX + "no-terminal-rule.check", False),
        preemption=read.truth(PREFIX + "preemption", False),
        utilization_threshold=read.number(PREFIX + "preemption.cluster-utilization-threshold", 0.8),
        wait_before_kill_ms=read.whole(PREFIX + "waitTimeBeforeKill", 15_000),
        wait_before_check_ms=read.whole(PREFIX + "waitTimeBeforeNextStarvationCheck", 10_000),
        am_preemption=am_preemption,
        size_based_weight=read.truth(PREFIX + "sizebasedweight", False),
        assign_multiple=read.truth(PREFIX + "assignmultiple", False),
        dynamic_max_assign=read.truth(PREFIX + "dynamic.max.assign", True),
        max_assign=read.whole(PREFIX + "max.assign", -1),
        node_threshold=read.number(PREFIX + "locality.threshold.node", -1.0),
        rack_threshold=read.number(PREFIX + "locality.threshold.rack", -1.0),
        continuous=read.truth(PREFIX + "continuous-scheduling-enabled", False),
        continuous_sleep_ms=read.whole(PREFIX + "continuous-scheduling-sleep-ms", 5),
        node_delay_ms=read.whole(PREFIX + "locality-delay-node-ms", -1),
        rack_delay_ms=read.whole(PREFIX + "locality-delay-rack-ms", -1),
        reservable_nodes=read.number(PREFIX + "reservable-nodes", 0.05),
        reservation_multiple=read.number("yarn.scheduler.reservation-threshold.increment-multiple", 2.0),
        heartbeat_ms=read.whole(HEARTBEAT, _HEARTBEAT_MS),
    )
    if options.heartbeat_ms <= 0:
        read.problems.append(
            Problem(settings.where(HEARTBEAT), f"{options.heartbeat_ms}: expected milliseconds above 0")
        )
    if not fits(options.minimum, options.maximum):
        text = f"minimum ({known.text(options.minimum)}) exceeds the maximum ({known.text(options.maximum)})"
        read.problems.append(Problem("yarn.scheduler.minimum-allocation", text))
    if any(step <= 0 for step in options.increment[:2]):
        read.problems.append(Problem("increment-allocation", "expected steps above 0"))
    if read.problems:
        raise InvalidInput(settings.file or "configuration", read.problems)
    return options


def _containers(read: _Reader, types: ResourceTypes, which: str, memory: int, vcores: int, others: int) -> Amounts:
    amounts = {
        MEMORY: read.whole(f"yarn.scheduler.{which}-allocation-mb", memory),
        VCORES: read.whole(f"yarn.scheduler.{which}-allocation-vcores", vcores),
    }
    for name in types.names[2:]:
        amounts[name] = read.whole(f"yarn.resource-types.{name}.{which}-allocation", others)
    return types.from_mapping(amounts)


def _increments(read: _Reader, types: ResourceTypes) -> Amounts:
    amounts = dict.fromkeys(types.names, 0)
    for name, old, default in (
        (MEMORY, "yarn.scheduler.increment-allocation-mb", 1024),
        (VCORES, "yarn.scheduler.increment-allocation-vcores", 1),
    ):
        amounts[name] = read.whole(old, default)
    for name in types.names:
        new = f"yarn.resource-types.{name}.increment-allocation"
        if new in read.settings:
            amounts[name] = read.amount(new, "Mi" if name == MEMORY else "")
    return types.from_mapping(amounts)


class _Reader:
    """Reads values of settings, and collects their problems."""

    def __init__(self, settings: HadoopSettings) -> None:
        self.settings = settings
        self.problems: list[Problem] = []

    def truth(self, name: str, default: bool) -> bool:
        """Return a boolean; text that is neither true nor false gives the default, as in Hadoop."""
        text = self.settings.get(name).lower()
        return default if text not in ("true", "false") else text == "true"

    def whole(self, name: str, default: int) -> int:
        text = self.settings.get(name)
        try:
            return int(text) if text else default
        except ValueError:
            self.problems.append(Problem(self.settings.where(name), f"{text[:40]!r} is no whole number"))
            return default

    def number(self, name: str, default: float) -> float:
        text = self.settings.get(name)
        try:
            return float(text) if text else default
        except ValueError:
            self.problems.append(Problem(self.settings.where(name), f"{text[:40]!r} is no number"))
            return default

    def amount(self, name: str, unit: str) -> int:
        """Return an amount with an optional unit, in the unit of its type."""
        found = _VALUE_WITH_UNIT.fullmatch(self.settings.get(name))
        if found is None or (found.group(2) or unit) not in _UNITS or len(found.group(1)) > 19:
            text = self.settings.get(name)[:40]
            self.problems.append(
                Problem(self.settings.where(name), f"{text!r}: expected a number with or without unit")
            )
            return 1
        return int(int(found.group(1)) * _UNITS[found.group(2) or unit] / _UNITS[unit])
