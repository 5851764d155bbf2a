"""Evictions of the action `flow` among real controllers and nodes, and across a restart of the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from strato.api.core import Pod
from strato.api.wire import User
from strato.client.informer import Informers
from strato.controllers.manager import EMBEDDED
from strato.scheduler import Scheduler
from strato.scheduler.config import parse_config
from strato.testing.harness import Harness, run_in_virtual_time
from strato.testing.manifests import priority_class, vcjob

CONFIG = """
actions: "enqueue, flow, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
configurations: [{name: flow, arguments: {preemption: true, migration: true}}]
"""


def deployment(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    pod = {"schedulerName": "volcano", "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


@contextlib.asynccontextmanager
async def scheduling(h: Harness) -> AsyncIterator[None]:
    """Run a scheduler of our own, which can be stopped as a process is."""
    cluster = h.world.cluster_as(User("scheduler", ("system:masters",)))
    informers = Informers(cluster, h.clock, Random(5))
    scheduler = Scheduler(cluster, informers, h.clock, Random(6), config=parse_config(CONFIG))
    running = asyncio.create_task(scheduler.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await informers.stop()


@pytest.mark.parametrize("restarts", [False, True], ids=["one scheduler", "a scheduler that restarts in the middle"])
def test_a_pod_that_moves_is_replaced_elsewhere_and_the_job_runs_in_its_place(restarts: bool) -> None:
    async def story(h: Harness) -> None:
        webs: dict[str, Pod] = {}

        def look() -> list[Pod]:
            found = [pod for pod in h.pods() if (pod.metadata.labels or {}).get("app") == "web"]
            webs.update((pod.metadata.uid, pod) for pod in found)
            return found

        def spread() -> bool:
            return len({pod.spec.node_name for pod in look() if pod.spec.node_name}) == 2

        def moved() -> bool:
            return any(pod.metadata.deletion_timestamp for pod in look()) or len(webs) > 2

        def settled() -> bool:
            places = [pod.spec.node_name for pod in look() if not pod.metadata.deletion_timestamp]
            train = [pod for pod in h.pods() if pod.metadata.name.startswith("train")]
            return (
                len(places) == 2
                and all(places)
                and len(train) == 1
                and train[0].status.phase == "Running"
                and set(places).isdisjoint({train[0].spec.node_name})
            )

        async with scheduling(h):
            await h.apply(deployment("web", 2, "2"))
            await h.eventually(spread, timeout_seconds=60)
            await h.apply(vcjob("train").task("worker", 1, cpu="4", run_seconds=3600))
            await h.eventually(moved, timeout_seconds=120)
            if not restarts:
                await h.eventually(settled, timeout_seconds=120)
        if restarts:
            await h.settle()
            assert sum(bool(pod.spec.node_name) for pod in look() if not pod.metadata.deletion_timestamp) == 1
            async with scheduling(h):
                await h.eventually(settled, timeout_seconds=300)
                await h.clock.sleep(120)
                assert settled()
        assert len(webs) == 3

    run_in_virtual_time(story, nodes="2x4cpu,8Gi", scheduler=False, controllers=EMBEDDED)


def test_preempted_pods_of_a_volcano_job_are_made_again_and_wait() -> None:
    async def story(h: Harness) -> None:
        lows: set[str] = set()

        def low() -> list[Pod]:
            found = [pod for pod in h.pods() if pod.metadata.name.startswith("low")]
            lows.update(pod.metadata.uid for pod in found)
            return found

        def settled() -> bool:
            return h.pod("high-worker-0").status.phase == "Running" and len(low()) == 4

        async with scheduling(h):
            job = vcjob("low", min_available=1).task("worker", 4, cpu="2", run_seconds=7200)
            await h.apply(priority_class("high", 100), job)
            await h.eventually(lambda: sum(pod.status.phase == "Running" for pod in low()) == 4, timeout_seconds=60)
            await h.apply(vcjob("high", priority_class="high").task("worker", 1, cpu="4", run_seconds=7200))
            await h.eventually(settled, timeout_seconds=300)
            await h.clock.sleep(600)
            assert settled()
            assert sum(pod.status.phase == "Running" for pod in low()) == 2
        assert len(lows) == 6

    run_in_virtual_time(story, nodes="2x4cpu,8Gi", scheduler=False)
