"""Reads `capacity-scheduler.xml`: every queue with what it inherits, checked as a whole.

All problems are reported at once, each with file, line and key. `sums.py` checks what depends on several queues (sums
of capacities, units).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from strato.errors import InvalidInput, Problem
from strato.interop.yarn.capacity import notation, sums
from strato.interop.yarn.capacity.arithmetic import single
from strato.interop.yarn.capacity.configuration import (
    ANY_LABEL,
    ROOT,
    AutoCreation,
    CapacityConfiguration,
    QueueConfiguration,
)
from strato.interop.yarn.capacity.notation import Capacity, NotationError, Unit
from strato.interop.yarn.capacity.preemptionmodel import DEFAULT_PARTITION
from strato.interop.yarn.capacity.settings import MONITOR_ENABLED, SCHEDULER, preemption_settings
from strato.interop.yarn.hadoopxml import HadoopSettings
from strato.interop.yarn.resources import MOST_INT, ResourceTypes

MOST_QUEUES = 20_000
MOST_LEVELS = 32
LEAF_POLICIES = ("fifo", "fair", "fifo-with-partitions", "fifo-for-pending-apps")
PARENT_POLICIES = ("utilization", "priority-utilization")
_LABELS = "accessible-node-labels."


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedQueue:
    """A queue that placement created."""

    is_parent: bool = False
    is_flexible: bool = False
    """Whether version 2 of queue creation (`auto-queue-creation-v2`) created it."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Settings from templates, by name without prefix and path."""


def read(settings: HadoopSettings, created: Mapping[str, CreatedQueue] | None = None) -> CapacityConfiguration:
    """Read a configuration.

    Args:
        settings: The properties of `capacity-scheduler.xml`, with those of `yarn-site.xml` that matter.
        created: Queues that placement created, by path, in the order of creation.

    Raises:
        InvalidInput: With all problems.
    """
    reader = _Reader(settings, created or {})
    configuration = reader.configuration()
    problems = reader.problems + (sums.problems(configuration) if not reader.problems else [])
    if problems:
        raise InvalidInput(settings.file or "capacity scheduler configuration", problems)
    return configuration


@dataclass(slots=True)
class _Inherited:
    """Settings that queues inherit from their parent unless they have their own."""

    labels: frozenset[str] = frozenset({ANY_LABEL})
    default_label: str = DEFAULT_PARTITION
    preemption_disabled: bool = True
    intra_queue_disabled: bool = True
    maximum_lifetime: int = -1
    default_lifetime: int = -1
    user_weights: Mapping[str, float] = field(default_factory=dict)


