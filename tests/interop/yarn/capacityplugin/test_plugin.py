"""The plugin yarncapacity on small worlds: the worked examples of YARN, with pods."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from strato.errors import InvalidInput
from strato.scheduler.config import parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.dryrun.run import load
from strato.scheduler.dryrun.states import START
from strato.scheduler.placement.placer import Placer
from strato.testing import manifests
from tests.interop.yarn.worlds import (
    Json,
    app,
    capacity_config,
    flat,
    node,
    placed,
    queues,
    run,
    verdicts,
    write_capacity,
)

PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption."
TWO = {"root.queues": "a,b", "root.a.capacity": "25", "root.b.capacity": "75"}


class Setup:
    """A configuration file and the scheduler's configuration that names it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "capacity-scheduler.xml"

    def write(self, settings: Mapping[str, str]) -> None:
        write_capacity(self.file, settings)

    def config(self, settings: Mapping[str, str], actions: str = "enqueue, allocate", **arguments: Any) -> str:
        return capacity_config(self.file, settings, actions, **arguments)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_queues_are_served_in_proportion_to_their_capacity(setup: Setup) -> None:
    settings = {**TWO, "root.a.user-limit-factor": "4", "root.b.user-limit-factor": "4"}
    made = run([node(), queues("a", "b"), app("x", "a", 30), app("y", "b", 30)], setup.config(settings))
    assert placed(made) == {"x": 4, "y": 12}


def test_higher_priority_goes_first_within_the_guarantee(setup: Setup) -> None:
    settings = {
        **TWO, "root.ordering-policy": "priority-utilization", "root.a.priority": "5",
        "root.a.user-limit-factor": "4",
    }  # fmt: skip
    made = run([node(cpu="4", memory="4Gi"), queues("a", "b"), app("x", "a", 9), app("y", "b", 9)],
               setup.config(settings))  # fmt: skip
    assert placed(made)["x"] == 1


def test_maxima_hold_up_the_tree_and_say_so(setup: Setup) -> None:
    settings = {
        "root.queues": "p,q", "root.p.capacity": "50", "root.q.capacity": "50", "root.p.maximum-capacity": "50",
        "root.p.queues": "x,y", "root.p.x.capacity": "50", "root.p.y.capacity": "50",
        "root.p.x.user-limit-factor": "9", "root.p.y.user-limit-factor": "9",
    }  # fmt: skip
    world = [node(), queues("x", "y"), app("one", "x", 9), app("two", "y", 9)]
    text = setup.config(settings)
    assert sum(placed(run(world, text)).values()) == 8
    assert "MaximumCapacity: queue root.p holds 8192 MB of its maximum of 8192 MB" in verdicts(world, text)


def test_a_user_may_exceed_the_limit_by_one_container(setup: Setup) -> None:
    """Two users of a queue of 8 GB: each may start while at or below the half."""
    settings = {**TWO, "root.a.capacity": "50", "root.b.capacity": "50", "root.a.minimum-user-limit-percent": "50"}
    jobs = [app(name, "a", 9, annotations={"owner": name}) for name in ("ada", "bob")]
    text = setup.config(settings, userKey="owner")
    world = [node(), queues("a", "b"), *jobs]
    found = placed(run(world, text))
    assert set(found) == {"ada", "bob"}
    assert all(count <= 6 for count in found.values())
    assert "above the user limit of" in verdicts(world, text)


def test_applications_beyond_the_maximum_wait(setup: Setup) -> None:
    jobs = [app(name, "a", 1, creationTimestamp=f"2023-11-14T00:00:0{at}Z") for at, name in enumerate("xyz")]
    made = run([node(), queues("a", "b"), *jobs], setup.config({**TWO, "root.a.maximum-applications": "2"}))
    assert placed(made) == {"x": 1, "y": 1}
    assert "takes 2 applications and has as many" in made.reasons["default/z-0"]


def test_parallel_applications_are_limited_up_the_tree(setup: Setup) -> None:
    jobs = [app(name, name, 1) for name in "ab"]
    made = run([node(), queues("a", "b"), *jobs], setup.config({**TWO, "root.max-parallel-apps": "1"}))
    assert len(placed(made)) == 1
    assert "runs 1 applications of 1 at a time" in str(made.reasons)


