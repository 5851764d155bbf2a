"""The Fair Scheduler as a whole: worked examples of the specification, and what holds of every run."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.fair import allocationfile
from strato.interop.yarn.fair.allocation import Allocations
from strato.interop.yarn.fair.engine import FairScheduler, MoveRefused, RequestRejected
from strato.interop.yarn.fair.options import FairOptions, options_of
from strato.interop.yarn.resources import ResourceTypes, fits

_BASE = {"yarn.scheduler.minimum-allocation-mb": "0", "yarn.scheduler.minimum-allocation-vcores": "0"}


def options(**more: str) -> FairOptions:
    named = {f"yarn.scheduler.fair.{name.replace('__', '-').replace('_', '.')}": value for name, value in more.items()}
    return options_of(hadoopxml.HadoopSettings.from_mapping({**_BASE, **named}))


def allocations(xml: str, types: ResourceTypes | None = None) -> Allocations:
    root = hadoopxml.parse(f"<allocations>{xml}</allocations>")
    return allocationfile.read(root, types or ResourceTypes())


def scheduler(xml: str = "", nodes: list[tuple[int, int]] | None = None, **more: str) -> FairScheduler:
    one = FairScheduler(allocations(xml), options(**more))
    for number, total in enumerate(nodes or [(8192, 8)]):
        one.add_node(f"n{number}", "rack1", total)
    return one


def submit(
    one: FairScheduler, name: str, queue: str, count: int, size: tuple[int, int] = (1024, 1), **more: Any
) -> Any:
    app = one.submit(name, more.pop("user", "u"), queue)
    assert app is not None
    one.request(app, size, count, **more)
    return app


def beat(one: FairScheduler, times: int = 1) -> None:
    for _ in range(times):
        for node in one.nodes.values():
            one.heartbeat(node)


def test_assigning_several_overshoots_half_of_the_node_by_one() -> None:
    one = scheduler(assignmultiple="true")
    submit(one, "a", "q", 8)
    one.update()
    assert [one.heartbeat(one.nodes["n0"]) for _ in range(2)] == [5, 2]


def test_size_decides_the_weight_of_applications() -> None:
    one = scheduler(nodes=[(16384, 16)], sizebasedweight="true")
    small, large = submit(one, "a", "q", 1), submit(one, "b", "q", 15)
    one.update()
    assert (small.fair_share[0], large.fair_share[0]) == (6854, 9530)


def test_application_masters_wait_for_their_share_of_the_queue() -> None:
    one = scheduler("<queue name='q'><maxAMShare>0.25</maxAMShare></queue>")
    apps = [submit(one, f"a{number}", "q", 2) for number in range(4)]
    for app in apps:
        app.is_managed = True
    one.update()
    beat(one, 8)
    assert sorted(app.has_master for app in apps) == [False, False, True, True]
    one.finish(next(app for app in apps if app.has_master))
    one.update()
    beat(one, 2)
    assert sum(app.has_master for app in apps if not app.is_stopped) == 2


def test_locality_is_waited_for_and_then_given_up() -> None:
    one = scheduler(nodes=[(8192, 8)] * 4, locality_threshold_node="0.5", locality_threshold_rack="0.5")
    app = submit(one, "a", "q", 1, places={"n3": 1, "rack1": 1})
    one.update()
    served = [one.heartbeat(one.nodes["n0"]) for _ in range(4)]
    assert served == [0, 0, 1, 0]
    assert next(iter(app.containers.values())).node.name == "n0"
    strict = submit(one, "b", "q", 1, places={"n3": 1, "rack1": 1}, relaxed=False)
    one.update()
    beat(one, 2)
    assert [container.node.name for container in strict.containers.values()] == ["n3"]


def test_blacklisted_nodes_are_skipped() -> None:
    one = scheduler(nodes=[(8192, 8)] * 2)
    app = submit(one, "a", "q", 2)
    app.blacklist = frozenset(["n0"])
    one.update()
    beat(one, 2)
    assert {container.node.name for container in app.containers.values()} == {"n1"}


@pytest.mark.parametrize(("allowed", "killed"), [("true", 1), ("false", 0)])
def test_masters_are_victims_last_and_only_where_allowed(allowed: str, killed: int) -> None:
    xml = "<queue name='a'><maxAMShare>-1</maxAMShare></queue>"
    xml += "<queue name='b'><minResources>4096 mb, 4 vcores</minResources>"
    one = scheduler(
        xml + "<minSharePreemptionTimeout>0</minSharePreemptionTimeout></queue>",
        nodes=[(1024, 1)],
        preemption="true",
        am_preemption=allowed,
        waitTimeBeforeKill="0",
    )
    greedy = submit(one, "greedy", "a", 1)
    greedy.is_managed = True
    one.update()
    beat(one)
    submit(one, "starved", "b", 1)
    one.now_ms = 1.0
    one.update()
    assert one.preemptor.kill_after(0) == killed


def test_the_kill_waits() -> None:
    xml = "<queue name='b'><minResources>4096 mb, 4 vcores</minResources>"
    xml += "<minSharePreemptionTimeout>0</minSharePreemptionTimeout></queue>"
    one = scheduler(xml, preemption="true", waitTimeBeforeKill="15000")
    greedy = submit(one, "greedy", "a", 8)
    one.update()
    beat(one, 8)
    submit(one, "starved", "b", 4)
    one.update()
    assert len(greedy.marked) == 4
    assert [one.preemptor.kill_after(7500), one.preemptor.kill_after(7500)] == [0, 4]
    beat(one, 4)
    assert one.tree.queues["root.b"].usage == (4096, 4)


def test_a_request_of_a_type_the_queue_may_have_none_of_is_rejected() -> None:
    one = scheduler("<queue name='q'><maxResources>memory-mb=4096</maxResources></queue>")
    with pytest.raises(RequestRejected, match="maximum of 0 vcores"):
        submit(one, "a", "q", 1)


def test_containers_are_cut_to_the_largest_the_queue_allows() -> None:
    one = scheduler("<queue name='q'><maxContainerAllocation>2048 mb, 2 vcores</maxContainerAllocation></queue>")
    assert one.normalized((3000, 1), one.tree.queues["root.q"]) == (2048, 1)
    assert one.normalized((1, 1), one.tree.queues["root.q"]) == (1024, 1)


def test_moves_are_refused_with_what_is_in_their_way() -> None:
    one = scheduler("<queue name='q'><maxRunningApps>1</maxRunningApps></queue><queue name='p' type='parent'/>")
    app = submit(one, "a", "r", 1)
    submit(one, "b", "q", 1)
    for queue, text in (("q", "runs 1 applications"), ("p", "is no leaf"), ("none", "there is none")):
        with pytest.raises(MoveRefused, match=text):
            one.move(app, queue)
    one.move(app, "root.r")
    one.finish(app)
    with pytest.raises(MoveRefused, match="has ended"):
        one.move(app, "q")


def test_a_moved_application_that_waited_may_run() -> None:
    one = scheduler("<queue name='q'><maxRunningApps>0</maxRunningApps></queue><queue name='r'/>")
    app = submit(one, "a", "q", 1)
    assert app in app.queue.waiting
    one.move(app, "r")
    assert app in one.tree.queues["root.r"].runnable


def test_a_reload_that_raises_a_limit_starts_what_waits() -> None:
    one = scheduler("<queue name='q'><maxRunningApps>1</maxRunningApps></queue>")
    apps = [submit(one, f"a{number}", "q", 1) for number in range(3)]
    one.reload(allocations("<queue name='q'><maxRunningApps>2</maxRunningApps></queue>"))
    assert [app in app.queue.runnable for app in apps] == [True, True, False]


def test_maxima_of_undeclared_children_come_from_their_parent() -> None:
    one = scheduler("<queue name='p' type='parent'><maxChildResources>2048 mb, 2 vcores</maxChildResources></queue>")
    submit(one, "a", "p.x", 4)
    assert one.tree.queues["root.p.x"].max_share == (2048, 2)


def test_no_leaf_is_made_below_a_leaf() -> None:
    one = scheduler("<queue name='q'/>")
    assert one.submit("a", "u", "q.x") is None
    assert one.submit("b", "u", "root") is None


def test_options_say_all_that_is_wrong_at_once() -> None:
    bad = {
        "yarn.scheduler.minimum-allocation-mb": "99999",
        "yarn.scheduler.increment-allocation-mb": "0",
        "yarn.scheduler.fair.max.assign": "many",
        "yarn.resource-types.memory-mb.increment-allocation": "x",
    }
    with pytest.raises(InvalidInput) as caught:
        options_of(hadoopxml.HadoopSettings.from_mapping(bad))
    assert len(caught.value.problems) >= 3
    found = options_of(
        hadoopxml.HadoopSettings.from_mapping({"yarn.resource-types.memory-mb.increment-allocation": "1Gi"})
    )
    assert found.increment == (1024, 1)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from(["a.x", "a.y", "b", "c"]), st.integers(1, 6), st.integers(1, 3)),
        st.tuples(st.just("beat"), st.integers(1, 4)),
        st.tuples(st.just("finish"), st.integers(0, 5)),
        st.tuples(st.just("kill"), st.just(15_000)),
        st.tuples(st.just("move"), st.integers(0, 5), st.sampled_from(["a.x", "b"])),
    ),
    max_size=30,
)
_TREE = """
<queue name='a'><maxResources>6144 mb, 6 vcores</maxResources><queue name='x'><weight>3</weight></queue>
<queue name='y'><minResources>2048 mb, 2 vcores</minResources>
<minSharePreemptionTimeout>0</minSharePreemptionTimeout></queue></queue>
<queue name='b'><maxRunningApps>2</maxRunningApps><schedulingPolicy>fifo</schedulingPolicy></queue>
<queue name='c'><fairSharePreemptionTimeout>0</fairSharePreemptionTimeout></queue>
<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
"""


@given(STEPS)
def test_no_run_breaks_limits_or_loses_count(steps: list[Any]) -> None:
    one = scheduler(_TREE, nodes=[(4096, 4), (6144, 6)], preemption="true", assignmultiple="true")
    apps: list[Any] = []
    for step in steps:
        if step[0] == "submit":
            apps.append(submit(one, f"app{len(apps):03}", step[1], step[2], (1024 * step[3], step[3])))
        elif step[0] == "beat":
            one.update()
            beat(one, step[1])
        elif step[0] == "kill":
            one.preemptor.kill_after(step[1])
        elif step[1] < len(apps):
            with contextlib.suppress(MoveRefused):
                one.finish(apps[step[1]]) if step[0] == "finish" else one.move(apps[step[1]], step[2])
        one.now_ms += 1000
        _check(one)


def _check(one: FairScheduler) -> None:
    for node in one.nodes.values():
        assert fits(node.used, node.total)
        assert sum(container.size[0] for container in node.containers.values()) == node.used[0]
    for queue in one.tree.queues.values():
        assert fits(queue.usage, queue.max_share), queue.name
        assert min(queue.usage) >= 0
        below = [child.usage for child in queue.children] or [app.usage for app in queue.apps]
        assert queue.usage == tuple(map(sum, zip(*below, strict=True))) if below else not any(queue.usage)
        assert queue.runnable_count == len(queue.runnable) + sum(child.runnable_count for child in queue.children)
        assert queue.runnable_count <= queue.settings.max_apps
