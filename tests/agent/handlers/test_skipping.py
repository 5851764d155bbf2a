"""Rounds that a simulation may leave out: with and without them handlers decide the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.agent.events import Action, ActionKind, ContainerEvent, HostEvent, Suppression, Workload
from strato.agent.handlers import Handler
from strato.agent.handlers.burst import Burst, BurstHandlerOptions
from strato.agent.handlers.suppress import Suppress, SuppressOptions

BASES = {"train": None, "web": 2000}


def host(at: float, training_cores: float, web_cores: float, quotas: dict[str, int | None], cut: bool) -> HostEvent:
    def container(name: str, workload: Workload, wanted: float) -> ContainerEvent:
        limit = quotas.get(name, BASES[name])
        used = wanted if limit is None else min(wanted, limit / 1000)
        return ContainerEvent(
            at=at,
            pod_uid=name,
            container="main",
            id="1",
            workload=workload,
            used_cores=used,
            throttled_ratio=1.0 if limit is not None and limit / 1000 < wanted else 0.0,
            limit_milli=limit,
            base_milli=BASES[name],
            suppression=Suppression(id="1", from_milli=None, to_milli=limit, at=0.0) if cut and limit else None,
        )

    containers = (
        container("train", Workload.TRAINING, training_cores),
        replace(container("web", Workload.ONLINE, web_cores), suppression=None),
    )
    used = sum(one.used_cores for one in containers)
    return HostEvent(at=at, capacity_cores=8.0, cpu=min(1.0, used / 8.0), containers=containers)


def decisions(kind: type[Handler], options: Any, phases: list[tuple[int, float, float]], *, skips: bool) -> list[Any]:
    handler = kind(options, Random(1))
    found, quotas, number = [], dict[str, int | None](), 0
    is_cut = False
    for rounds, training, web in phases:
        first = True
        for _ in range(rounds):
            number += 1
            event = host(number * 5.0, training, web, quotas, is_cut)
            if skips and not first and handler.may_skip():
                continue
            actions: list[Action] = list(handler.on_host(event))
            for action in actions:
                if action.kind in (ActionKind.SET_QUOTA, ActionKind.CLEAR):
                    name = action.target.partition("/")[0]
                    quotas[name] = None if action.value is None else int(action.value)
                    is_cut = is_cut or name == "train"
                    if action.kind is ActionKind.CLEAR:
                        is_cut = False
                    found.append((number, action.kind, name, action.value))
            first = False
    return found


PHASES = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.sampled_from([0.5, 3.0, 4.5, 6.0, 7.5]),
        st.sampled_from([0.5, 1.3, 1.9, 2.5, 4.0]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Suppress, SuppressOptions(cool_rounds=4)), (Burst, BurstHandlerOptions(down_rounds=4))],
    ids=["suppress", "burst"],
)
@given(phases=PHASES)
def test_rounds_that_are_left_out_change_nothing(
    kind: type[Handler], options: Any, phases: list[tuple[int, float, float]]
) -> None:
    assert decisions(kind, options, phases, skips=True) == decisions(kind, options, phases, skips=False)


WEB = ContainerEvent(at=0.0, pod_uid="web", workload=Workload.ONLINE, used_cores=1.5, base_milli=2000, limit_milli=2000)
IDLE, HELD_BACK = replace(WEB, used_cores=1.1), replace(WEB, used_cores=1.8)
BURSTING = replace(WEB, limit_milli=2400)
BURST_ROUNDS = [
    pytest.param([], {}, True, id="before the first round"),
    pytest.param([[]], {}, True, id="no containers"),
    pytest.param([[WEB]], {}, True, id="a container that is neither idle nor held back"),
    pytest.param([[IDLE]], {}, False, id="the first idle round is counted"),
    pytest.param([[IDLE]] * 3, {}, False, id="one round before the step down"),
    pytest.param([[IDLE]] * 4, {}, True, id="idle for long enough"),
    pytest.param([[IDLE], [WEB]], {}, True, id="not idle any more"),
    pytest.param([[HELD_BACK]], {}, False, id="held back"),
    pytest.param([[HELD_BACK], [WEB], [WEB]], {}, False, id="held back in the last three rounds"),
    pytest.param([[HELD_BACK], [WEB], [WEB], [WEB]], {}, True, id="held back before that"),
    pytest.param([[WEB, replace(HELD_BACK, pod_uid="other")]], {}, False, id="one of two is held back"),
    pytest.param([[WEB, replace(HELD_BACK, pod_uid="other")], [WEB]], {}, True, id="who was held back has gone"),
    pytest.param([[HELD_BACK], [replace(WEB, id="2")]], {}, True, id="who was held back has started anew"),
    pytest.param([[BURSTING]], {}, False, id="bursts"),
    pytest.param([[BURSTING], [WEB]], {}, True, id="bursts no more"),
    pytest.param([[WEB]], {"token_period_seconds": 1}, False, id="tokens are counted"),
]


@pytest.mark.parametrize(("rounds", "options", "want"), BURST_ROUNDS)
def test_burst_skips_a_round_only_when_no_count_would_change(
    rounds: list[list[ContainerEvent]], options: dict[str, int], want: bool
) -> None:
    burst = Burst(BurstHandlerOptions(down_rounds=4, **options), Random(1))
    for containers in rounds:
        burst.on_host(HostEvent(at=0.0, capacity_cores=8.0, cpu=0.5, containers=tuple(containers)))
    assert burst.may_skip() is want


SUPPRESS_ROUNDS = [
    pytest.param([], True, id="before the first round"),
    pytest.param([(1.0, False)], True, id="at rest"),
    pytest.param([(7.5, False)], False, id="the first overloaded round is counted"),
    pytest.param([(7.5, False), (1.0, False)], True, id="overloaded no more"),
    pytest.param([(1.0, True)], False, id="a container is cut"),
    pytest.param([(1.0, True), (1.0, False)], True, id="it has its CPU back"),
]


@pytest.mark.parametrize(("rounds", "want"), SUPPRESS_ROUNDS)
def test_suppress_skips_a_round_only_when_no_count_would_change(rounds: list[tuple[float, bool]], want: bool) -> None:
    suppress = Suppress(SuppressOptions(), Random(1))
    for training_cores, is_cut in rounds:
        suppress.on_host(host(0.0, training_cores, 0.5, {"train": 8000}, cut=is_cut))
    assert suppress.may_skip() is want


def test_handlers_of_others_are_never_skipped() -> None:
    assert Handler(None, Random(1)).may_skip() is False
