from __future__ import annotations

import asyncio

import pytest

from strato.api.core import Node, Pod
from strato.api.volcano.scheduling import PodGroup
from strato.errors import InvariantError
from strato.testing import cluster, node, pod, queue, vcjob
from strato.testing.harness import ConditionTimeout, Harness, run_in_virtual_time


def test_builders_are_plain_json_and_steps_are_copies() -> None:
    plain = pod("a", cpu="1")
    labelled = plain.label("tier", "gold").runs(5).on("n")
    assert "labels" not in plain["metadata"]
    assert labelled["metadata"]["labels"] == {"tier": "gold"}
    assert labelled.view(Pod).spec.node_name == "n"
    assert node("n", gpus=2)["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_scene_is_a_value_and_gives_typed_views() -> None:
    two = cluster().node("a").node("b")
    more = two.gang("g", 3, cpu="1").pod("old", on="a")
    assert len(two.objects) == 2
    assert [item.metadata.name for item in more.views(Node)] == ["a", "b"]
    assert more.views(PodGroup)[0].spec.min_member == 3
    assert len({item.metadata.uid for item in more.views(Pod)}) == 4


def test_job_runs_to_its_end_in_virtual_time() -> None:
    async def test(h: Harness) -> None:
        await h.apply(vcjob("train").task("worker", 2, cpu="1", run_seconds=3600))
        await h.eventually(lambda: h.job("train").status.state.phase == "Completed", timeout_seconds=4000)
        assert h.clock.monotonic() > 3600
        assert set(h.placement()) == {"train-worker-0", "train-worker-1"}

    run_in_virtual_time(test, nodes="2x4cpu,8Gi")


def test_jobs_with_gpus_run_one_after_the_other() -> None:
    """The group's minResources name what a quota would charge too (requests.nvidia.com/gpu), which no node has."""

    async def test(h: Harness) -> None:
        for name in ("a", "b"):
            await h.apply(vcjob(name).task("w", 1, gpus=1, run_seconds=10))
        await h.eventually(lambda: len(h.placement()) == 1)
        names = ("a", "b")
        await h.eventually(lambda: all(h.job(n).status.state.phase == "Completed" for n in names), timeout_seconds=60)
        assert h.clock.monotonic() > 20

    run_in_virtual_time(test, nodes="1x4cpu,8Gi,1gpu")


def test_gang_that_does_not_fit_waits_whole_and_starts_when_there_is_room() -> None:
    async def test(h: Harness) -> None:
        await h.apply(vcjob("big").task("w", 3, cpu="2", run_seconds=10))
        await h.settle(quiet_seconds=5)
        assert h.placement() == {}
        await h.apply(node("extra", cpu="4", memory="8Gi"))
        await h.create(node("extra2", cpu="4", memory="8Gi"))
        await h.eventually(lambda: len(h.placement()) == 3)

    run_in_virtual_time(test, nodes="1x2cpu,8Gi")


async def test_harness_works_on_the_real_clock() -> None:
    async with Harness(cluster().queue("q"), nodes="1x4cpu,8Gi") as h:
        await h.apply(vcjob("j", queue="q").task("w", 1, cpu="1", run_seconds=0.05))
        await h.eventually(lambda: h.job("j").status.state.phase == "Completed")
        assert h.pods(volcano_sh_job_name="j")[0].status.phase == "Succeeded"


def test_what_never_happens_says_so_with_the_pods() -> None:
    async def test(h: Harness) -> None:
        await h.apply(vcjob("j").task("w", 1, cpu="100"))
        with pytest.raises(ConditionTimeout, match=r"still not: a miracle[\s\S]*group default/j-.*: Pending"):
            await h.eventually(lambda: h.pod("j-w-0").spec.node_name, what="a miracle")

    run_in_virtual_time(test, nodes="1x4cpu,8Gi")


def test_bug_in_a_handler_fails_the_test() -> None:
    async def test(h: Harness) -> None:
        def fail(_: object) -> None:
            raise ValueError("odd")

        h.informer(Node).add_handler(fail)

    with pytest.raises(InvariantError, match="odd"):
        run_in_virtual_time(test, nodes="1x4cpu,8Gi")


def test_apply_changes_what_is_there() -> None:
    async def test(h: Harness) -> None:
        await h.apply(queue("q"))
        await h.apply(queue("q", weight=5))
        await h.eventually(lambda: h.queue("q").spec.weight == 5)

    run_in_virtual_time(test, scheduler=False)


async def test_real_clock_harness_leaves_nothing_running() -> None:
    before = asyncio.all_tasks()
    async with Harness(nodes="1x4cpu,8Gi") as h:
        await h.settle(quiet_seconds=0.05)
    assert asyncio.all_tasks() == before
