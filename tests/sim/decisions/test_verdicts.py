"""Nominations reach a pod's status as the scheduler's reports write them: settled, coalesced, not repeated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strato.scheduler.model.jobs import PodVerdict
from strato.scheduler.model.plan import Plan
from strato.sim.decisions.timeline import Timeline
from strato.sim.decisions.verdicts import SettlingVerdicts
from tests.scheduler import worlds


@pytest.mark.parametrize(
    ("said", "nominated"),
    [
        ([(0.0, "a", "n1")], [(0.2, "n1")]),
        ([(0.0, "a", "n1"), (0.1, "b", "n2")], [(0.2, "n2")]),
        ([(0.0, "a", ""), (0.1, "b", "n2")], [(0.2, "n2")]),
        ([(0.0, "a", "n1"), (0.1, "b", "")], []),
        ([(0.0, "a", "n1"), (1.0, "b", "n2")], [(0.2, "n1"), (1.2, "n2")]),
        ([(0.0, "a", "n1"), (1.0, "b", ""), (2.0, "c", "n2")], [(0.2, "n1"), (2.2, "n2")]),
        ([(0.0, "a", "n1"), (1.0, "b", "n1"), (5.1, "c", "n2")], [(0.2, "n1"), (5.2, "n2")]),
        ([(810.1, "a", "n1")], [(810.3, "n1")]),
    ],
    ids=[
        "once it has stood for a moment",
        "the latest when the first is due",
        "when a verdict without one is due",
        "not when a verdict without one came after it",
        "another one later",
        "a pod keeps its nomination until it has another",
        "at the end of the time in which a text is not repeated",
        "at whole microseconds",
    ],
)
def test_nominations(said: Sequence[tuple[float, str, str]], nominated: Sequence[tuple[float, str]]) -> None:
    pod = worlds.pod("p-0", "p")
    pod["metadata"]["generation"] = 1
    world = worlds.world(worlds.queue(), worlds.node("n1"), worlds.node("n2"), pod)
    task, timeline = world.tasks["ns/p-0"], Timeline(0.0)
    verdicts = SettlingVerdicts(world, timeline)
    seen = [(0.0, "")]

    def pass_time(until: float) -> None:
        while timeline.next_at is not None and timeline.next_at <= until:
            timeline.now = timeline.next_at
            timeline.fire()
            if task.nominated != seen[-1][1]:
                seen.append((timeline.now, task.nominated))
        timeline.now = until

    for at, message, node in said:
        pass_time(at)
        verdicts.take(Plan(pods=[PodVerdict(task, "Unschedulable", message, nominated=node)]))
    pass_time(2000.0)
    assert seen[1:] == nominated
