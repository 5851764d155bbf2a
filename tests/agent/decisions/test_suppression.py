"""Suppression and release: the worked example of the specification, then what holds for every host."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.agent.decisions.release import ReleaseOptions, choose_releases
from strato.agent.decisions.suppression import SuppressionOptions, choose_cuts, floor_milli
from strato.agent.events import ContainerEvent, Suppression, Workload

OPTIONS = SuppressionOptions()


def container(name: str, priority: int, used: float, **more: object) -> ContainerEvent:
    base = ContainerEvent(at=0, pod_uid=name, pod=name, priority=priority, used_cores=used, workload=Workload.TRAINING)
    return replace(base, **more)


A, B = container("a", 1000, 20), container("b", 100, 10)
C, D = container("c", 0, 6), container("d", 0, 4)
EXAMPLES = [
    pytest.param([A, B, C, D], {"c/": 3000, "d/": 2200}, 0.0, id="both of the lowest priority are enough"),
    pytest.param([A, D], {"d/": 2000, "a/": 17200}, 0.0, id="the highest gives what is left"),
    pytest.param([D], {"d/": 2000}, 2.8, id="too few containers leave a need"),
    pytest.param(
        [replace(C, is_guaranteed=True, request_milli=8000), D],
        {"d/": 2000, "c/": 4000},
        0.8,
        id="guaranteed ones are last of their priority, and keep half of their request",
    ),
    pytest.param([replace(C, is_sidecar=True), D], {"d/": 2000}, 2.8, id="sidecars are left alone"),
]


@pytest.mark.parametrize(("containers", "limits", "unmet"), EXAMPLES)
def test_cuts_of_the_worked_example(containers: list[ContainerEvent], limits: dict[str, int], unmet: float) -> None:
    cuts = choose_cuts(48, 0.95, containers, OPTIONS)
    assert dict(cuts.limits_milli) == limits
    assert list(cuts.limits_milli) == list(limits)
    assert cuts.unmet_cores == pytest.approx(unmet)


def test_a_gang_shares_its_cut_by_use() -> None:
    gang = [container("w0", 0, 4, job="j"), container("w1", 0, 2, job="j")]
    cuts = choose_cuts(48, 0.9, gang, replace(OPTIONS, gang_aware=True))
    assert cuts.limits_milli == {"w0/": 2400, "w1/": 1200}


CONTAINERS = st.lists(
    st.builds(
        ContainerEvent,
        at=st.just(0.0),
        pod_uid=st.uuids().map(str),
        priority=st.sampled_from([0, 100, 1000]),
        used_cores=st.floats(0, 30),
        workload=st.sampled_from(list(Workload)),
        limit_milli=st.none() | st.integers(10, 30_000),
        request_milli=st.integers(0, 20_000),
        is_guaranteed=st.booleans(),
        has_exclusive_cpus=st.booleans(),
        job=st.sampled_from(["", "j1", "j2"]),
    ),
    max_size=40,
    unique_by=lambda one: one.pod_uid,
)
SETTINGS = st.builds(
    SuppressionOptions,
    cut_fraction=st.floats(0.01, 0.99),
    min_cores=st.floats(0.01, 2),
    min_request_fraction=st.floats(0, 1),
    gang_aware=st.booleans(),
)


@given(CONTAINERS, SETTINGS, st.floats(0.0, 1.0))
def test_no_container_falls_below_its_minimum_and_no_more_is_cut_than_needed(
    containers: list[ContainerEvent], options: SuppressionOptions, cpu: float
) -> None:
    cuts = choose_cuts(64, cpu, containers, options)
    known = {one.key: one for one in containers}
    need = max(0.0, (cpu - options.target) * 64)
    cut = {key: known[key].used_cores - limit / 1000 for key, limit in cuts.limits_milli.items()}
    for key, limit in cuts.limits_milli.items():
        assert limit >= floor_milli(known[key], options) - 1e-3
        assert limit >= known[key].used_cores * (1 - options.cut_fraction) * 1000 - 1e-3
        assert 0 < cut[key] <= known[key].used_cores
        assert known[key].workload is Workload.TRAINING
    assert sum(cut.values()) <= need + 1e-6
    if cpu < options.overload:
        assert not cuts.limits_milli
    # nobody is cut while one of lower priority that could be has not been
    priorities = [known[key].priority for key in cuts.limits_milli]
    assert priorities == sorted(priorities)


@given(
    st.lists(st.tuples(st.none() | st.integers(500, 20_000), st.integers(100, 400)), max_size=20),
    st.floats(0.0, 0.79),
)
def test_a_host_that_stays_cool_gives_everything_back(cuts: list[tuple[int | None, int]], cpu: float) -> None:
    kept = {
        f"{number}/": (
            container(str(number), number % 3, 1.0),
            Suppression(id="", from_milli=origin, to_milli=limit, at=number, used_milli=2 * limit),
        )
        for number, (origin, limit) in enumerate(cuts)
    }
    options = ReleaseOptions()
    for _ in range(2000):
        if not kept:
            break
        limits = choose_releases(48, cpu, options.cool_rounds, kept.values(), options)
        given_back = 0
        for key, limit in limits.items():
            one, record = kept[key]
            given_back += (limit if limit is not None else 2 * record.used_milli) - record.to_milli
            assert limit is None or record.to_milli <= limit <= (record.from_milli or 10**9)
            if limit == record.from_milli:
                del kept[key]
            else:
                assert limit is not None
                kept[key] = (one, replace(record, to_milli=limit))
        assert given_back <= 1000 * 48 * min(options.step, options.warning - cpu) + len(limits)
    assert not kept
