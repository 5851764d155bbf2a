"""Statuses of groups that change faster than they are written."""

from __future__ import annotations

from random import Random

import pytest

from strato.api.wire import User
from strato.client.events import EventRecorder
from strato.client.local import LocalCluster
from strato.clock import VirtualClock
from strato.scheduler.model.plan import GroupStatus
from strato.scheduler.reporting.groups import GroupReports, _admits, _is_starting, _only_reports
from strato.scheduler.reporting.growth import GrowthTracker
from strato.server.embedded import in_memory_server
from tests.scheduler import worlds


def test_a_phase_that_was_never_written_is_not_kept() -> None:
    """The API has Pending, Running was decided for pods that were bound, and these went before it was written.

    Without pods the group has to wait for its queue again: as long as it counts as Running nobody lets it in, and while
    the API has Pending nobody makes its pods.
    """
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="1"), worlds.group("j", 2, phase="Pending"))
    job = world.jobs["ns/j"]
    world.set_phase(job, "Running")
    plan = worlds.cycle(world)
    assert job.is_waiting_for_queue
    assert plan.phases == {"ns/j": "Running"}
    assert not plan.groups, "the API has it so already"


CASES = [
    pytest.param("Pending", "Inqueue", True, id="let in"),
    pytest.param("", "Running", True, id="running at once"),
    pytest.param("Pending", "Running", True, id="broken and bound again before it was written"),
    pytest.param("Inqueue", "Running", False, id="its pods are made already"),
    pytest.param("Running", "Completed", False, id="over"),
    pytest.param("Running", "Pending", False, id="broken"),
]


@pytest.mark.parametrize(("have", "want", "admits"), CASES)
def test_what_lets_pods_be_made_does_not_wait(have: str, want: str, admits: bool) -> None:
    world = worlds.world(worlds.queue(), worlds.group("j", 2, phase=have))
    status = GroupStatus(world.jobs["ns/j"], want, 0, 0, 0)
    assert _admits(status) is admits
    assert not (_admits(status) and _only_reports(status))
    assert _is_starting(status) is (want == "Running")


@pytest.mark.parametrize("starts", [False, True])
def test_a_phase_that_no_cycle_has_decided_is_not_written(starts: bool) -> None:
    """A write that waited would say so otherwise, and the scheduler take it for news when it comes back."""
    done = worlds.pod("j-0", "j", phase="Succeeded")
    world = worlds.world(worlds.queue(), worlds.node("n"), worlds.group("j", 1, phase="Running"), done)
    (status,) = worlds.cycle(world).groups
    assert status.phase == "Completed"
    if starts:
        worlds.feed(world, worlds.pod("j-1", "j", nodeName="n", phase="Running"))
    clock = VirtualClock()
    cluster = LocalCluster(in_memory_server(clock, Random(0)), User("scheduler"))
    reports = GroupReports(cluster, clock, world, EventRecorder(cluster, clock, "volcano"), GrowthTracker(), 1.0)
    assert (reports._build("ns/j", status) is None) is starts
