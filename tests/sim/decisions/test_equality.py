"""The two fidelities make the same decisions.

Compared are whole records: which pod ran on which node from when to when, to the microsecond; how that ended, and for
which job's sake a pod was evicted; when each job started and ended, and what is given as the reason of those that did
not. Nothing of it may differ, but for this: where a reason names one of several pods that are refused alike, it may be
another one. The order of intervals that begin at one instant does differ: the API shows them as its watch does, so they
are compared sorted. Pods whose annotations leave something to chance are left out: a hollow node draws by the pod's
uid, and the uids differ, because the API gives some to events too.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from strato.sim.decisions.run import simulate_decisions
from strato.sim.objects import simulate_objects
from tests.sim.decisions.traces import POLICIES, config_of, differences, scene

_COMPARED = sorted(set(POLICIES) - {"gangs preempt and reclaim"})
"""Where a policy evicts in circles at one instant (the one left out here; reclaim where gangs are not guarded), the
fidelities agree cycle by cycle at first and leave the circle at other times: seeds 5001 and 7012 show it."""


@given(st.integers(0, 2**32), st.sampled_from(_COMPARED))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_both_fidelities_decide_the_same(seed: int, policy: str) -> None:
    given_scene = scene(seed, policy)
    config = config_of(policy)
    decisions, objects = (
        simulate(given_scene.trace, given_scene.shapes, config, seed=given_scene.seed, queues=given_scene.queues)
        for simulate in (simulate_decisions, simulate_objects)
    )
    assert not differences(decisions, objects)
