"""Cases of the Capacity Scheduler's preemption: from the collection's two notations to the policy's snapshot.

The notations are those of two fixtures with traits of their own (README of the collection). Traits that the README
does not spell out, but the recorded queue values show: an amount of one number has one vcore; amounts that name vcores
(``mem:vcores``) are of runs with the dominant calculator, whatever the field `calculator` names; guarantee, maximum and
pending of a queue are those of the partition listed last, on all partitions, if it has any there; and the first
container of an application is its AM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strato.interop.yarn.capacity.arithmetic import BY_DOMINANT_SHARE, BY_MEMORY, Arithmetic, scaled
from strato.interop.yarn.capacity.preemption import Marks, PreemptionRound, advance, decide
from strato.interop.yarn.capacity.preemptionmodel import (
    Application,
    ClusterState,
    Container,
    LeafNumbers,
    NodeNumbers,
    PreemptionQueue,
    PreemptionSettings,
    QueueNumbers,
)
from strato.interop.yarn.capacity.settings import PREEMPTION, preemption_settings
from strato.interop.yarn.hadoopxml import HadoopSettings
from strato.interop.yarn.resources import Amounts, add, is_zero, subtract

_SCHEDULER = "yarn.scheduler.capacity."


def proportional_preemption(case: dict[str, Any], collection: Sequence[dict[str, Any]] | None = None) -> list[str]:
    """Run one round of preemption; return what differs from what YARN did.

    Args:
        case: The case.
        collection: The cases of its file; a test's later steps may have recorded the events of earlier ones too.
    """
    expect = case["expect"]
    flags = set(case.get("flags", ()))
    conf = dict(case["input"].get("conf", {}))
    if _was_balancing(expect.get("queues", {})):
        conf[PREEMPTION + "preemption-to-balance-queue-after-satisfied.enabled"] = "true"
    differences = _differences(case, conf, flags, collection)
    relaxed = {key for key, value in conf.items() if key.endswith("conservative-drf") and value == "false"}
    if differences and relaxed and not _steps_before(case):
        # Tests that run strictly and then relaxed show the relaxed setting for both runs, as it was at their end.
        strict = _differences(case, {**conf, **dict.fromkeys(relaxed, "true")}, flags, collection)
        return strict if not strict else differences
    return differences


def _differences(
    case: dict[str, Any], conf: dict[str, str], flags: set[str], collection: Sequence[dict[str, Any]] | None
) -> list[str]:
    given, expect = case["input"], case["expect"]
    settings = preemption_settings(HadoopSettings.from_mapping(conf))
    world = _Table(given, conf) if "table" in given else _Nodes(given, conf, expect.get("queues", {}))
    state = world.state()
    found = decide(state, settings, world.arithmetic)
    differences: list[str] = []
    # Where such a test cleared its recorder in between, the recording of the first run has no events, with the same
    # input as the second, which has some: only the second can be compared.
    if not ("expects-nothing" in flags and any(key.endswith("conservative-drf") for key in conf)):
        before = _steps_before(case)
        known = [other for other in collection or () if other["id"] in before]
        missing = len(known) < len(before)
        earlier = _earlier_events(known)
        differences += _event_differences(found, settings, expect, flags, earlier, earlier_is_missing=missing)
    if "queue-values-vary" not in flags:
        differences += _queue_differences(found, expect.get("queues", {}))
    return differences


def _was_balancing(queues: Mapping[str, Any]) -> bool:
    """Return whether a leaf was meant to get more than it uses and is guaranteed, which only balancing does.

    One test switches balancing on after its world was built, which its recorded configuration does not show.
    """
    paths = [key.partition("|")[0] for key in queues]
    return any(
        value["idealAssigned"][0] > max(value["used"][0], value["guaranteed"][0])
        for key, value in queues.items()
        if value["guaranteed"][1] <= 1  # by memory alone; with more types "more" has several meanings
        and not any(path.startswith(key.partition("|")[0] + ".") for path in paths)
        and value["guaranteed"][0] > 0
    )


def _steps_before(case: dict[str, Any]) -> set[str]:
    name, _, step = case["id"].rpartition("-")
    return {f"{name}-{number}" for number in range(int(step))} if step.isdigit() else set()


def _earlier_events(cases: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the events of the earlier steps of a test: recorders of one test go on counting, unless they are reset."""
    counts: dict[str, dict[str, int]] = {}
    for case in cases:
        for app, events in case["expect"].get("events", {}).items():
            for event, count in events.items():
                own = counts.setdefault(app, {})
                own[event] = max(own.get(event, 0), count)
    return counts


