"""Whom ``suppress`` makes give way, and whom it does not."""

from __future__ import annotations

from random import Random

from strato.agent.events import ActionKind, ContainerEvent, HostEvent, Workload
from strato.agent.handlers.suppress import Suppress, SuppressOptions


def container(name: str, used: float, **more: object) -> ContainerEvent:
    facts = {"workload": Workload.TRAINING, "used_cores": used, **more}
    return ContainerEvent(at=1.0, pod_uid=name, container="main", id="1", **facts)  # type: ignore[arg-type]  # values of a table


def cuts(cpu: float, *containers: ContainerEvent, **options: object) -> dict[str, tuple[float | None, bool]]:
    handler = Suppress(SuppressOptions(rounds=1, **options), Random(1))  # type: ignore[arg-type]  # values of a table
    host = HostEvent(at=1.0, capacity_cores=8.0, cpu=cpu, containers=containers)
    actions = [one for one in handler.on_host(host) if one.kind is ActionKind.SET_QUOTA]
    return {one.target.partition("/")[0]: (one.value, one.gives_way) for one in actions}


def test_who_is_cut_gives_way_below_a_priority_unless_guaranteed() -> None:
    pods = [
        container("low", 4.0),
        container("high", 2.0, priority=1000),
        container("guaranteed", 1.0, is_guaranteed=True, request_milli=1000),
    ]
    assert cuts(0.99, *pods) == {"low": (2880, True)}, "enough is freed"
    assert cuts(0.99, *pods, cut_fraction=0.1) == {
        "low": (3600, True), "high": (1800, False), "guaranteed": (900, False)
    }  # fmt: skip
    assert cuts(0.99, *pods, give_way_below=0) == {"low": (2880, False)}


def test_who_has_nothing_left_to_give_gives_way_all_the_same() -> None:
    """Kept from the CPU by others, training uses too little to be cut, and still competes with services."""
    pods = [
        container("starved", 0.07),
        container("held", 0.05, limit_milli=60, base_milli=60),
        container("online", 7.5, workload=Workload.ONLINE),
        container("high", 0.07, priority=1000),
        container("guaranteed", 0.07, is_guaranteed=True, request_milli=4000),
    ]
    assert cuts(0.99, *pods) == {"starved": (100, True), "held": (60, True)}
    assert cuts(0.85, *pods) == {}, "the host is not overloaded"
