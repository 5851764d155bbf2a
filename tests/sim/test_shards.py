"""Two schedulers' shares of a simulated cluster: the sharding controller divides, the one engine keeps to it."""

from __future__ import annotations

from random import Random

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.shard import NodeShard
from strato.clock import VirtualClock, run_virtual
from strato.controllers.manager import DEFAULT
from strato.node.shapes import NodeShape
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.testing import manifests

AGENT = "agent-scheduler"


def test_the_nodes_of_a_simulated_cluster_are_divided_between_two_schedulers() -> None:
    """Full nodes are the agent scheduler's, as in Volcano; a pod of its goes to one of them and no other's does."""

    async def story(clock: VirtualClock) -> None:
        options = ClusterOptions(
            nodes=(NodeShape(count=4, resources={"cpu": "10", "memory": "64Gi", "pods": "110"}),),
            controllers=(*DEFAULT, "sharding-controller"),
            shard_mode="hard",
        )
        simulated = SimulatedCluster(clock, Random(1), options)
        await simulated.start()
        api = simulated.admin
        for number in range(2):
            await api.create(catalog.POD, manifests.pod(f"full-{number}", cpu="8", scheduler="default-scheduler"))
        await clock.sleep(120)
        shares = {one.metadata.name: set(one.status.nodes_in_use) for one in (await api.list(NodeShard)).items}
        full = {pod.spec.node_name for pod in (await api.list(Pod)).items}
        assert shares[AGENT] == full
        assert len(shares["volcano"]) == 4 - len(full)
        for number in range(2):
            await api.create(catalog.POD, manifests.pod(f"agent-{number}", cpu="500m", scheduler=AGENT))
            await api.create(catalog.POD, manifests.pod(f"other-{number}", cpu="500m", scheduler="default-scheduler"))
        await clock.sleep(5)
        places = {pod.metadata.name: pod.spec.node_name for pod in (await api.list(Pod)).items}
        assert {places["agent-0"], places["agent-1"]} <= shares[AGENT]
        assert {places["other-0"], places["other-1"]} <= shares["volcano"]
        await simulated.stop()

    clock = VirtualClock()
    run_virtual(clock, story(clock))
