"""The plugin yarnfair on small worlds: the worked examples of YARN, with pods."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strato.errors import InvalidInput
from strato.interop.yarn.fairplugin import sources
from strato.interop.yarn.fairplugin.plugin import YarnFair, YarnFairArgs
from strato.interop.yarn.resources import ResourceTypes
from strato.scheduler.dryrun.run import load
from strato.scheduler.model.queues import Queue
from strato.testing import manifests
from tests.interop.yarn import worlds
from tests.interop.yarn.worlds import Json, app, placed, run, verdicts

config = partial(worlds.config, "yarnfair")
node = partial(worlds.node, cpu="12", memory="12Gi")


def queue(name: str, parent: str = "", **settings: str) -> Json:
    made: Json = dict(manifests.queue(name, parent=parent))
    made["metadata"]["annotations"] = {
        (name_ if "/" in name_ else sources.SETTING + name_): value for name_, value in settings.items()
    }
    return made


def test_weights_share_two_to_one() -> None:
    made = run([node(), queue("a", weight="2"), queue("b"), app("x", "a", 20), app("y", "b", 20)], config())
    assert placed(made) == {"x": 8, "y": 4}


def test_minimum_shares_are_served_first() -> None:
    queues = [queue("a"), queue("b", minResources="8192 mb, 0 vcores")]
    assert placed(run([node(), *queues, app("x", "a", 20), app("y", "b", 20)], config())) == {"x": 4, "y": 8}


def test_dominant_shares_are_even() -> None:
    root = queue("root", **{sources.DEFAULT + "defaultQueueSchedulingPolicy": "drf"})
    made = run(
        [node(cpu="9", memory="18Gi"), root, queue("a", "root"), queue("b", "root"),
         app("x", "a", 20, memory="4Gi"), app("y", "b", 20, cpu="3", memory="1Gi")],
        config(),
    )  # fmt: skip
    assert placed(made) == {"x": 3, "y": 2}


def test_shares_go_level_by_level() -> None:
    tree = [queue("root"), queue("p", "root", weight="3"), queue("p.x", "p"), queue("p.y", "p"), queue("q", "root")]
    made = run([node(), *tree, app("x", "p.x", 20), app("y", "p.y", 20), app("z", "q", 20)], config())
    found = placed(made)
    assert found["z"] == 3
    assert sorted((found["x"], found["y"])) == [4, 5]


def test_fifo_serves_who_came_first() -> None:
    first = app("late", "a", 4, creationTimestamp="2023-11-14T00:00:02Z")
    second = app("early", "a", 4, creationTimestamp="2023-11-14T00:00:01Z")
    made = run([node(cpu="6"), queue("a", schedulingPolicy="fifo"), first, second], config())
    assert placed(made) == {"early": 4, "late": 2}


def test_maxima_hold_up_the_tree_and_say_so() -> None:
    tree = [queue("root"), queue("p", "root", maxResources="memory-mb=3072"), queue("p.x", "p"), queue("p.y", "p")]
    world = [node(), *tree, app("x", "p.x", 9), app("y", "p.y", 9)]
    assert sum(placed(run(world, config())).values()) == 3
    text = "queue root.p holds 3072 MB, 3 vcores of its maximum of 3072 MB, unlimited vcores; default/x-2 asks for"
    assert text in verdicts(world, config())


def test_a_job_larger_than_the_maximum_is_not_let_in() -> None:
    world = [node(), queue("a", maxResources="2048 mb, 2 vcores"), app("x", "a", 1)]
    world[-1][0]["spec"]["minResources"] = {"cpu": "3", "memory": "1Gi"}
    text = "the maximum of queue root.a is 2048 MB, 2 vcores; the job asks for 1024 MB, 3 vcores at least, so it never"
    assert text in verdicts(world, config())


def test_a_parent_takes_no_jobs() -> None:
    world = [node(), queue("p"), queue("p.x", "p"), app("x", "p", 1)]
    assert "queue p is no leaf of YARN's tree; name one below it" in verdicts(world, config())


def test_percentages_are_of_the_cluster() -> None:
    assert placed(run([node(), queue("a", maxResources="50%"), app("x", "a", 9)], config())) == {"x": 6}


def test_half_cores_count() -> None:
    tree = [queue("a", maxResources="memory-mb=99999, vcores=2")]
    assert placed(run([node(), *tree, app("x", "a", 9, cpu="500m")], config())) == {"x": 4}


def test_applications_over_the_limit_wait() -> None:
    jobs = [app(name, "a", 1, creationTimestamp=f"2023-11-14T00:00:0{at}Z") for at, name in enumerate("xyz")]
    made = run([node(), queue("a", maxRunningApps="2"), *jobs], config())
    assert placed(made) == {"x": 1, "y": 1}
    assert "its maxRunningApps is 2" in made.reasons["default/z-0"]


def test_applications_of_a_user_over_the_limit_wait() -> None:
    root = queue("root", **{sources.USERS + "ada": "1"})
    jobs = [app(name, "a", 1, labels=None, annotations={"owner": "ada"}) for name in "xy"]
    made = run([node(), root, queue("a", "root"), *jobs, app("z", "a", 1)], config(userKey="owner"))
    assert sorted(placed(made)) in (["x", "z"], ["y", "z"])
    assert "user ada runs 1 applications of 1" in str(made.reasons)


def test_a_job_without_minimum_resources_waits_too() -> None:
    jobs = [app(name, "a", 1) for name in "xy"]
    for group, *_ in jobs:
        del group["spec"]["minResources"]
    made = run([node(), queue("a", maxRunningApps="1"), *jobs], config())
    assert len(placed(made)) == 1


def test_application_masters_have_their_share() -> None:
    jobs = [app(name, "a", 1, labels={"role": "am"}) for name in "wxyz"]
    made = run([node(cpu="4", memory="4Gi"), queue("a", maxAMShare="0.5"), *jobs], config(amLabel="role=am"))
    assert len(placed(made)) == 2
    assert "maxAMShare of 0.5 allows" in str(made.reasons)
    assert len(placed(run([node(cpu="4", memory="4Gi"), queue("a", maxAMShare="0.5"), *jobs], config()))) == 4


def test_large_containers_are_refused_because_pods_cannot_be_cut() -> None:
    made = run([node(), queue("a", maxContainerAllocation="1024 mb, 1 vcores"), app("x", "a", 1, cpu="2")], config())
    assert placed(made) == {}
    assert "allows containers of at most 1024 MB, 1 vcores; default/x-0 asks for 1024 MB, 2 vcores" in str(made.reasons)


def test_other_types_have_maxima_too() -> None:
    gpu_node = node()
    gpu_node["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    pods = app("x", "a", 6)
    for pod in pods[1:]:
        pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    tree = [queue("a", maxResources="memory-mb=99999, vcores=99, gpu=4")]
    assert placed(run([gpu_node, *tree, *pods], config(resources="gpu=nvidia.com/gpu"))) == {"x": 4}


# -- making room -------------------------------------------------------------------------------------------------------


def starving_world(minimum: int = 1, **settings: str) -> list[Any]:
    tree = [
        queue("a", **settings),
        queue("b", minResources="4096 mb, 4 vcores", minSharePreemptionTimeout="0"),
    ]
    return [node(cpu="8", memory="8Gi"), *tree, app("greedy", "a", 8, on="n", minimum=minimum), app("starved", "b", 4)]


WITH_RECLAIM = "enqueue, allocate, reclaim"


def test_pods_are_marked_first_and_go_after_the_wait() -> None:
    text = config(WITH_RECLAIM, preemption=True, waitTimeBeforeKill=2000)
    first = run(starving_world(), text)
    assert (first.evicted, first.binds) == ([], {})
    said = verdicts(starving_world(), text)
    assert "Starved: pod default/greedy-0 makes room for it and goes in 2 s" in said
    assert "queue root.b is at 0 % of its instantaneous fair share (0 MB of 4096 MB)" in said
    later = run(starving_world(), text, cycles=6)
    assert len(later.evicted) == 4
    assert all(key.startswith("default/greedy") for key in later.evicted)
    assert placed(later) == {"starved": 4}


@pytest.mark.parametrize(
    ("settings", "arguments", "evicted"),
    [
        pytest.param({}, {"preemption": False}, 0, id="preemption is off"),
        pytest.param({"allowPreemptionFrom": "false"}, {"preemption": True}, 0, id="the queue may not be taken from"),
        pytest.param({}, {"preemption": True, "preemptionUtilizationThreshold": 1.0}, 0, id="the cluster is not full"),
        pytest.param({"minResources": "6144 mb, 6 vcores"}, {"preemption": True}, 2, id="down to its own fair share"),
    ],
)
def test_who_makes_room(settings: dict[str, str], arguments: dict[str, Any], evicted: int) -> None:
    text = config(WITH_RECLAIM, waitTimeBeforeKill=0, **arguments)
    assert len(run(starving_world(**settings), text, cycles=3).evicted) == evicted


def test_gangs_keep_their_minimum() -> None:
    text = config(WITH_RECLAIM, preemption=True, waitTimeBeforeKill=0)
    assert len(run(starving_world(minimum=6), text, cycles=3).evicted) == 2


def test_one_leaf_makes_room_by_fair_share() -> None:
    tree = queue("a", fairSharePreemptionTimeout="0", fairSharePreemptionThreshold="1")
    objects = [node(cpu="8", memory="8Gi"), tree, app("greedy", "a", 8, on="n"), app("starved", "a", 4)]
    text = config("enqueue, allocate, preempt", preemption=True, waitTimeBeforeKill=0)
    assert len(run(objects, text, cycles=3).evicted) == 4


# -- files -------------------------------------------------------------------------------------------------------------


def test_the_file_is_read_again_when_it_changes_and_a_bad_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "fair-scheduler.xml"

    def write(xml: str, at: float) -> None:
        path.write_text(f"<allocations>{xml}</allocations>")
        os.utime(path, (at, at))

    def weight() -> float:
        assert source.content is not None
        return source.content.settings_of("root.a").weight

    source = sources.file_source(path, ResourceTypes())
    write("<queue name='a'><weight>2</weight></queue>", 1000)
    assert not source.refresh(1001.0)
    assert weight() == 2
    write("<queue name='a'><weight>3</weight></queue>", 1004)
    assert not source.refresh(1005.0)
    assert weight() == 2, "looked at every ten seconds only"
    assert not source.refresh(1012.0)
    assert weight() == 3
    write("<queue name='a'><weight>4</weight></queue>", 1021)
    source.refresh(1023.0)
    assert weight() == 3, "whoever writes may not be done"
    source.refresh(1027.0)
    assert weight() == 4
    write("<queue name='a'><weight>heavy</weight></queue>", 1030)
    assert source.refresh(1040.0)
    assert weight() == 4
    assert "'heavy' is no number" in source.problem


def test_a_file_by_argument(tmp_path: Path) -> None:
    path = tmp_path / "fair-scheduler.xml"
    path.write_text("<allocations><queue name='a'><maxRunningApps>1</maxRunningApps></queue></allocations>")
    made = run([node(), queue("a"), app("x", "a", 1), app("y", "a", 1)], config(allocationFile=str(path)))
    assert len(placed(made)) == 1


def test_a_file_that_cannot_be_read_refuses_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        run([node()], config(allocationFile=str(tmp_path / "none.xml")))
    path = tmp_path / "bad.xml"
    path.write_text("<allocations>\n<queue name='a'><weight>x</weight></queue></allocations>")
    problems = YarnFair.contradictions(YarnFairArgs(allocation_file=str(path)))
    assert problems == [("yarnfair.allocationFile", f"{path}: line 2: root.a: weight: 'x' is no number")]


def test_a_bad_annotation_leaves_the_plugin_out_and_says_why() -> None:
    made = run([node(), queue("a", weight="heavy"), app("x", "a", 1)], config())
    assert "'heavy' is no number" in made.failures[0].error
    assert "root.a" in made.failures[0].error


def test_resources_are_read_as_pairs() -> None:
    with pytest.raises(InvalidInput, match="expected <type in YARN>=<resource in Kubernetes>"):
        run([node()], config(resources="gpu"))


def test_annotations_are_read_again_when_a_queue_changes_and_only_then() -> None:
    def queues(weight: str) -> list[Queue]:
        world = load([("object", queue("a", weight=weight))])
        return list(world.queues.values())

    def weight() -> float:
        assert source.content is not None
        return source.content.settings_of("root.a").weight

    source, first = sources.AnnotationSource(ResourceTypes()), queues("2")
    source.refresh(first)
    read = source.content
    source.refresh(first)
    assert source.content is read
    source.refresh(queues("3"))
    assert weight() == 3
    assert source.refresh(queues("heavy"))
    assert weight() == 3
    assert "'heavy' is no number" in source.problem
    assert not source.refresh(first)
    assert weight() == 2


def test_without_any_queue_the_defaults_hold() -> None:
    source = sources.AnnotationSource(ResourceTypes())
    assert not source.refresh([])
    assert source.content is not None
    assert source.content.settings_of("root").weight == 1
