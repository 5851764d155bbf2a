"""Load on a whole cluster in virtual time: open loop, followed by watch, everything removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.clock import VirtualClock, run_virtual
from strato.controllers.manager import DEFAULT
from strato.errors import InvalidInput, NotFound
from strato.node.shapes import parse_nodes
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.sim.load.experiment import NodeFault, is_test, read_test
from strato.sim.load.faults import apply_faults, heal
from strato.sim.load.plan import LoadOptions
from strato.sim.load.result import LoadResult
from strato.sim.load.run import LoadRun
from strato.sim.workloads.jobs import TraceJob

JOBS = [
    TraceJob(
        name=f"j{number}",
        submit_seconds=number,
        run_seconds=5,
        replicas=2,
        requests={"cpu": "1"},
        queue="own",
        priority=3,
    )
    for number in range(10)
]


def _in_a_cluster(
    story: Callable[[SimulatedCluster, VirtualClock], Awaitable[LoadResult]], nodes: str = "4x8cpu"
) -> LoadResult:
    clock = VirtualClock()

    async def run() -> LoadResult:
        controllers = (*DEFAULT, "kube-namespace-controller", "kube-garbage-collector")
        world = SimulatedCluster(clock, Random(1), ClusterOptions(nodes=parse_nodes(nodes), controllers=controllers))
        await world.start()
        try:
            return await story(world, clock)
        finally:
            await world.stop()

    return run_virtual(clock, run())


async def _is_there(cluster: Cluster, kind: object, name: str) -> bool:
    try:
        await cluster.get(kind, name)  # type: ignore[call-overload]  # a kind of the catalogue
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("kind", ["jobs", "pods"])
def test_every_pod_is_followed_to_its_end_and_nothing_is_left(kind: str) -> None:
    async def story(world: SimulatedCluster, clock: VirtualClock) -> LoadResult:
        options = LoadOptions(pods_per_second=4.0, kind=kind, drain_seconds=300)
        result = await LoadRun(world.admin, clock, Random(1), options, "load-1").run(JOBS)
        for of, name in ((catalog.NAMESPACE, "load-1"), (catalog.QUEUE, "own"), (catalog.PRIORITYCLASS, "trace-3")):
            assert not await _is_there(world.admin, of, name), name
        return result

    result = _in_a_cluster(story)
    assert result.left_behind == ""
    assert result.reached == {"acknowledged": 20, "bound": 20, "running": 20, "ended": 20}
    assert result.latencies["ended"].percentiles["p50"] >= result.latencies["running"].percentiles["p50"] + 5
    assert result.per_second["due"] == pytest.approx(4.0 if kind == "pods" else 2.0, rel=0.01)


def test_load_does_not_wait_for_a_cluster_that_is_full() -> None:
    async def story(world: SimulatedCluster, clock: VirtualClock) -> LoadResult:
        options = LoadOptions(pods_per_second=20.0, run_seconds=1000, drain_seconds=30)
        return await LoadRun(world.admin, clock, Random(1), options, "load-2").run(JOBS)

    result = _in_a_cluster(story, "1x4cpu")
    assert (result.submissions, result.pods, result.reached["running"], result.reached["ended"]) == (10, 20, 4, 0)
    assert result.late == 0
    assert result.seconds == pytest.approx(0.9 + 30, abs=1)


def test_queues_that_were_there_stay_and_interrupted_load_is_removed() -> None:
    async def story(world: SimulatedCluster, clock: VirtualClock) -> LoadResult:
        own = {
            "apiVersion": catalog.QUEUE.api_version,
            "kind": "Queue",
            "metadata": {"name": "own"},
            "spec": {"weight": 2},
        }
        await world.admin.create(catalog.QUEUE, own)
        task = asyncio.ensure_future(
            LoadRun(world.admin, clock, Random(1), LoadOptions(pods_per_second=1.0), "load-3").run(JOBS)
        )
        await clock.sleep(7)
        task.cancel()
        result = await task
        assert await _is_there(world.admin, catalog.QUEUE, "own")
        assert not await _is_there(world.admin, catalog.NAMESPACE, "load-3")
        return result

    result = _in_a_cluster(story)
    assert result.interrupted
    assert 2 <= result.submissions < 10


def test_refused_submissions_are_counted_by_reason() -> None:
    async def story(world: SimulatedCluster, clock: VirtualClock) -> LoadResult:
        bad = [TraceJob(name="Not_Valid", submit_seconds=0, run_seconds=1, requests={"cpu": "1"}), *JOBS[:1]]
        options = LoadOptions(pods_per_second=5.0, drain_seconds=60)
        return await LoadRun(world.admin, clock, Random(1), options, "load-4").run(bad)

    result = _in_a_cluster(story)
    assert sum(result.errors.values()) == 1
    assert (result.pods, result.reached["ended"]) == (2, 2)
    assert result.measures()["failedRequests"] == 1.0


def test_faults_befall_nodes_and_are_taken_back() -> None:
    async def story(world: SimulatedCluster, clock: VirtualClock) -> LoadResult:
        faults = (NodeFault(1.0, "slow factor=3", 0, ("hollow-0", "nowhere")), NodeFault(0.5, "slow factor=2", 2, ()))
        log: list[str] = []
        failing = asyncio.create_task(apply_faults(world.admin, clock, Random(1), faults, log))
        options = LoadOptions(pods_per_second=4.0, drain_seconds=100)
        result = await LoadRun(world.admin, clock, Random(1), options, "load-5").run(JOBS, during=[failing])
        assert len(log) == 4
        assert [line.split(":")[0] for line in log] == ["0.5s", "0.5s", "1s", "1s"]
        assert "nowhere" in log[3]
        await heal(world.admin, faults)
        annotations = [
            node["metadata"].get("annotations") or {} for node in (await world.admin.list(catalog.NODE)).items
        ]
        assert all("strato.dev/failure" not in one for one in annotations)
        return result

    assert _in_a_cluster(story).reached["ended"] == 20


TEST = """kind: LoadTest
nodes: 10x4cpu
load: {trace: t.csv, rate: 200/s, as: pods, runSeconds: 3}
faults:
- {at: 5, nodes: 2, failure: dead for=1m}
expectations:
  boundP99Seconds: {max: 1}
  runningPerSecond: {min: 190, max: 210}
