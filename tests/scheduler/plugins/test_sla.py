"""sla: the end of the waiting time is part of it; a job's own time counts before the plugin's."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.model.jobs import Job
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

CREATED = "2023-11-14T22:13:10Z"
"""Ten seconds ago."""


def opened(own: str, default: str, created: str = CREATED, minimum: int = 1) -> tuple[Session, Job]:
    group = worlds.group("g", minimum, phase="Pending", minResources={"cpu": "99"})
    group["metadata"]["creationTimestamp"] = created
    if own:
        group["metadata"]["annotations"] = {"sla-waiting-time": own}
    world = worlds.world(worlds.node("n", cpu="1"), worlds.queue(), group, worlds.pod("p", "g"))
    plugin = {"name": "sla", "arguments": {"sla-waiting-time": default} if default else {}}
    return asking.session(world, plugin, "gang"), world.jobs["ns/g"]


OVER: list[Any] = [
    pytest.param("", "", False, id="nobody says"),
    pytest.param("", "9s", True, id="over"),
    pytest.param("", "10s", True, id="just over"),
    pytest.param("", "11s", False, id="not over"),
    pytest.param("", "0s", False, id="zero is no time"),
    pytest.param("", "-1s", False, id="nor is less"),
    pytest.param("", "soon", False, id="nor is a word"),
    pytest.param("10s", "", True, id="its own, over"),
    pytest.param("11s", "9s", False, id="its own counts"),
    pytest.param("9s", "11s", True, id="its own counts, over"),
]


@pytest.mark.parametrize(("own", "default", "over"), OVER)
def test_a_job_whose_time_is_over_keeps_its_promises(own: str, default: str, over: bool) -> None:
    ssn, job = opened(own, default)
    (plugin,) = [one for one in ssn.plugins if one.name == "sla"]
    assert (plugin.job_pipelined(job) > 0, plugin.job_enqueueable(job) > 0) == (over, over)
    assert plugin.job_pipelined(job) >= 0


def test_the_earlier_end_goes_first() -> None:
    ends = []
    for own, created in (("20s", CREATED), ("5s", "2023-11-14T22:13:20Z"), ("1h", CREATED), ("", CREATED)):
        ssn, job = opened(own, "", created)
        (plugin,) = [one for one in ssn.plugins if one.name == "sla"]
        ends.append(plugin.job_order(job))
    assert ends == [asking.NOW + 10, asking.NOW + 5, asking.NOW + 3590, float("inf")]
