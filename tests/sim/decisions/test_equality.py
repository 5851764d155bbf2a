"""The two fidelities make the same decisions.

Compared are whole records: which pod ran on which node from when to when, to the microsecond; how that ended, and for
which job's sake a pod was evicted; when each job started and ended, and what is given as the reason of those that did
not. Nothing of it may differ, but for this: where a reason names one of several pods that are refused alike, it may be
another one. The order of intervals that begin at one instant does differ: the API shows them as its watch does, so they
are compared sorted. Pods whose annotations leave something to chance are left out: a hollow node draws by the pod's
uid, and the uids differ, because the API gives some to events too.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.sim.decisions.run import simulate_decisions
from strato.sim.objects import simulate_objects
from strato.sim.results.record import Ending
from tests.profiles import examples
from tests.sim.decisions.traces import POLICIES, config_of, differences, scene


def evicted(seed: int, policy: str, *, is_contended: bool = False) -> int:
    """Run both fidelities, compare them, and return how many pods were evicted."""
    given_scene = scene(seed, policy, is_contended=is_contended)
    config = config_of(policy)
    decisions, objects = (
        simulate(given_scene.trace, given_scene.shapes, config, seed=given_scene.seed, queues=given_scene.queues)
        for simulate in (simulate_decisions, simulate_objects)
    )
    assert not differences(decisions, objects)
    return int((decisions.interval_ending == Ending.EVICTED).sum())


@given(st.integers(0, 2**32), st.sampled_from(sorted(POLICIES)))
@settings(max_examples=examples(20), deadline=None, derandomize=True)
def test_both_fidelities_decide_the_same(seed: int, policy: str) -> None:
    evicted(seed, policy)


@pytest.mark.parametrize("seed", [5001, 7012, 5])
def test_they_leave_circles_of_evictions_together(seed: int) -> None:
    """These went on at one instant once, and ended at different times."""
    assert evicted(seed, "gangs preempt and reclaim") > 5


CROWDED = [
    pytest.param(1, "all may be reclaimed", id="a broken gang's pods wait for its phase"),
    pytest.param(1, "a hierarchy of queues reclaims", id="a hierarchy reclaims"),
    pytest.param(1, "drf and proportion", id="reclaim and preempt"),
    pytest.param(50, "preemption by priority", id="preempt"),
    pytest.param(3, "drf and proportion", id="the latest nomination is written when the first was due"),
    pytest.param(2, "all may be reclaimed", id="a verdict without a nomination is written in place of one with"),
    pytest.param(34, "a hierarchy of queues reclaims", id="a phase that no cycle has decided is not written"),
]


@pytest.mark.parametrize(("seed", "policy"), CROWDED)
def test_they_evict_the_same_pods_of_a_crowd(seed: int, policy: str) -> None:
    assert evicted(seed, policy, is_contended=True) > 2
