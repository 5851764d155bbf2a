"""Changes of a session that are undone one by one."""

from __future__ import annotations

from strato.scheduler.model.tasks import BOUND, RELEASING, RUNNING
from tests.scheduler import worlds
from tests.scheduler.plugins import asking


def test_an_eviction_is_undone_for_the_very_task_that_is_spared() -> None:
    bound, runs = worlds.pod("a", nodeName="n"), worlds.pod("b", nodeName="n", phase="Running")
    ssn = asking.session(worlds.world(worlds.node("n"), worlds.queue(), bound, runs), "gang")
    a, b = asking.task(ssn, "a"), asking.task(ssn, "b")
    assert (a.status, b.status) == (BOUND, RUNNING)
    stmt = ssn.statement()
    stmt.evict(a, "test")
    stmt.evict(b, "test")
    stmt.spare(b)
    assert (a.status, b.status) == (RELEASING, RUNNING)
    stmt.commit()
    assert [one.task.name for one in ssn.plan.evictions] == ["a"]