# 1. Tables


@dataclass(slots=True)
class _Table:
    """Integers per queue, in preorder."""

    given: dict[str, Any]
    conf: Mapping[str, str]
    applications: dict[str, tuple[Application, ...]] = field(default_factory=dict)
    containers: int = 0
    next_app: int = 0

    @property
    def arithmetic(self) -> Arithmetic:
        return BY_DOMINANT_SHARE if self.given["calculator"] == "dominant" else BY_MEMORY

    def state(self) -> ClusterState:
        cluster = tuple(self.given["cluster"])
        numbers = iter(range(len(self.given["table"]["abs"])))
        root = self._queue(numbers, "", cluster)
        return ClusterState(
            total=cluster, partitions={"": cluster}, root=root, applications=self.applications, now_ms=1
        )

    def _amounts(self, name: str, at: int) -> Amounts:
        values = self.given["table"].get(name)
        return _pair(values[at]) if values else (0, 0)

    def _queue(self, numbers: Iterator[int], parent: str, cluster: Amounts) -> PreemptionQueue:
        at = next(numbers)
        path = f"{parent}.queue{chr(ord('A') + at - 1)}" if parent else "root"
        used = self._amounts("used", at)
        count = self.given["table"]["subqueues"][at]
        children = tuple(self._queue(numbers, path, cluster) for _ in range(count))
        pending = self._amounts("pending", at)
        unreserved = pending
        if children:
            zero = (0, 0)
            pending, unreserved = zero, zero
            for child in children:
                pending = add(pending, child.numbers[""].pending)
                unreserved = add(unreserved, child.numbers[""].pending_without_reserved)
        reserved = self._amounts("reserved", at)
        queue_numbers = QueueNumbers(
            guaranteed=self._amounts("abs", at),
            maximum=self._amounts("maxCap", at),
            used=used,
            pending=pending,
            pending_without_reserved=unreserved,
            reserved=reserved,
            killable=(0, 0),
        )
        leaf = None
        if not children:
            self.applications[path] = tuple(self._apps(at, path))
            leaf = LeafNumbers(
                minimum_allocation=(1, 1),
                absolute_capacity=queue_numbers.guaranteed[0] / self._amounts("abs", 0)[0],
                am_percent=self.given.get("amResourcePercent", 0.0),
            )
        return PreemptionQueue(
            path=path, numbers={"": queue_numbers}, children=children, leaf=leaf, disabled=_disabled(self.conf, path)
        )

    def _apps(self, at: int, path: str) -> Iterator[Application]:
        count = self.given["table"]["apps"][at]
        for _ in range(count):
            used = tuple(-(-number // count) for number in self._amounts("used", at))
            reserved = tuple(-(-number // count) for number in self._amounts("reserved", at))
            size = self._amounts("granularity", at)
            sequence = self.next_app
            self.next_app += 1
            name = f"app{sequence}"
            count_of_app = -(-used[0] // size[0]) if size[0] > 0 else 0
            # The container on a labelled node comes on top of what the table says is used.
            count_of_app += bool(count_of_app > 1 and self.given.get("secondContainerIsOnLabelledNode"))
            containers = [self._container(name, path, size, at_app) for at_app in range(count_of_app)]
            containers += [
                self._container(name, path, size, -1, reserved=True)
                for _ in range(-(-reserved[0] // size[0]) if size[0] > 0 else 0)
            ]
            yield Application(
                key=name, sequence=sequence, queue=path, user="user", containers=tuple(containers), used={"": used}
            )

    def _container(self, app: str, queue: str, size: Amounts, at: int, *, reserved: bool = False) -> Container:
        self.containers += 1
        is_am = at == 0 and self.given.get("firstContainerIsAM", False)
        labelled = at == 1 and self.given.get("secondContainerIsOnLabelledNode", False)
        return Container(
            key=f"{app}/{self.containers}",
            sequence=self.containers,
            app=app,
            queue=queue,
            node="-",
            partition="label" if labelled else "",
            amounts=size,
            priority=0 if is_am else 2 if labelled else 1,
            is_am=is_am,
            is_reserved=reserved,
        )


def _pair(value: object) -> Amounts:
    """Read ``55`` (both types) or ``50:100``."""
    if isinstance(value, str) and ":" in value:
        memory, vcores = value.split(":")
        return int(memory), int(vcores)
    number = int(str(value))
    return number, number


# 2. Nodes, partitions, applications


@dataclass(slots=True)
class _Shape:
    """A line of the queues' notation."""

    name: str
    parts: dict[str, list[Amounts]]
    options: dict[str, str]
    children: list[_Shape] = field(default_factory=list)


@dataclass(slots=True)
class _Nodes:
    """Labels, nodes, queues and applications with containers."""

    given: dict[str, Any]
    conf: Mapping[str, str]
    recorded: Mapping[str, Any]
    sequence: int = 0

    @property
    def arithmetic(self) -> Arithmetic:
        dominant = self.given["calculator"] == "dominant" or ":" in self.given["queues"]
        return BY_DOMINANT_SHARE if dominant else BY_MEMORY

    @property
    def types(self) -> int:
        return len(self.given.get("resourceTypes", ("", "")))

    def amount(self, text: object) -> Amounts:
        """Read ``5`` or ``5:2:1``."""
        numbers = [int(part) for part in str(text).split(":")]
        if len(numbers) == 1:
            numbers.append(1 if numbers[0] > 0 else 0)
        return (*numbers, *(0,) * (self.types - len(numbers)))

    def state(self) -> ClusterState:
        labels = _pairs(self.given["labels"])
        partitions = {name: self.amount(value.split(",")[0]) for name, value in labels}
        shared = {name for name, value in labels if value.split(",")[1].strip() == "false"}
        total = (0,) * self.types
        for amounts in partitions.values():
            total = add(total, amounts)
        labels_of = {name: value.split()[0] if value.split() else "" for name, value in self._nodes()}
        shape = self._shapes()
        leaf_paths = dict(_leaf_paths(shape, ""))
        applications = self._applications(leaf_paths, labels_of, shared)
        by_queue: dict[str, list[Application]] = {path: [] for path in leaf_paths.values()}
        for application in applications:
            by_queue[application.queue].append(application)
        ordered = {
            path: tuple(sorted(apps, key=lambda one: (-one.priority, one.sequence))) for path, apps in by_queue.items()
        }
        root = self._queue(shape, "", partitions, shared, ordered)
        return ClusterState(
            total=total,
            partitions=partitions,
            root=root,
            applications=ordered,
            nodes=tuple(self._node_numbers(labels_of, partitions, applications)),
            now_ms=1,
        )

    def _nodes(self) -> list[tuple[str, str]]:
        """Return nodes, each with its label and, behind a blank, its size."""
        found = []
        for part in filter(None, (part.strip() for part in self.given["nodes"].split(";"))):
            name, _, rest = part.partition("=")
            found.append((name.strip(), "" if rest.strip().startswith("res=") else rest.strip()))
        return found

    def _node_numbers(
        self, labels_of: Mapping[str, str], partitions: Mapping[str, Amounts], applications: list[Application]
    ) -> Iterator[NodeNumbers]:
        zero = (0,) * self.types
        for part in filter(None, (part.strip() for part in self.given["nodes"].split(";"))):
            name = part.partition("=")[0].strip()
            size = re.search(r"res=([\d:]+)", part)
            used = zero
            for application in applications:
                for container in application.containers:
                    if container.node == name and not container.is_reserved:
                        used = add(used, container.amounts)
            label = labels_of[name]
            whole = self.amount(size.group(1)) if size else partitions.get(label, zero)
            yield NodeNumbers(name=name, partition=label, total=whole, used=used, killable=zero)

    def _shapes(self) -> _Shape:
        stack: list[_Shape] = []
        for line in filter(None, (line.strip() for line in self.given["queues"].split(";"))):
            found = re.fullmatch(r"(-*)([^(\s]+)\s*\((.*)\)\s*(?:\{(.*)\})?", line)
            assert found is not None, f"queue notation: {line!r}"
            depth = len(found.group(1))
            parts = {
                label: [self.amount(value) for value in values.split()]
                for label, values in re.findall(r"([^=,\[\]]*)=\[([^\]]*)\]", found.group(3))
            }
            options = dict(option.split("=") for option in (found.group(4) or "").split(",") if option)
            shape = _Shape(found.group(2), parts, options)
            del stack[depth:]
            if stack:
                stack[-1].children.append(shape)
            stack.append(shape)
        return stack[0]

    def _queue(
        self,
        shape: _Shape,
        parent: str,
        partitions: Mapping[str, Amounts],
        shared: set[str],
        applications: Mapping[str, tuple[Application, ...]],
    ) -> PreemptionQueue:
        path = f"{parent}.{shape.name}" if parent else shape.name
        children = tuple(self._queue(child, path, partitions, shared, applications) for child in shape.children)
        zero = (0,) * self.types
        numbers: dict[str, QueueNumbers] = {}
        capacity: dict[str, float] = {}
        last = list(shape.parts.values())[-1] if shape.parts else []
        for label, whole in partitions.items():
            own = shape.parts.get(label, [zero, zero, zero, zero])
            capacity[label] = self.arithmetic.divide(whole, own[0], whole)
            guaranteed = last[0] if last and not is_zero(last[0]) else scaled(whole, capacity[label])
            maximum = last[1] if last and not is_zero(last[1]) and label not in shared else whole
            reserved = own[4] if len(own) > 4 else zero
            pending = last[3] if last else zero
            unreserved = subtract(pending, last[4]) if len(last) > 4 else pending
            if children:
                pending = unreserved = zero
                for child in children:
                    pending = add(pending, child.numbers[label].pending)
                    unreserved = add(unreserved, child.numbers[label].pending_without_reserved)
            numbers[label] = QueueNumbers(
                guaranteed=guaranteed,
                maximum=maximum,
                used=own[2],
                pending=pending,
                pending_without_reserved=unreserved,
                reserved=reserved,
                killable=zero,
            )
        leaf = None if children else self._leaf(path, partitions, capacity, numbers, applications)
        disabled = shape.options.get("disable_preemption") == "true" or _disabled(self.conf, path)
        return PreemptionQueue(
            path=path,
            numbers=numbers,
            children=children,
            leaf=leaf,
            priority=int(shape.options.get("priority", "0")) if parent else 0,
            disabled=disabled,
        )

    def _leaf(
        self,
        path: str,
        partitions: Mapping[str, Amounts],
        capacity: Mapping[str, float],
        numbers: Mapping[str, QueueNumbers],
        applications: Mapping[str, tuple[Application, ...]],
    ) -> LeafNumbers:
        zero = (0,) * self.types
        users = {application.user for application in applications.get(path, ())}
        used = dict.fromkeys(users, zero)
        for application in applications.get(path, ()):
            used[application.user] = add(used[application.user], application.used.get("", zero))
        limit = self._limit(path, scaled(partitions[""], capacity[""]), len(users))
        ratio = self.arithmetic.divide
        return LeafNumbers(
            minimum_allocation=(1, 1, *(0,) * (self.types - 2)),
            absolute_capacity=capacity[""],
            used_capacity={
                label: ratio(partitions[label], one.used, one.guaranteed) if not is_zero(one.guaranteed) else 0.0
                for label, one in numbers.items()
            },
            orders_fairly=self.conf.get(f"{_SCHEDULER}{path}.ordering-policy") == "fair",
            intra_queue_disabled=_disabled(self.conf, path, "intra-queue-preemption."),
            user_limits={label: self._limits(path, label, users, limit) for label in partitions},
            user_used={"": used},
        )

    def _limit(self, path: str, capacity: Amounts, users: int) -> Amounts:
        percents = [
            int(app["minimumUserLimitPercent"]) for app in self.given["apps"] if "minimumUserLimitPercent" in app
        ]
        by = 100 // percents[0] if percents else users
        return self.arithmetic.divide_up(capacity, max(1, by))

    def _limits(self, path: str, label: str, users: set[str], limit: Amounts) -> dict[str, Amounts]:
        """Return the limits that the recording names, as its README says, and the fixture's for others."""
        recorded = self.recorded.get(f"{path}|{label}", {}).get("usersIntraQueue", {})
        return {
            user: add(tuple(recorded[user]["userLimitMinusAM"]), tuple(recorded[user]["amUsed"]))
            if user in recorded
            else limit
            for user in users
        }

    def _applications(
        self, leaf_paths: Mapping[str, str], labels_of: Mapping[str, str], shared: set[str]
    ) -> list[Application]:
        found = []
        for given in self.given["apps"]:
            name = f"app{given['app']}"
            queue = leaf_paths[given["queue"].rpartition(".")[2]]
            containers: list[Container] = []
            pending: dict[str, Amounts] = {}
            used: dict[str, Amounts] = {}
            am_used: dict[str, Amounts] = {}
            zero = (0,) * self.types
            for one in given["containers"]:
                label = one.get("label", "")
                partition = labels_of.get(one["host"], "")
                if "pending" in one:
                    pending[label] = add(pending.get(label, zero), self.amount(one["pending"]))
                size = self.amount(one["resource"])
                for _ in range(int(one["repeat"])):
                    self.sequence += 1
                    is_reserved = str(one.get("reserved", False)).lower() == "true"
                    is_am = not containers
                    containers.append(
                        Container(
                            key=f"{name}/{self.sequence}",
                            sequence=self.sequence,
                            app=name,
                            queue=queue,
                            node=one["host"],
                            partition=partition,
                            amounts=size,
                            priority=int(one["priority"]),
                            is_am=is_am,
                            is_reserved=is_reserved,
                            ignores_exclusivity=label == "" and partition in shared,
                        )
                    )
                    if is_am:
                        am_used[partition] = size
                    if not is_reserved:
                        used[label] = add(used.get(label, zero), size)
            users = [one["user"] for one in given["containers"] if one.get("user")]
            found.append(
                Application(
                    key=name,
                    sequence=int(given["app"]),
                    queue=queue,
                    user=users[-1] if users else "user",
                    priority=int(given["containers"][-1]["priority"]),
                    containers=tuple(containers),
                    pending=pending,
                    used=used,
                    am_used=am_used,
                )
            )
        return found


def _pairs(text: str) -> list[tuple[str, str]]:
    found = [part.strip().partition("=") for part in text.split(";") if part.strip()]
    return [(name, value) for name, _, value in found]


def _leaf_paths(shape: _Shape, parent: str) -> Iterator[tuple[str, str]]:
    path = f"{parent}.{shape.name}" if parent else shape.name
    if not shape.children:
        yield shape.name, path
    for child in shape.children:
        yield from _leaf_paths(child, path)


def _disabled(conf: Mapping[str, str], path: str, kind: str = "") -> bool:
    """Return a queue's own setting, or that of the nearest queue above that has one."""
    while path:
        value = conf.get(f"{_SCHEDULER}{path}.{kind}disable_preemption")
        if value is not None:
            return value == "true"
        path = path.rpartition(".")[0]
    return False


# 3. What is compared


def _event_differences(
    found: PreemptionRound,
    settings: PreemptionSettings,
    expect: Mapping[str, Any],
    flags: set[str],
    earlier: Mapping[str, Mapping[str, int]],
    *,
    earlier_is_missing: bool,
) -> list[str]:
    step = advance(Marks(), found, settings, now_ms=1)
    reported = [(container, "MARK_CONTAINER_FOR_PREEMPTION") for container in step.marked]
    if "MARK_CONTAINER_FOR_KILLABLE" in str(expect.get("events")):  # the recording covers a round after the wait too
        later = advance(step.marks, found, settings, now_ms=1 + settings.max_wait_before_kill_ms)
        reported += [(container, "MARK_CONTAINER_FOR_KILLABLE") for container in later.killed]
    counts: dict[tuple[str, str, str], int] = {}
    for container, event in reported:
        key = container.app, container.node, event
        counts[key] = counts.get(key, 0) + 1
    for container in found.dropped_reservations if not settings.observe_only else ():
        key = container.app, container.node, "KILL_RESERVED_CONTAINER"
        counts[key] = counts.get(key, 0) + 1
    per_app: dict[str, dict[str, int]] = {}
    for (app, _, event), count in counts.items():
        per_app.setdefault(app, {})
        per_app[app][event] = per_app[app].get(event, 0) + count
    expected = expect.get("events", {})
    together = {
        app: {
            event: per_app.get(app, {}).get(event, 0) + earlier.get(app, {}).get(event, 0)
            for event in {*per_app.get(app, {}), *earlier.get(app, {})}
        }
        for app in {*per_app, *earlier}
    }
    if together == expected:
        return []
    if earlier_is_missing and all(
        expected.get(app, {}).get(event, 0) >= count
        for app, events in per_app.items()
        for event, count in events.items()
    ):
        return []
    if "events-vary" in flags:
        mine, theirs = (sum(sum(events.values()) for events in one.values()) for one in (per_app, expected))
        return [f"events in all: {mine}, expected {theirs}"] if mine != theirs else []
    if per_app != expected:
        return [f"events: {per_app}, expected {expected}"]
    nodes = {"|".join(key): count for key, count in counts.items()}
    if nodes != expect.get("perAppNode", nodes) and "node-choice-varies" not in flags:
        return [f"events per node: {nodes}, expected {expect['perAppNode']}"]
    return []


_FIELDS = {
    "guaranteed": lambda one: one.numbers.guaranteed,
    "max": lambda one: one.numbers.maximum,
    "used": lambda one: one.numbers.used,
    "pending": lambda one: one.numbers.pending,
    "pendingMinusReserved": lambda one: one.numbers.pending_without_reserved,
    "preemptionDisabled": lambda one: one.queue.disabled,
    "priority": lambda one: one.queue.priority,
    "idealAssigned": lambda one: one.ideal,
    "toBePreempted": lambda one: one.to_preempt,
    "actuallyToBePreempted": lambda one: one.to_obtain,
    "untouchableExtra": lambda one: one.untouchable,
    "preemptableExtra": lambda one: one.preemptable,
}


def _queue_differences(found: PreemptionRound, expected: Mapping[str, Any]) -> list[str]:
    differences = []
    for key, fields in expected.items():
        path, _, partition = key.partition("|")
        assignment = found.assignments.by_key[path, partition]
        for name, value in fields.items():
            if name not in _FIELDS:
                continue
            mine = _FIELDS[name](assignment)
            theirs = tuple(value) if isinstance(value, list) else value
            if mine != theirs:
                differences.append(f"{key} {name}: {mine}, expected {theirs}")
        differences += _application_differences(found, path, partition, fields)
    return differences


def _application_differences(found: PreemptionRound, path: str, partition: str, fields: Mapping[str, Any]) -> list[str]:
    reassigned = found.reassigned.get((path, partition))
    if "appsIntraQueue" not in fields:
        return [] if reassigned is None else [f"{path}|{partition}: applications were looked at"]
    if reassigned is None:
        return [f"{path}|{partition}: applications were not looked at"]
    mine = {one.application.key: one for one in reassigned.applications}
    differences = []
    for theirs in fields["appsIntraQueue"]:
        one = mine.get(f"app{theirs['app']}")
        if one is None:
            differences.append(f"{path}|{partition} app{theirs['app']} is missing")
            continue
        for name, value in (
            ("used", one.used),
            ("pending", one.pending),
            ("idealAssigned", one.ideal),
            ("toBePreempted", one.to_preempt),
            ("actuallyToBePreempted", one.to_obtain),
        ):
            if tuple(theirs[name]) != value:
                differences.append(f"{path}|{partition} app{theirs['app']} {name}: {value}, expected {theirs[name]}")
    return differences