def test_application_masters_have_their_share(setup: Setup) -> None:
    jobs = [app(name, "b", 1, labels={"role": "am"}) for name in "wxyz"]
    settings = {**TWO, "maximum-am-resource-percent": "0.125", "root.b.user-limit-factor": "4"}
    world = [node(), queues("a", "b"), *jobs]
    made = run(world, setup.config(settings, amLabel="role=am"))
    assert len(placed(made)) == 2
    assert "maximum-am-resource-percent of 0.125 allows" in str(made.reasons)
    assert len(placed(run(world, setup.config(settings)))) == 4


def test_stopped_queues_take_nothing_new(setup: Setup) -> None:
    made = run([node(), queues("a"), app("x", "a", 1)], setup.config({**TWO, "root.a.state": "STOPPED"}))
    assert placed(made) == {}
    assert "queue root.a is stopped" in str(made.reasons)


def test_queues_that_the_file_does_not_name_are_said(setup: Setup) -> None:
    made = run([node(), queues("other"), app("x", "other", 1)], setup.config(TWO))
    assert placed(made) == {}
    assert "queue other is no leaf of" in str(made.reasons)


def test_vcores_count_with_the_dominant_calculator_only(setup: Setup) -> None:
    settings = {**TWO, "root.a.maximum-capacity": "25", "root.a.user-limit-factor": "9"}
    world = [node(), queues("a"), app("x", "a", 9, cpu="2", memory="512Mi")]
    assert placed(run(world, setup.config(settings))) == {"x": 8}
    dominant = {**settings, "resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"}
    assert placed(run(world, setup.config(dominant))) == {"x": 2}


# -- partitions --------------------------------------------------------------------------------------------------------

LABELS = {
    **TWO,
    "root.a.accessible-node-labels": "gpu",
    "root.b.accessible-node-labels": " ",
    "root.a.accessible-node-labels.gpu.capacity": "100",
    "root.a.user-limit-factor": "9",
    "root.b.user-limit-factor": "9",
    "root.a.maximum-capacity": "25",
}


def test_exclusive_nodes_are_for_those_who_ask(setup: Setup) -> None:
    text = setup.config(LABELS, nodeLabelKey="part")
    world = [node(cpu="8", memory="8Gi"), node("g", cpu="8", memory="8Gi", part="gpu"), queues("a", "b")]
    made = run([*world, app("plain", "a", 9), app("asking", "a", 9, selector={"part": "gpu"})], text)
    assert placed(made) == {"plain": 2, "asking": 8}
    refused = run([*world, app("other", "b", 1, selector={"part": "gpu"})], text)
    assert placed(refused) == {}
    assert "queue root.b has no access to nodes labelled 'gpu'" in str(refused.reasons)


def test_shared_nodes_serve_others_while_they_are_idle(setup: Setup) -> None:
    text = setup.config(LABELS, nodeLabelKey="part", sharedLabels="gpu")
    world = [node(cpu="8", memory="8Gi"), node("g", cpu="8", memory="8Gi", part="gpu"), queues("a", "b")]
    made = run([*world, app("plain", "a", 12)], text)
    assert Counter(made.binds.values()) == {"n": 2, "g": 8}


# -- making room -------------------------------------------------------------------------------------------------------

WITH_PREEMPTION = {
    **TWO,
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    PREEMPTION + "total_preemption_per_round": "1.0",
    PREEMPTION + "natural_termination_factor": "1.0",
    PREEMPTION + "monitoring_interval": "1000",
    PREEMPTION + "max_wait_before_kill": "2000",
    "root.a.user-limit-factor": "9",
}
RECLAIM = "enqueue, allocate, reclaim, preempt"


def full_world(minimum: int = 1) -> list[Any]:
    tree = queues("a", "b")
    return [node(), tree, app("greedy", "a", 16, on="n", minimum=minimum), app("owed", "b", 20)]


def test_pods_are_marked_first_and_go_after_the_wait(setup: Setup) -> None:
    text = setup.config(WITH_PREEMPTION, RECLAIM)
    first = run(full_world(), text)
    assert (first.evicted, first.binds) == ([], {})
    said = verdicts(full_world(), text)
    assert "queue root.b uses 0 % of its guarantee (0 MB of 12288 MB, at most 16384 MB)" in said
    assert "is to make room and may go in 2 s" in said
    later = run(full_world(), text, cycles=8)
    assert len(later.evicted) == 12
    assert placed(later) == {"owed": 12}


