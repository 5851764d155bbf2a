"""Check the contract of a handler of the node agent on random hosts, for its author's tests.

``check(Mine)`` passes random hosts to a handler, one after the other, and raises `BrokenPromise` at the first broken
rule, with the round that broke it. The rounds depend on the seed alone, so a failure can be reproduced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from strato.agent.events import (
    Action,
    ActionKind,
    ContainerEvent,
    HostEvent,
    Level,
    ResourceLevel,
    Workload,
)
from strato.agent.handlers import Handler

KERNEL_MILLI: Final = 10
"""The kernel's lowest quota: 1,000 µs of a period of 100,000 µs."""
_QUOTAS: Final = frozenset({ActionKind.SET_QUOTA, ActionKind.CLEAR})
_CORES: Final = (1.0, 2.0, 16.0, 48.0, 256.0)
_USES: Final = (0.0, 0.5, 0.79, 0.8, 0.85, 0.9, 0.95, 1.0)


class BrokenPromise(AssertionError):
    """A handler broke the contract of handlers."""


def check(kind: type[Handler], options: Any = None, *, rounds: int = 300, seed: int = 0) -> list[Action]:
    """Run a handler through random rounds; return all its actions.

    Args:
        kind: The handler's class.
        options: An instance of its options' class; None uses its defaults.
        rounds: Number of hosts, among them hosts with the extremes of use.
        seed: Seed of the rounds and of the handler's generator.

    Raises:
        BrokenPromise: The handler raised, named an unknown container, set a quota twice or below the kernel's minimum,
            changed its input, or decided differently on the same rounds with the same seed.
    """
    events = list(random_rounds(Random(seed), rounds))
    first, second = _decisions(kind, options, events, seed), _decisions(kind, options, events, seed)
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            raise BrokenPromise(f"round {number}: {one} the first time, {other} the second time, from one seed")
    return [action for actions in first for action in actions]


def random_rounds(random: Random, rounds: int) -> Iterator[HostEvent]:
    """Yield hosts as an agent reports them, five seconds apart; containers start, end and restart."""
    cores = random.choice(_CORES)
    for number in range(rounds):
        at = 1_000_000.0 + 5 * number
        cpu = random.choice(_USES) if random.random() < 0.5 else random.random()
        level = Level.HOT if cpu >= 0.9 else Level.WARN if cpu >= 0.8 else Level.OK
        containers = tuple(_container(random, index, at, cores) for index in range(random.choice((0, 1, 2, 10))))
        yield HostEvent(
            at=at,
            capacity_cores=cores,
            cpu=cpu,
            memory=random.random(),
            network_receive=random.random(),
            network_send=random.random(),
            levels={name: ResourceLevel(level=level, since=at) for name in ("cpu", "memory", "network")},
            containers=containers,
            best_effort_milli=random.choice((None, 20, int(cores * 500))),
            has_best_effort_group=random.random() < 0.9,
        )


def _container(random: Random, index: int, at: float, cores: float) -> ContainerEvent:
    base = random.choice((None, 100, 1000, int(cores * 1000)))
    return ContainerEvent(
        at=at,
        pod_uid=f"uid-{index}",
        namespace="default",
        pod=f"pod-{index}",
        container="main",
        id=f"run-{index}-{random.choice('ab')}",
        priority=random.choice((0, 100, 1000)),
        workload=random.choice(tuple(Workload)),
        used_cores=random.choice((0.0, 0.001, random.random() * cores)),
        throttled_ratio=random.choice((0.0, random.random())),
        limit_milli=base,
        base_milli=base,
        request_milli=random.choice((0, base or 0)),
        start_time=at - random.random() * 1000,
        is_guaranteed=random.random() < 0.2,
        is_best_effort=random.random() < 0.3,
        has_exclusive_cpus=random.random() < 0.1,
        is_sidecar=random.random() < 0.1,
        job=random.choice(("", "job-a", "job-b")),
    )


def _decisions(kind: type[Handler], options: Any, events: list[HostEvent], seed: int) -> list[list[Action]]:
    handler = kind(kind.defaults if options is None else options, Random(seed))
    return [_round(handler, number, event) for number, event in enumerate(events)]


def _round(handler: Handler, number: int, event: HostEvent) -> list[Action]:
    before = dataclasses.asdict(event)
    try:
        actions = list(handler.on_host(event))
        for container in event.containers:
            actions += handler.on_container(container)
    except Exception as error:
        raise BrokenPromise(
            f"round {number}: it raised {type(error).__name__}: {error}; it was given {event}"
        ) from error
    if dataclasses.asdict(event) != before:
        raise BrokenPromise(f"round {number}: it changed what it was given")
    containers = {one.key: one for one in event.containers}
    written: dict[str, Action] = {}
    for action in actions:
        if action.kind is ActionKind.SET_CLASS_QUOTA and (action.value or 0) < KERNEL_MILLI:
            raise BrokenPromise(f"round {number}: {action}: the kernel takes no less than {KERNEL_MILLI} millicores")
        if action.kind in _QUOTAS:
            problem = _quota_problem(action, containers, written)
            if problem:
                raise BrokenPromise(f"round {number}: {action}: {problem}")
            written[action.target] = action
    return actions


def _quota_problem(action: Action, containers: Mapping[str, ContainerEvent], written: Mapping[str, Action]) -> str:
    if action.target not in containers:
        return f"no container {action.target!r} runs; there are: {', '.join(containers) or 'none'}"
    if action.target in written:
        return "a second quota of one container in one round"
    if action.value is None:
        return "" if action.kind is ActionKind.CLEAR else "a quota without a value"
    if action.value < KERNEL_MILLI:
        return f"{action.value} millicores; the kernel takes no less than {KERNEL_MILLI}"
    return ""
