"""The two fidelities make the same decisions.

Compared are whole records: which pod ran on which node from when to when, to the microsecond; how that ended, and for
which job's sake a pod was evicted; when each job started and ended, and what is given as the reason of those that did
not. Nothing of it may differ. The order of intervals that begin at one instant does: the API shows them as its watch
does, so they are compared sorted. Pods whose annotations leave something to chance are left out: a hollow node draws
by the pod's uid, and the uids differ, because the API gives some to events too.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from strato.sim.decisions.run import simulate_decisions
from strato.sim.objects import simulate_objects
from tests.sim.decisions.traces import Scene, config_of, differences, scenes


@given(scenes())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_both_fidelities_decide_the_same(scene: Scene) -> None:
    config = config_of(scene.policy)
    decisions, objects = (
        simulate(scene.trace, scene.shapes, config, seed=scene.seed, queues=scene.queues)
        for simulate in (simulate_decisions, simulate_objects)
    )
    assert not differences(decisions, objects)
