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


def test_a_host_at_rest_is_skipped_and_a_handler_of_others_never() -> None:
    assert Handler(None, Random(1)).may_skip() is False
    suppress = Suppress(SuppressOptions(), Random(1))
    suppress.on_host(host(0.0, 1.0, 1.0, {}, cut=False))
    assert suppress.may_skip()
    suppress.on_host(host(5.0, 7.5, 1.0, {}, cut=False))
    assert not suppress.may_skip()
