"""tdm: windows of the day, budgets of jobs, and eviction when a window closes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from strato.errors import InvalidInput
from strato.scheduler.plugins.tdm import max_victims, read_window
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

ZONE = {"volcano.sh/revocable-zone": "z"}


def at(clock: str) -> float:
    return datetime.fromisoformat(f"2024-05-06T{clock}:00").timestamp()


WINDOWS = [
    ("10:00-21:00", "09:59", False),
    ("10:00-21:00", "10:00", True),
    ("10:00-21:00", "21:00", True),
    ("10:00-21:00", "21:01", False),
    ("21:00-10:00", "23:59", True),
    ("21:00-10:00", "09:00", False),
    ("8:00-8:00", "07:59", False),
    ("8:00-8:00", "08:01", True),
]


@pytest.mark.parametrize(("text", "clock", "inside"), WINDOWS)
def test_windows(text: str, clock: str, inside: bool) -> None:
    assert read_window(text).contains(datetime.fromtimestamp(at(clock))) is inside


def test_windows_that_are_none_are_listed() -> None:
    with pytest.raises(InvalidInput, match="25:00") as caught:
        asking.config({"name": "tdm", "arguments": {"tdm.revocable-zone.a": "25:00-1:00", "tdm.revocable-zone.b": 3}})
    assert len(caught.value.problems) == 2


def tdm(*objects: dict[str, Any], clock: str = "12:00") -> Any:
    plugin = {"name": "tdm", "arguments": {"tdm.revocable-zone.z": "10:00-21:00"}}
    return asking.session(worlds.world(*objects), plugin, now=at(clock))


NODES = (worlds.node("lent", labels=ZONE), worlds.node("odd", labels={"volcano.sh/revocable-zone": "?"}))
PLACES = [
    pytest.param({}, "12:00", {"lent": "not allow to dispatch to revocable node"}, 0.0, id="an ordinary pod"),
    pytest.param({"volcano.sh/revocable-zone": "*"}, "12:00", {}, 100.0, id="a revocable pod in the window"),
    pytest.param({"volcano.sh/preemptable": "true"}, "12:00", {}, 100.0, id="a preemptable pod in the window"),
    pytest.param(
        {"volcano.sh/revocable-zone": "z", "volcano.sh/preemptable": "true"},
        "12:00",
        {"lent": "not allow to dispatch to revocable node"},
        0.0,
        id="a zone other than * is none",
    ),
    pytest.param(
        {"volcano.sh/preemptable": "true"},
        "22:00",
        {"lent": "revocable zone of the node is not active now"},
        0.0,
        id="out of the window",
    ),
]


@pytest.mark.parametrize(("notes", "clock", "refused", "score"), PLACES)
def test_where_pods_may_run(notes: dict[str, str], clock: str, refused: dict[str, str], score: float) -> None:
    ssn = tdm(*NODES, worlds.node("own"), worlds.pod("p", annotations=notes), clock=clock)
    found = asking.refusals(ssn, "p")
    assert found.pop("odd") == ("revocable zone of the node is not active now", False)
    assert {node: text for node, (text, _) in found.items()} == refused
    assert asking.scores(ssn, "p") == {"lent": score, "odd": 0.0, "own": 0.0}


BUDGETS = [
    pytest.param({}, 1, id="without a budget one"),
    pytest.param({"volcano.sh/jdb-min-available": "3"}, 1, id="running less what must stay"),
    pytest.param({"volcano.sh/jdb-min-available": "50%"}, 1, id="half of six must stay"),
    pytest.param({"volcano.sh/jdb-min-available": "5"}, 1, id="fewer than the minimum run: as without a budget"),
    pytest.param({"volcano.sh/jdb-max-unavailable": "3"}, 2, id="one that does not run is unavailable already"),
    pytest.param({"volcano.sh/jdb-max-unavailable": "20%"}, 1, id="a percentage is rounded up"),
    pytest.param({"volcano.sh/jdb-max-unavailable": "1"}, 0, id="no more than are unavailable"),
]


@pytest.mark.parametrize(("notes", "most"), BUDGETS)
def test_budgets_of_jobs(notes: dict[str, str], most: int) -> None:
    made = worlds.group("g", 1)
    made["metadata"]["annotations"] = notes
    phases = ["Running"] * 4 + ["Succeeded", "Pending"]
    pods = [worlds.pod(f"p{i}", "g", phase=phase, nodeName="n") for i, phase in enumerate(phases)]
    pods[-1]["spec"].pop("nodeName")
    world = worlds.world(worlds.node("n", cpu="9"), worlds.queue(), made, *pods)
    assert max_victims(world.jobs["ns/g"]) == most


def running(name: str, group: str, node: str, preemptable: bool = True) -> dict[str, Any]:
    notes = {"volcano.sh/preemptable": str(preemptable).lower()}
    return worlds.pod(name, group, phase="Running", nodeName=node, annotations=notes)


def test_a_closed_window_evicts_once_per_period() -> None:
    objects = [worlds.node("lent", cpu="9", labels=ZONE), worlds.node("own", cpu="9"), worlds.queue()]
    objects += [worlds.group("a", 1), worlds.group("b", 1)]
    objects += [running(f"a{i}", "a", "lent") for i in range(3)] + [running("b0", "b", "lent", preemptable=False)]
    objects += [running("b1", "b", "own"), running("b2", "b", "lent")]
    world = worlds.world(*objects)
    config = asking.config(
        {"name": "tdm", "arguments": {"tdm.revocable-zone.z": "10:00-21:00", "tdm.evict.period": "30s"}},
        actions="shuffle",
    )

    def evicted(now: float) -> list[str]:
        return sorted(e.task.name for e in worlds.cycle(world, config, now=now).evictions)

    assert evicted(at("20:59")) == []
    assert evicted(at("21:01")) == ["a0", "b2"]
    assert evicted(at("21:01") + 10) == []
    assert evicted(at("21:01") + 31) == ["a1"]


def test_who_is_preempted() -> None:
    objects = [*NODES, worlds.node("own", cpu="9"), worlds.queue(), worlds.group("a", 1), worlds.group("b", 1)]
    objects += [running("a0", "a", "own"), running("a1", "a", "own"), running("a2", "a", "lent")]
    objects += [running("b0", "b", "own", preemptable=False)]
    objects += [worlds.pod("plain"), worlds.pod("soft", annotations={"volcano.sh/preemptable": "true"})]
    ssn = tdm(*objects)
    candidates = [asking.task(ssn, name) for name in ("a0", "a1", "a2", "b0")]
    assert asking.keys(ssn.preemptable(asking.task(ssn, "plain"), candidates)) == ["a0"]
    assert asking.keys(ssn.preemptable(asking.task(ssn, "soft"), candidates)) == []


def test_a_window_that_is_closed_from_the_start_evicts_in_the_first_cycle() -> None:
    world = worlds.world(
        worlds.node("lent", labels=ZONE), worlds.queue(), worlds.group("a", 1), running("a0", "a", "lent")
    )
    tdm = {"name": "tdm", "arguments": {"tdm.revocable-zone.z": "10:00-21:00"}}
    plan = worlds.cycle(world, asking.config(tdm, actions="shuffle"), now=at("22:00"))
    assert [e.task.name for e in plan.evictions] == ["a0"]
