"""Policies whose victims come back first do not evict for ever: every job of a crowded cluster ends."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from strato.node.shapes import parse_nodes
from strato.sim.decisions.run import simulate_decisions
from strato.sim.results.record import Ending
from strato.sim.traces import Trace, TraceJob
from tests.sim.decisions.traces import config_of

HIERARCHY = {
    "sci": ("root/sci", "100/50"),
    "dev": ("root/eng/dev", "100/50/50"),
    "prod": ("root/eng/prod", "100/50/50"),
}
QUEUES = [
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {
            "name": name,
            "annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights},
        },
        "spec": {"weight": 1},
    }
    for name, (path, weights) in HIERARCHY.items()
]


def crowd(seed: int) -> Trace:
    """Return fourteen jobs of three queues that come within minutes and ask for more than four nodes have."""
    random = Random(seed)
    jobs = []
    for number in range(14):
        replicas = random.choice([1, 1, 2, 3, 4])
        job = TraceJob(
            name=f"j-{number:02}",
            submit_seconds=float(random.randint(0, 200)),
            run_seconds=float(random.choice([30, 100, 300, 600])),
            replicas=replicas,
            min_replicas=random.choice([None, 1, replicas]),
            requests={"cpu": random.choice(["1", "2", "3"]), "memory": random.choice(["1Gi", "4Gi"])},
            queue=random.choice(list(HIERARCHY)),
        )
        jobs.append(job)
    return Trace(tuple(sorted(jobs, key=lambda job: job.submit_seconds)))


@pytest.mark.parametrize("seed", [1, 2, 4, 5])
def test_queues_of_a_hierarchy_do_not_reclaim_from_each_other_for_ever(seed: int) -> None:
    config = config_of("a hierarchy of queues reclaims")
    record = simulate_decisions(crowd(seed), parse_nodes("4x4cpu,16Gi"), config, seed=seed, queues=QUEUES)
    assert not np.isnan(record.finish_seconds).any()
    assert (record.interval_ending == Ending.EVICTED).sum() < 100
