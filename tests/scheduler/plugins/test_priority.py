"""priority: who goes first, who may make room for whom, and who still lacks something."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.framework.plugin import GANG_PREEMPT, GANG_RECLAIM
from strato.scheduler.model.answers import Evictor
from strato.scheduler.plugins.priority import Priority
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.plugins import asking
from tests.scheduler.rules.deciding import priority

Json = dict[str, Any]
CLASSES = [priority("high", 100), priority("middle", 50), priority("low", 1)]


def group(name: str, of: str = "", **spec: Any) -> Json:
    return worlds.group(name, 1, **({"priorityClassName": of} if of else {}), **spec)


def runs(name: str, group: str, own: int = 0) -> Json:
    return worlds.pod(name, group, phase="Running", nodeName="n", priority=own)


def opened(*objects: Json) -> tuple[Session, Priority]:
    ssn = asking.session(worlds.world(worlds.node("n", cpu="99"), worlds.queue(), *CLASSES, *objects), "priority")
    (plugin,) = [one for one in ssn.plugins if isinstance(one, Priority)]
    return ssn, plugin


def test_higher_goes_first() -> None:
    ssn, plugin = opened(*(group(name, name) for name in ("low", "high", "middle")), group("none"))
    order = sorted(ssn.world.jobs.values(), key=plugin.job_order)
    assert [job.name for job in order] == ["high", "middle", "low", "none"]
    ssn, plugin = opened(group("g"), *(worlds.pod(f"p{own}", "g", priority=own) for own in (3, -1, 7)))
    assert asking.keys(sorted(ssn.world.tasks.values(), key=plugin.task_order)) == ["p7", "p3", "p-1"]


PREEMPTED: list[Any] = [
    pytest.param("middle", "low", 0, True, id="a less important job's"),
    pytest.param("middle", "middle", -5, False, id="not an equal job's, whatever the pod's own priority"),
    pytest.param("middle", "high", 0, False, id="not a more important job's"),
]


@pytest.mark.parametrize(("mine", "theirs", "own", "goes"), PREEMPTED)
def test_whom_a_job_may_preempt(mine: str, theirs: str, own: int, goes: bool) -> None:
    ssn, plugin = opened(group("m", mine), group("t", theirs), worlds.pod("p", "m", priority=9), runs("v", "t", own))
    task, victim = asking.task(ssn, "p"), asking.task(ssn, "v")
    assert asking.keys(plugin.preemptable(task, [victim])[0]) == (["v"] if goes else [])


@pytest.mark.parametrize(("own", "goes"), [(4, True), (5, False), (6, False)], ids=["less", "as much", "more"])
def test_within_a_job_a_pods_own_priority_counts(own: int, goes: bool) -> None:
    ssn, plugin = opened(group("m", "high"), worlds.pod("p", "m", priority=5), runs("v", "m", own))
    task, victim = asking.task(ssn, "p"), asking.task(ssn, "v")
    assert asking.keys(plugin.preemptable(task, [victim])[0]) == (["v"] if goes else [])


def test_who_has_no_job_neither_preempts_nor_goes() -> None:
    ssn, plugin = opened(group("m", "high"), worlds.pod("p", "m"), runs("stray", ""), worlds.pod("lone", ""))
    assert plugin.preemptable(asking.task(ssn, "p"), [asking.task(ssn, "stray")])[0] == []
    assert list(plugin.preemptable(asking.task(ssn, "lone"), [asking.task(ssn, "stray")])[0]) == []


@pytest.mark.parametrize(
    ("kind", "going"), [(GANG_PREEMPT, ["v-low"]), (GANG_RECLAIM, ["v-low", "v-middle", "v-high", "stray"])]
)
def test_between_queues_importance_does_not_count(kind: str, going: list[str]) -> None:
    names = ("low", "middle", "high")
    ssn, plugin = opened(
        group("m", "middle"), *(group(f"t-{name}", name) for name in names),
        *(runs(f"v-{name}", f"t-{name}") for name in names), runs("stray", ""),
    )  # fmt: skip
    victims = [asking.task(ssn, name) for name in ("v-low", "v-middle", "v-high", "stray")]
    evictor = Evictor(kind, ssn.world.jobs["ns/m"], 0)
    assert asking.keys(plugin.unified_evictable(evictor, victims)[0]) == going


@pytest.mark.parametrize(
    ("pods", "starves"),
    [
        pytest.param([runs("a", "g"), worlds.pod("b", "g")], True, id="one has no place, though the minimum has"),
        pytest.param([runs("a", "g"), runs("b", "g")], False, id="all have one"),
        pytest.param([], False, id="it has no pods"),
    ],
)
def test_a_job_starves_until_all_its_pods_have_a_place(pods: list[Json], starves: bool) -> None:
    ssn, plugin = opened(group("g"), *pods)
    assert plugin.job_starving(ssn.world.jobs["ns/g"]) is starves


def test_a_promise_is_as_good_as_a_place() -> None:
    ssn, plugin = opened(group("g"), runs("a", "g"), worlds.pod("b", "g"))
    ssn.statement().pipeline(asking.task(ssn, "b"), ssn.world.nodes.row_of["n"], evicted=False)
    assert not plugin.job_starving(ssn.world.jobs["ns/g"])


def test_more_important_parts_of_a_job_go_first() -> None:
    policy = [{"name": "p", "matchLabelKeys": ["part"], "subGroupSize": 1}]
    pods = [worlds.pod(f"p{own}", "g", priority=own, labels={"part": str(at)}) for at, own in enumerate((3, 9, 1))]
    ssn, plugin = opened(group("g", subGroupPolicy=policy), *pods)
    layout = ssn.world.jobs["ns/g"].layout
    assert layout is not None
    assert [sub.priority for sub in sorted(layout.subs.values(), key=plugin.sub_job_order)] == [9, 3, 1]