@pytest.mark.parametrize(
    ("settings", "minimum", "evicted"),
    [
        pytest.param({"yarn.resourcemanager.scheduler.monitor.enable": "false"}, 1, 0, id="the monitor is off"),
        pytest.param({"root.a.disable_preemption": "true"}, 1, 0, id="nothing may be taken from the queue"),
        pytest.param({PREEMPTION + "observe_only": "true"}, 1, 0, id="it only observes"),
        pytest.param({}, 10, 6, id="a gang keeps its minimum"),
    ],
)
def test_who_makes_room(setup: Setup, settings: dict[str, str], minimum: int, evicted: int) -> None:
    text = setup.config({**WITH_PREEMPTION, **settings}, RECLAIM)
    assert len(run(full_world(minimum), text, cycles=8).evicted) == evicted


def test_a_more_important_application_takes_within_its_queue(setup: Setup) -> None:
    settings = {
        **WITH_PREEMPTION, "root.queues": "a", "root.a.capacity": "100",
        PREEMPTION + "intra-queue-preemption.enabled": "true",
        PREEMPTION + "intra-queue-preemption.preemption-order-policy": "priority_first",
    }  # fmt: skip
    high: Json = dict(manifests.priority_class("high", 1000))
    urgent = app("urgent", "a", 6)
    urgent[0]["spec"]["priorityClassName"] = "high"
    for pod in urgent[1:]:
        pod["spec"]["priority"] = 1000
    world = [high, node(), queues("a"), app("slow", "a", 16, on="n"), urgent]
    made = run(world, setup.config(settings, RECLAIM), cycles=3)
    assert len(made.evicted) == 4  # a round takes 0.2 of 16 GB, and the last pod may overshoot
    assert all(key.startswith("default/slow") for key in made.evicted)


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_bad_file_is_refused_with_all_its_problems(setup: Setup) -> None:
    text = setup.config({**TWO, "root.a.capacity": "x", "root.b.user-limit-factor": "y"})
    with pytest.raises(InvalidInput) as caught:
        parse_config(text)
    assert "root.a.capacity" in str(caught.value)
    assert "root.b.user-limit-factor" in str(caught.value)


def test_the_file_is_read_again_when_it_changes_and_a_bad_one_is_not(setup: Setup) -> None:
    rules = parse_config(setup.config({**TWO, "root.a.maximum-capacity": "25", "root.a.user-limit-factor": "9"}))
    scene = flat([node(), queues("a", "b"), app("x", "a", 16)])
    world = load([(f"object {number}", dict(obj)) for number, obj in enumerate(scene)])
    placer = Placer(world.nodes, 0)

    def held_after(seconds: float) -> tuple[int, int]:
        plan = run_cycle(world, rules, now=START + seconds, rng=random.Random(0), uid="cycle", placer=placer)
        return sum(1 for task in world.tasks.values() if task.row >= 0), len(plan.failures)

    assert held_after(0) == (4, 0)
    setup.file.write_text("<configuration>", encoding="utf-8")
    os.utime(setup.file, (START + 1, START + 1))
    assert held_after(20) == (4, 1)
    setup.write({**TWO, "root.a.maximum-capacity": "50", "root.a.user-limit-factor": "9"})
    os.utime(setup.file, (START + 2, START + 2))
    assert held_after(40) == (8, 0)


def test_queues_below_an_auto_creating_parent_are_there_when_somebody_makes_them(setup: Setup) -> None:
    settings = {
        "root.queues": "default,users", "root.default.capacity": "1w", "root.users.capacity": "3w",
        "root.users.auto-queue-creation-v2.enabled": "true",
    }  # fmt: skip
    alice: Json = dict(manifests.queue("alice"))
    alice["metadata"]["annotations"] = {"yarn.strato.io/path": "root.users.alice"}
    made = run([node(), alice, app("x", "alice", 9)], setup.config(settings))
    assert placed(made) == {"x": 9}