class _Reader:
    def __init__(self, settings: HadoopSettings, created: Mapping[str, CreatedQueue]) -> None:
        self._settings = settings
        self._created = created
        self._values: dict[str, str] = {}
        for path, queue in created.items():
            self._values |= {f"{SCHEDULER}{path}.{name}": value for name, value in queue.values.items()}
        self.problems: list[Problem] = []
        self._count = 0
        self._types = ResourceTypes.with_others(settings.get("yarn.resource-types").split(","))
        self._is_legacy = self._flag("legacy-queue-mode.enabled", True)
        self._labels = self._all_labels()
        self._children_created: dict[str, list[str]] = {}
        for path in created:
            self._children_created.setdefault(path.rpartition(".")[0], []).append(path.rpartition(".")[2])

    # 1. Values

    def _key(self, name: str) -> str:
        return name if name.startswith("yarn.") else SCHEDULER + name

    def _get(self, name: str, default: str = "") -> str:
        key = self._key(name)
        return self._values[key].strip() if key in self._values else self._settings.get(key, default)

    def _problem(self, name: str, message: str) -> None:
        self.problems.append(Problem(self._settings.where(self._key(name)), message))

    def _number(self, name: str, default: float, least: float = -math.inf, most: float = math.inf) -> float:
        text = self._get(name)
        if not text:
            return default
        try:
            value = notation.number(text)
        except NotationError as error:
            self._problem(name, str(error))
            return default
        if not least <= value <= most:
            bounds = f"between {least:g} and {most:g}" if most < math.inf else f"of at least {least:g}"
            self._problem(name, f"{text!r}: expected a number {bounds}")
            return default
        return value

    def _whole(self, name: str, default: int, least: int = -MOST_INT - 1) -> int:
        text = self._get(name)
        if not text:
            return default
        try:
            value = int(text) if len(text) < 20 else MOST_INT + 1
        except ValueError:
            self._problem(name, f"{text[:80]!r} is no whole number")
            return default
        if not least <= value <= MOST_INT:
            self._problem(name, f"{text[:80]!r}: expected a whole number from {least} to {MOST_INT}")
            return default
        return value

    def _flag(self, name: str, default: bool) -> bool:
        text = self._get(name).lower()
        return {"true": True, "false": False}.get(text, default)

    def _capacity(self, name: str, default: Capacity | None) -> Capacity | None:
        text = self._get(name)
        if not text:
            return default
        try:
            return notation.parse(text, self._types)
        except NotationError as error:
            self._problem(name, str(error))
            return default

    def _all_labels(self) -> tuple[str, ...]:
        """Return the labels that any queue names."""
        found: dict[str, None] = {}
        names = [setting.name for setting in self._settings] + list(self._values)
        for name in names:
            if not name.startswith(SCHEDULER + ROOT):
                continue
            _, is_label, rest = name.partition("." + _LABELS)
            if is_label:
                found.setdefault(rest.rpartition(".")[0])
            elif name.endswith(".accessible-node-labels"):
                for label in self._get(name).split(","):
                    if label.strip() not in {"", ANY_LABEL}:
                        found.setdefault(label.strip())
        return tuple(label for label in found if label)

    # 2. Settings common to all queues

    def configuration(self) -> CapacityConfiguration:
        """Read the whole configuration; collect problems."""
        calculator = self._get("resource-calculator")
        known = ("", "DefaultResourceCalculator", "DominantResourceCalculator")
        if calculator.rpartition(".")[2] not in known:
            self._problem("resource-calculator", f"{calculator!r} is not supported; known: {', '.join(known[1:])}")
        minimum, maximum = self._allocations()
        inherited = _Inherited(preemption_disabled=not self._monitor_enabled(), intra_queue_disabled=False)
        inherited.intra_queue_disabled = inherited.preemption_disabled
        try:
            preemption = preemption_settings(self._settings)
        except InvalidInput as error:
            self.problems += error.problems
            preemption = preemption_settings(HadoopSettings())
        root = self._queue(ROOT, inherited, level=0)
        limit = self._whole("global-queue-max-application", -1)
        delay = self._whole("node-locality-delay", -1, least=-1) if self._get("node-locality-delay") else None
        return CapacityConfiguration(
            root=root,
            types=self._types,
            is_legacy=self._is_legacy,
            is_dominant=calculator.endswith("DominantResourceCalculator"),
            minimum_allocation=minimum,
            maximum_allocation=maximum,
            maximum_applications=self._whole("maximum-applications", 10000, least=0),
            queue_maximum_applications=limit if limit > 0 else None,
            looks_on_with_reservation=self._flag("reservations-continue-look-all-nodes", True),
            node_locality_delay=delay,
            rack_locality_delay=self._whole("rack-locality-additional-delay", -1, least=-1),
            preemption_enabled=self._monitor_enabled(),
            preemption=preemption,
            by_path={queue.path: queue for queue in root.walk()},
        )

    def _monitor_enabled(self) -> bool:
        return self._flag(MONITOR_ENABLED, False)

    def _allocations(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        minimum = [self._whole("yarn.scheduler.minimum-allocation-mb", 1024, 0)]
        minimum.append(self._whole("yarn.scheduler.minimum-allocation-vcores", 1, 0))
        maximum = [self._whole("yarn.scheduler.maximum-allocation-mb", 8192, 1)]
        maximum.append(self._whole("yarn.scheduler.maximum-allocation-vcores", 4, 1))
        for name in self._types.names[2:]:
            minimum.append(self._whole(f"yarn.resource-types.{name}.minimum-allocation", 0, 0))
            maximum.append(self._whole(f"yarn.resource-types.{name}.maximum-allocation", MOST_INT, 0))
        for least, most, name in zip(minimum, maximum, self._types.names, strict=True):
            if least > most:
                self.problems.append(
                    Problem("", f"the minimum allocation of {name}, {least}, is above the maximum, {most}")
                )
        return tuple(minimum), tuple(maximum)

    # 3. Queues

    def _queue(self, path: str, above: _Inherited, level: int) -> QueueConfiguration:
        self._count += 1
        inherited = self._inherited(path, above)
        names = self._child_names(path, level)
        auto = self._auto_creation(path, is_created=path in self._created)
        children = tuple(self._queue(f"{path}.{name}", inherited, level + 1) for name in names)
        created = self._created.get(path)
        is_parent = created.is_parent if created else bool(children) or auto.is_managed or auto.is_flexible
        is_dynamic = created is not None and created.is_flexible
        factor_default = self._number("user-limit-factor", 1.0)
        am_default = self._number("maximum-am-resource-percent", 0.1, 0.0, 1.0)
        percent_default = self._number("minimum-user-limit-percent", 100.0, 0.0, 100.0)
        if is_dynamic:
            factor_default, am_default = -1.0, 1.0
        limit = self._whole(f"{path}.maximum-applications", -1)
        policy, partitions = self._ordering(path, is_parent=is_parent)
        self._check_maximum_allocation(path)
        configuration = QueueConfiguration(
            path=path,
            children=children,
            is_parent=is_parent or path == ROOT,
            is_dynamic=is_dynamic,
            is_auto_created=created is not None and not is_dynamic,
            capacities=self._capacities(path, inherited),
            maximums=self._maximums(path, inherited),
            user_limit_percent=self._number(f"{path}.minimum-user-limit-percent", percent_default, 0.0, 100.0),
            user_limit_factor=self._number(f"{path}.user-limit-factor", factor_default),
            user_weights=inherited.user_weights,
            maximum_applications=limit if limit >= 0 else None,
            am_percents=self._am_percents(path, am_default),
            max_parallel_apps=self._whole(f"{path}.max-parallel-apps", self._whole("max-parallel-apps", MOST_INT)),
            max_parallel_apps_per_user=self._whole(
                f"{path}.user.max-parallel-apps", self._whole("user.max-parallel-apps", MOST_INT)
            ),
            max_parallel_apps_of=self._parallel_of_users(),
            ordering_policy=policy,
            size_based_weight=self._flag(f"{path}.ordering-policy.fair.enable-size-based-weight", False),
            exclusive_partitions=partitions,
            priority=self._whole(f"{path}.priority", 0),
            default_application_priority=self._whole(f"{path}.default-application-priority", 0),
            is_running=self._state(path),
            submit_acl=self._acl(path, "acl_submit_applications"),
            administer_acl=self._acl(path, "acl_administer_queue"),
            preemption_disabled=inherited.preemption_disabled,
            intra_queue_preemption_disabled=inherited.intra_queue_disabled,
            maximum_lifetime_seconds=inherited.maximum_lifetime,
            default_lifetime_seconds=inherited.default_lifetime,
            labels=inherited.labels,
            default_label=inherited.default_label,
            auto_creation=auto,
            allows_zero_sum=self._flag(f"{path}.allow-zero-capacity-sum", False),
            line=self._line(f"{path}.capacity") or self._line(f"{path}.queues"),
        )
        self._check_user_weights(configuration)
        return configuration

    def _line(self, name: str) -> int:
        found = self._settings.by_name.get(SCHEDULER + name)
        return found.line if found else 0

    def _child_names(self, path: str, level: int) -> list[str]:
        names = [name.strip() for name in self._get(f"{path}.queues").split(",") if name.strip()]
        if path == ROOT and not names:
            self._problem("root.queues", "names no queues; list the queues below root, separated by commas")
        for name in names:
            if "." in name:
                self._problem(f"{path}.queues", f"{name!r} has a dot; dots separate the parts of a path")
            if names.count(name) > 1:
                self._problem(f"{path}.queues", f"{name!r} is listed twice")
        names = [name for name in dict.fromkeys(names) if "." not in name]
        names += [name for name in self._children_created.get(path, []) if name not in names]
        if level >= MOST_LEVELS:
            self._problem(f"{path}.queues", f"queues lie more than {MOST_LEVELS} levels deep")
            return []
        if self._count + len(names) > MOST_QUEUES:
            self._problem(f"{path}.queues", f"there are more than {MOST_QUEUES} queues")
            return []
        return names

    def _inherited(self, path: str, above: _Inherited) -> _Inherited:
        own = replace(above)
        raw = self._settings.raw(f"{SCHEDULER}{path}.accessible-node-labels")
        if raw is not None:
            own.labels = frozenset(label.strip() for label in raw.split(",") if label.strip())
        own.default_label = self._get(f"{path}.default-node-label-expression", above.default_label)
        if not (own.default_label == DEFAULT_PARTITION or ANY_LABEL in own.labels or own.default_label in own.labels):
            self._problem(
                f"{path}.default-node-label-expression",
                f"the queue cannot access the label {own.default_label!r}; add it to accessible-node-labels",
            )
        if self._monitor_enabled():
            own.preemption_disabled = self._flag(f"{path}.disable_preemption", above.preemption_disabled)
            own.intra_queue_disabled = self._flag(
                f"{path}.intra-queue-preemption.disable_preemption", above.intra_queue_disabled
            )
        own.maximum_lifetime, own.default_lifetime = self._lifetimes(path, above)
        own.user_weights = {**above.user_weights, **self._weights_of(path)}
        return own

    def _lifetimes(self, path: str, above: _Inherited) -> tuple[int, int]:
        most = self._whole(f"{path}.maximum-application-lifetime", above.maximum_lifetime)
        usual = self._whole(f"{path}.default-application-lifetime", above.default_lifetime)
        written = self._get(f"{path}.default-application-lifetime") != ""
        if most > 0 and usual > most:
            if written:
                self._problem(
                    f"{path}.default-application-lifetime", f"{usual} s is above the maximum lifetime, {most} s"
                )
            usual = most
        return most, most if usual <= 0 and most > 0 else usual

    def _weights_of(self, path: str) -> dict[str, float]:
        prefix, suffix = f"{SCHEDULER}{path}.user-settings.", ".weight"
        found: dict[str, float] = {}
        for setting in self._settings:
            if setting.name.startswith(prefix) and setting.name.endswith(suffix):
                user = setting.name[len(prefix) : -len(suffix)]
                found[user] = self._number(setting.name, 1.0, 0.0)
        return found

    def _check_user_weights(self, queue: QueueConfiguration) -> None:
        if queue.is_parent or not queue.user_limit_percent:
            return
        most = single(100.0 / queue.user_limit_percent)
        for user, weight in queue.user_weights.items():
            if weight > most:
                self._problem(
                    f"{queue.path}.user-settings.{user}.weight",
                    f"{weight:g} is above {most:g}, which is 100 / minimum-user-limit-percent of {queue.path}",
                )

    def _check_maximum_allocation(self, path: str) -> None:
        pairs = (
            ("mb", "yarn.scheduler.maximum-allocation-mb", 8192),
            ("vcores", "yarn.scheduler.maximum-allocation-vcores", 4),
        )
        for kind, name, default in pairs:
            own = self._whole(f"{path}.maximum-allocation-{kind}", -1)
            most = self._whole(name, default)
            if own > most:
                self._problem(f"{path}.maximum-allocation-{kind}", f"{own} is above the cluster's maximum, {most}")

    def _capacities(self, path: str, inherited: _Inherited) -> dict[str, Capacity]:
        whole = notation.everything(self._types, Unit.PERCENT, 100.0)
        nothing = notation.everything(self._types, Unit.PERCENT, 0.0)
        if path == ROOT:
            return dict.fromkeys((DEFAULT_PARTITION, *self._labels), whole)
        own = self._capacity(f"{path}.capacity", None)
        if own is None and not any(problem.where.endswith(f"{path}.capacity") for problem in self.problems):
            self._problem(
                f"{path}.capacity", "is not set; give percent of the parent, a weight (2w) or [memory=…,vcores=…]"
            )
        found = {DEFAULT_PARTITION: own or nothing}
        for label in self._labels:
            if ANY_LABEL in inherited.labels or label in inherited.labels:
                found[label] = self._capacity(f"{path}.{_LABELS}{label}.capacity", nothing) or nothing
        for label, capacity in found.items():
            name = f"{path}.capacity" if label == DEFAULT_PARTITION else f"{path}.{_LABELS}{label}.capacity"
            self._check_range(name, capacity)
        return found

    def _maximums(self, path: str, inherited: _Inherited) -> dict[str, Capacity]:
        whole = notation.everything(self._types, Unit.PERCENT, 100.0)
        if path == ROOT:
            return dict.fromkeys((DEFAULT_PARTITION, *self._labels), whole)
        found: dict[str, Capacity] = {}
        for label in (DEFAULT_PARTITION, *self._labels):
            if label and not (ANY_LABEL in inherited.labels or label in inherited.labels):
                continue
            name = f"{path}.{_LABELS}{label}.maximum-capacity" if label else f"{path}.maximum-capacity"
            given = self._capacity(name, whole) or whole
            if given.unit is Unit.PERCENT and not given.is_vector and given.parts[0].value < 0:
                given = whole
            self._check_range(name, given)
            found[label] = given
        return found

    def _check_range(self, name: str, capacity: Capacity) -> None:
        for part in capacity.parts:
            if part.unit is Unit.PERCENT and not 0 <= part.value <= 100:
                self._problem(name, f"{part.value:g}: expected a percentage between 0 and 100")
                return
        if capacity.is_vector and self._is_legacy and capacity.unit is not Unit.ABSOLUTE:
            self._problem(name, "mixes ways of counting; that needs legacy-queue-mode.enabled=false")

    def _am_percents(self, path: str, default: float) -> dict[str, float]:
        own = self._number(f"{path}.maximum-am-resource-percent", default, 0.0, 1.0)
        found = {DEFAULT_PARTITION: own}
        for label in self._labels:
            found[label] = self._number(f"{path}.{_LABELS}{label}.maximum-am-resource-percent", own, 0.0, 1.0)
        return found

    def _parallel_of_users(self) -> dict[str, int]:
        prefix, suffix = SCHEDULER + "user.", ".max-parallel-apps"
        names = [setting.name for setting in self._settings if setting.name.startswith(prefix)]
        return {
            name[len(prefix) : -len(suffix)]: self._whole(name, MOST_INT) for name in names if name.endswith(suffix)
        }

    def _ordering(self, path: str, *, is_parent: bool) -> tuple[str, frozenset[str]]:
        known = PARENT_POLICIES if is_parent or path == ROOT else LEAF_POLICIES
        text = self._get(f"{path}.ordering-policy", known[0])
        simple = {"FairOrderingPolicy": "fair", "FifoOrderingPolicy": "fifo"}.get(text.rpartition(".")[2], text)
        if simple not in known:
            self._problem(f"{path}.ordering-policy", f"{text!r} is no policy of this queue; known: {', '.join(known)}")
            simple = known[0]
        partitions = self._get(f"{path}.ordering-policy.exclusive-enforced-partitions")
        return simple, frozenset(name.strip() for name in partitions.split(",") if name.strip())

    def _state(self, path: str) -> bool:
        text = self._get(f"{path}.state", "RUNNING").upper()
        if text not in {"RUNNING", "STOPPED", "DRAINING"}:
            self._problem(f"{path}.state", f"{text!r}: expected RUNNING or STOPPED")
        return text == "RUNNING"

    def _acl(self, path: str, name: str) -> str:
        raw = self._settings.raw(f"{SCHEDULER}{path}.{name}")
        return raw if raw is not None else (ANY_LABEL if path == ROOT else " ")

    def _auto_creation(self, path: str, *, is_created: bool) -> AutoCreation:
        flexible = f"{path}.auto-queue-creation-v2."
        managed = f"{path}.auto-create-child-queue."
        return AutoCreation(
            is_managed=self._flag(managed + "enabled", False),
            is_flexible=self._flag(flexible + "enabled", False) and not is_created,
            most_queues=self._whole(flexible + "max-queues", self._whole(managed + "max-queues", 1000, 0), 0),
            most_levels=self._whole(flexible + "maximum-queue-depth", 2, 0),
            removes_idle=self._flag("auto-queue-creation-v2.queue-auto-removal.enable", True),
            fails_beyond_parent=self._flag(managed + "fail-on-exceeding-parent-capacity", False),
        )