"""


def test_performance_test_is_read_with_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("submit,run_time\n0,1\n")
    path = tmp_path / "test.yaml"
    path.write_text(TEST)
    assert is_test(path)
    test = read_test(path)
    assert (test.trace, test.options.pods_per_second, test.options.kind) == (str(tmp_path / "t.csv"), 200.0, "pods")
    bound, rate = test.expectations
    assert bound.verdict({"boundP99Seconds": 0.5})[0]
    assert rate.verdict({"runningPerSecond": 100.0}) == (
        False,
        "FAIL runningPerSecond = 100; expected at least 190 and at most 210",
    )
    assert not bound.verdict({})[0]


def test_all_problems_of_a_test_are_named(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(
        """kind: LoadTest
nodes: many
load: {rate: fast, speed: 2x, as: cars, runSeconds: -1, colour: red}
faults: [{at: x, failure: tired}, {nodes: 1, names: [a], failure: dead}]
drainSeconds: long
seed: 1.5
expectations: {boundP99: {max: 1}, boundPods: {}, endedPods: 5}
"""
    )
    with pytest.raises(InvalidInput) as raised:
        read_test(path)
    where = {problem.where.removeprefix(f"{path}: ") for problem in raised.value.problems}
    assert where == {
        "nodes",
        "load.trace",
        "load.rate",
        "load.as",
        "load.runSeconds",
        "load.colour",
        "faults[0].at",
        "faults[0].failure",
        "faults[0]",
        "faults[1]",
        "drainSeconds",
        "seed",
        "expectations.boundP99",
        "expectations.boundPods",
        "expectations.endedPods",
    }


def test_the_example_is_a_test() -> None:
    test = read_test(Path(__file__).parents[3] / "examples" / "load-test.yaml")
    assert (test.nodes, len(test.expectations), test.faults[0].failure) == ("20x32cpu,256Gi", 3, "slow factor=2")
