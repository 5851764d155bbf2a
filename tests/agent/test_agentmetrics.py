"""What an agent counts: by priority, what is cut and what is borrowed, and what has grown since the round before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from strato.agent.agentmetrics import AgentMetrics
from strato.agent.events import (
    RESTORED,
    STILL_OVERLOADED,
    SUPPRESSED,
    Action,
    ActionKind,
    ContainerEvent,
    HostEvent,
    Suppression,
)
from strato.metrics import Registry


class Counted:
    """The metrics of node ``n``, and what they say."""

    def __init__(self) -> None:
        self._registry = Registry()
        self.metrics = AgentMetrics(self._registry, "n")

    def round(
        self,
        *containers: ContainerEvent,
        actions: Sequence[Action] = (),
        rewrites: int = 0,
        errors: int = 0,
        codes: Mapping[str, int] | None = None,
    ) -> None:
        host = HostEvent(at=0.0, capacity_cores=8.0, cpu=0.5, memory=0.25, containers=containers)
        self.metrics.count_round(host, actions, rewrites, errors, codes or {})

    def values(self, name: str) -> dict[str, float]:
        """By the labels in their text form."""
        found = {}
        for line in self._registry.render().decode().splitlines():
            if line.startswith((f"strato_agent_{name} ", f"strato_agent_{name}{{")):
                key, value = line.rsplit(" ", 1)
                found[key.removeprefix(f"strato_agent_{name}")] = float(value)
        return found

    def value(self, name: str) -> float:
        [value] = self.values(name).values()
        return value


def cut(priority: int, from_milli: int | None, to_milli: int, used_milli: int = 0) -> ContainerEvent:
    suppression = Suppression(id="i", from_milli=from_milli, to_milli=to_milli, at=0.0, used_milli=used_milli)
    return ContainerEvent(at=0.0, priority=priority, suppression=suppression)


def test_what_is_cut_is_told_by_priority_until_nothing_is() -> None:
    counted = Counted()
    counted.round(cut(0, 4000, 1000), cut(0, 2000, 1500), cut(9, None, 1000, used_milli=3000), ContainerEvent(at=0.0))
    low, high = '{node="n",priority="0"}', '{node="n",priority="9"}'
    assert counted.values("suppressed_cores") == {low: 3.5, high: 2.0}
    counted.round(cut(9, None, 1000))  # what it used is not known
    assert counted.values("suppressed_cores") == {low: 0.0, high: 0.0}


@pytest.mark.parametrize(
    ("containers", "cores"),
    [
        pytest.param([(3000, 2000), (5000, 4500)], 1.5, id="together"),
        pytest.param([(1000, 2000), (3000, 2000)], 1.0, id="who has less than its limit lends nothing"),
        pytest.param([(None, 2000), (3000, None), (None, None)], 0.0, id="no limit, no burst"),
        pytest.param([], 0.0, id="nobody"),
    ],
)
def test_a_burst_is_what_is_above_the_limit_asked_for(
    containers: list[tuple[int | None, int | None]], cores: float
) -> None:
    counted = Counted()
    counted.round(*(ContainerEvent(at=0.0, limit_milli=limit, base_milli=base) for limit, base in containers))
    assert counted.value("burst_cores") == cores


def test_totals_count_what_has_come_since_the_round_before() -> None:
    counted = Counted()
    counted.round(rewrites=2, errors=1, codes={"200": 3})
    counted.round(rewrites=2, errors=4, codes={"200": 5, "503": 1})
    assert counted.value("quota_rewrites_total") == 2
    assert counted.value("handler_errors_total") == 4
    assert counted.values("traffic_calls_total") == {'{code="200"}': 5.0, '{code="503"}': 1.0}


def test_the_host_and_what_cannot_be_freed_are_those_of_the_last_round() -> None:
    counted = Counted()
    lacking = Action(kind=ActionKind.EVENT, reason=STILL_OVERLOADED, value=1.5)
    counted.round(actions=[lacking, Action(kind=ActionKind.EVENT, reason=SUPPRESSED, value=4.0)])
    assert counted.value("unmet_cores") == 1.5
    assert counted.values("host_cpu_utilisation") == {'{node="n"}': 0.5}
    assert counted.values("host_memory_utilisation") == {'{node="n"}': 0.25}
    counted.round()
    assert counted.value("unmet_cores") == 0.0


def test_only_what_is_given_back_whole_is_released() -> None:
    counted = Counted()
    given = [(ActionKind.SET_QUOTA, SUPPRESSED), (ActionKind.SET_QUOTA, RESTORED), (ActionKind.CLEAR, RESTORED)]
    counted.metrics.count_done(Action(kind=kind, reason=reason) for kind, reason in [*given, *given[:1]])
    assert (counted.value("suppressions_total"), counted.value("released_total")) == (2, 1)
