"""Pods on hollow nodes that say what CPU they want: their containers end when they have got it."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api.core import Pod
from strato.api.cpudemand import CPU_DEMAND
from strato.clock import VirtualClock
from strato.node.hollow import HollowNodes, HollowOffer
from strato.node.hollow.cpu import WAITS_FOR
from strato.node.hollow.runplan import EXIT_CODE, RUN_SECONDS
from tests.node.fake_api import FakeApi
from tests.node.hollow.test_nodes import play, status


def containers(limit: str = "") -> list[dict[str, Any]]:
    resources = {"requests": {"cpu": "1"}, **({"limits": {"cpu": limit}} if limit else {})}
    return [{"name": "main", "image": "i", "resources": resources}]


def test_a_pod_with_half_its_cpu_runs_twice_as_long() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        notes = {CPU_DEMAND: "2", RUN_SECONDS: "60", EXIT_CODE: "3"}
        api.create_pod("p", "hollow-0", annotations=notes, containers=containers("1"))
        await clock.sleep(119)
        assert api.phase("p") == "Running"
        await clock.sleep(2)
        assert api.phase("p") == "Failed"
        assert status(api, "p")["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    play(story)


def test_pods_of_a_crowded_node_take_longer() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        for name in ("p", "q"):
            api.create_pod(name, "hollow-0", annotations={CPU_DEMAND: "4", RUN_SECONDS: "60"}, containers=containers())
        api.create_pod("r", "hollow-1", annotations={CPU_DEMAND: "4", RUN_SECONDS: "60"}, containers=containers())
        await clock.sleep(61)
        assert [api.phase(name) for name in "pqr"] == ["Running", "Running", "Succeeded"]
        await api.cluster().delete(Pod, "q", "default")
        await clock.sleep(31)
        assert api.phase("p") == "Succeeded", "alone it is as fast as it would have been"

    play(story, offer=HollowOffer(capacity={"cpu": "4"}))


@pytest.mark.parametrize(
    ("notes", "complaint"),
    [
        ({CPU_DEMAND: "much"}, f"annotation {CPU_DEMAND} is ignored: 'much' is no number of cores from 0 to 1e+06"),
        ({CPU_DEMAND: "1", WAITS_FOR: "all"}, f"annotation {WAITS_FOR}: 'all' is ignored, want a number of pods"),
    ],
    ids=["demand", "gang"],
)
def test_what_cannot_be_read_is_told_and_the_pod_runs(notes: dict[str, str], complaint: str) -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "5", **notes})
        await clock.sleep(6)
        assert api.phase("p") == "Succeeded"

    api = play(story)
    (event,) = [body for path, body in api.objects.items() if "/events/" in path]
    assert (event["reason"], event["message"]) == ("UnreadableAnnotation", complaint)
