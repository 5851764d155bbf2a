"""Network domains: the tree of HyperNodes, sub-jobs, and where gangs with a topology go."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.topology.hypernodes import TOP
from tests.scheduler import worlds
from tests.scheduler.fabrics import TOPOLOGY, fabric, gang, hyper_node, spans

Json = dict[str, Any]


# -- the tree ----------------------------------------------------------------------------------------------------------


def members(*selectors: Json) -> Json:
    chosen = [{"type": "Node", "selector": selector} for selector in selectors]
    return {"kind": "HyperNode", "metadata": {"name": "h"}, "spec": {"tier": 1, "members": chosen}}


@pytest.mark.parametrize(
    ("view", "nodes"),
    [
        pytest.param(members({"exactMatch": {"name": "a1"}}), {"a1"}, id="a name means that node"),
        pytest.param(members({"exactMatch": {"name": "zz"}}), set(), id="a node that does not exist is nobody"),
        pytest.param(members({"regexMatch": {"pattern": "a"}}), {"a1", "a2", "ba"}, id="a pattern may match inside"),
        pytest.param(members({"regexMatch": {"pattern": "^a.$"}}), {"a1", "a2"}, id="an anchored pattern matches all"),
        pytest.param(members({"regexMatch": {"pattern": "("}}), set(), id="a bad pattern means nobody"),
        pytest.param(members({"labelMatch": {"matchLabels": {"r": "x"}}}), {"a2", "b1"}, id="labels select nodes"),
        pytest.param(members({"labelMatch": {}}), set(), id="an empty label selector means nobody"),
        pytest.param(
            members({"exactMatch": {"name": "a1"}}, {"labelMatch": {"matchLabels": {"r": "x"}}}),
            {"a1", "a2", "b1"},
            id="several members add up",
        ),
    ],
)
def test_a_hyper_node_holds_the_nodes_its_members_mean(view: Json, nodes: set[str]) -> None:
    labels = {"a2": {"r": "x"}, "b1": {"r": "x"}}
    world = worlds.world(view, *(worlds.node(n, labels=labels.get(n, {})) for n in ("a1", "a2", "b1", "ba")))
    tree = world.hyper_nodes.tree()
    assert {world.nodes.names[row] for row in tree.rows[tree.find("h")]} == nodes


def test_nodes_that_come_change_labels_or_go_move_between_domains() -> None:
    world = worlds.world(members({"labelMatch": {"matchLabels": {"r": "x"}}}), worlds.node("a"))
    found = lambda: [world.nodes.names[r] for r in world.hyper_nodes.tree().rows[0]]  # noqa: E731 # read three times
    assert found() == []
    worlds.feed(world, worlds.node("a", labels={"r": "x"}), worlds.node("b", labels={"r": "x"}))
    assert found() == ["a", "b"]
    world.remove_node("a")
    worlds.feed(world, worlds.node("b", labels={"r": "y"}))
    assert found() == []


def test_the_tree_is_kept_until_something_changes() -> None:
    world = worlds.world(*fabric((2, 2, 2)))
    tree = world.hyper_nodes.tree()
    worlds.feed(world, worlds.pod("p"))
    assert world.hyper_nodes.tree() is tree
    worlds.feed(world, worlds.node("more"))
    assert world.hyper_nodes.tree() is not tree


def test_the_whole_cluster_lies_above_all_tiers() -> None:
    world = worlds.world(*fabric((2, 2, 2)), worlds.node("stray"))
    tree = world.hyper_nodes.tree()
    assert tree.names[tree.top] == TOP
    assert tree.top_tier == 4
    assert tree.leaf[world.nodes.row_of["stray"]] == tree.top
    assert len(tree.rows[tree.top]) == 9
    assert tree.name(tree.lca(tree.find("l0-0"), tree.find("l0-1"))) == "b0"
    assert tree.name(tree.lca(tree.find("l0-0"), tree.find("b1"))) == "spine"


@pytest.mark.parametrize(
    ("views", "says"),
    [
        pytest.param(
            [hyper_node("a", 1), hyper_node("x", 2, inner=["a"]), hyper_node("y", 2, inner=["a"])],
            "HyperNode a lies in both x and y",
            id="a child of two parents",
        ),
        pytest.param(
            [hyper_node("x", 1, inner=["y"]), hyper_node("y", 2, inner=["x"])], "lies in itself", id="a circle"
        ),
    ],
)
def test_hyper_nodes_that_are_no_tree_hold_back_jobs_with_a_topology_only(views: list[Json], says: str) -> None:
    plain = [worlds.group("plain", 1), worlds.pod("plain-t-0", "plain")]
    world = worlds.world(worlds.queue(), worlds.node("n"), *views, *gang("g", 1, 1, 1), *plain)
    plan = worlds.cycle(world, TOPOLOGY)
    assert set(worlds.binds(plan)) == {"ns/plain-t-0"}
    assert says in plan.verdicts["ns/g"][0].text


# -- gangs with a topology ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "tier", "mode", "spanned"),
    [
        pytest.param(8, 1, "hard", 1, id="a leaf has room for eight"),
        pytest.param(9, 1, "hard", None, id="no leaf has room for nine"),
        pytest.param(9, 2, "hard", 2, id="a block has room for nine"),
        pytest.param(17, 2, "hard", None, id="no block has room for seventeen"),
        pytest.param(17, 3, "hard", 3, id="the spine has room for seventeen"),
        pytest.param(17, "spine-tier", "hard", 3, id="a tier may be named"),
        pytest.param(17, "no-such-tier", "hard", 3, id="an unknown tier name limits nothing"),
        pytest.param(17, None, "soft", 3, id="soft goes as far as it must"),
        pytest.param(8, None, "soft", 1, id="soft stays as close as it can"),
        pytest.param(9, 1, "soft", 2, id="soft does not heed its tier"),
        pytest.param(33, 3, "hard", None, id="the cluster has no room for thirty-three"),
    ],
)
def test_a_gang_goes_to_the_lowest_tier_that_holds_it(
    size: int, tier: int | str | None, mode: str, spanned: int | None
) -> None:
    objects = fabric((2, 2, 2))
    objects[-1]["spec"]["tierName"] = "spine-tier"
    world = worlds.world(worlds.queue(), *objects, *gang("g", size, size, tier, mode=mode))
    plan = worlds.cycle(world, TOPOLOGY)
    assert len(plan.binds) == (size if spanned is not None else 0)
    if spanned is not None:
        assert spans(world, worlds.binds(plan)) == spanned
    worlds.check_invariants(world)


def test_a_running_gang_grows_only_within_its_tier() -> None:
    """Six of eight run in one leaf, which is full: two more may go to the next leaf under tier 2, not under tier 1."""
    for tier, bound in ((1, 0), (2, 2)):
        running = [worlds.pod(f"g-t-{i}", "g", memory="", phase="Running", nodeName=f"l0-0-n{i % 2}") for i in range(8)]
        objects = [worlds.queue(), *fabric((2, 2, 2)), *gang("g", 0, 8, tier), *running]
        world = worlds.world(*objects, *(worlds.pod(f"g-u-{i}", "g", memory="") for i in range(2)))
        plan = worlds.cycle(world, TOPOLOGY)
        assert len(plan.binds) == bound
        assert all(node.startswith("l0-1") for node in worlds.binds(plan).values())


@pytest.mark.parametrize(
    ("gone", "bound"), [pytest.param(1, 0, id="one node is left"), pytest.param(2, 1, id="no node is left")]
)
def test_nodes_that_are_left_say_where_a_gang_lies(gone: int, bound: int) -> None:
    running = [worlds.pod(f"g-t-{i}", "g", memory="", phase="Running", nodeName=f"l0-0-n{i}", cpu="4") for i in (0, 1)]
    world = worlds.world(worlds.queue(), *fabric((2, 2, 1)), *gang("g", 0, 2, 1), *running)
    worlds.feed(world, worlds.pod("g-u-0", "g", memory=""))
    for number in range(gone):
        world.remove_node(f"l0-0-n{number}")
    assert len(worlds.cycle(world, TOPOLOGY).binds) == bound


def test_the_domain_of_a_job_is_told_once() -> None:
    world = worlds.world(worlds.queue(), *fabric((2, 2, 2)), *gang("g", 9, 9, 2))
    plan = worlds.cycle(world, TOPOLOGY)
    assert [status.hyper_node for status in plan.groups] == ["b0"]
    group = copy.deepcopy(gang("g", 0, 9, 2)[0])
    group["metadata"]["annotations"] = {"volcano.sh/job-allocated-hypernode": "b0"}
    worlds.feed(world, group)
    assert all(status.hyper_node is None for status in worlds.cycle(world, TOPOLOGY).groups)


def test_a_gang_of_which_one_leaf_is_left_still_lies_in_its_block() -> None:
    """Where a gang lies is found out only when that is not known, as after a start of the scheduler."""
    world = worlds.world(worlds.queue(), *fabric((2, 2, 2)), *gang("g", 9, 9, 2))
    plan = worlds.cycle(world, TOPOLOGY)
    assert {node[:4] for node in worlds.binds(plan).values()} == {"l0-0", "l0-1"}
    for key, node in worlds.binds(plan).items():
        if node.startswith("l0-1"):
            world.remove_pod(key)
    layout = world.jobs["ns/g"].layout
    assert layout is not None
    worlds.cycle(world, TOPOLOGY)
    assert [layout.allocated, *(sub.allocated for sub in layout.subs.values())] == ["b0", "b0"]


def test_the_fullest_leaf_that_still_holds_the_gang_is_taken() -> None:
    busy = [worlds.group("old", 1, phase="Running")]
    busy += [worlds.pod(f"old-t-{i}", "old", memory="", phase="Running", nodeName="l1-0-n0") for i in range(3)]
    world = worlds.world(worlds.queue(), *fabric((2, 2, 2)), *busy, *gang("g", 5, 5, 1))
    assert {node[:4] for node in worlds.binds(worlds.cycle(world, TOPOLOGY)).values()} == {"l1-0"}


def test_pods_without_a_topology_fill_up_leaves_too() -> None:
    busy = [worlds.group("old", 1, phase="Running")]
    busy += [worlds.pod("old-t-0", "old", phase="Running", nodeName="l1-1-n0")]
    single = [worlds.group("one", 1), worlds.pod("one-t-0", "one")]
    config = TOPOLOGY.replace(", {name: nodeorder}", "")
    world = worlds.world(worlds.queue(), *fabric((2, 2, 2)), *busy, *single)
    assert worlds.binds(worlds.cycle(world, config))["ns/one-t-0"].startswith("l1-1")


@pytest.mark.parametrize(
    ("size", "tier", "says"),
    [
        pytest.param(3, 1, "tier 1: 4 of 4 tried, l1-1 takes 2 of 3 tasks", id="room in sum but not on single nodes"),
        pytest.param(11, 2, "tier 1: none of 4 has the room; tier 2: none of 2 has the room", id="too little in sum"),
        pytest.param(1, 0, "there is none", id="no domain is that low"),
    ],
)
def test_what_held_a_gang_back_is_said_tier_by_tier(size: int, tier: int, says: str) -> None:
    world = worlds.world(worlds.queue(), *fabric((2, 2, 2), cpu="3"), *gang("g", size, size, tier, cpu="2"))
    plan = worlds.cycle(world, TOPOLOGY)
    texts = [v.text for v in plan.verdicts["ns/g"] if v.code == "Topology"]
    assert texts == [f"no HyperNode up to tier {tier} holds the job: {says}"]


def test_a_group_without_topology_has_no_layout() -> None:
    world = worlds.world(worlds.queue(), *fabric((2, 2, 1)), worlds.group("g", 1), worlds.pod("g-t-0", "g"))
    assert world.jobs["ns/g"].layout is None
    assert world.tasks["ns/g-t-0"].sub is None
    assert world.laid_out == {}


def test_a_group_that_goes_leaves_no_layout_behind() -> None:
    objects = gang("g", 2, 2, 1)
    world = worlds.world(worlds.queue(), *fabric((2, 2, 1)), *objects)
    world.remove_group("ns/g")
    assert world.laid_out == {}
    assert [task.sub for task in world.tasks.values()] == [None, None]
    worlds.feed(world, objects[0])
    assert len(worlds.cycle(world, TOPOLOGY).binds) == 2


# -- sub-jobs ----------------------------------------------------------------------------------------------------------


def split_gang(counts: dict[str, int], minimum: int, *, size: int, groups: int, tier: int | None = None) -> list[Json]:
    policy: Json = {"name": "p", "subGroupSize": size, "minSubGroups": groups, "matchLabelKeys": ["part"]}
    if tier is not None:
        policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    out: list[Json] = [worlds.group("g", minimum, subGroupPolicy=[policy])]
    for part, count in counts.items():
        labels = {"part": part} if part else {}
        out += [worlds.pod(f"g-{part or 'x'}-{i}", "g", memory="", labels=labels) for i in range(count)]
    return out


def test_pods_are_split_by_the_values_of_labels() -> None:
    world = worlds.world(worlds.queue(), *split_gang({"0": 2, "7": 3, "": 1}, 1, size=2, groups=1))
    layout = world.jobs["ns/g"].layout
    assert layout is not None
    found = {sub.key: (len(sub.tasks), sub.min_available, sub.match_index) for sub in layout.subs.values()}
    assert found == {"ns/g/p-0": (2, 2, 0), "ns/g/p-7": (3, 2, 7), "ns/g": (1, 1, 0)}


@pytest.mark.parametrize(
    ("counts", "groups", "bound"),
    [
        pytest.param({"0": 4, "1": 4}, 2, 8, id="every part fits its own leaf"),
        pytest.param({"0": 4, "1": 5}, 2, 0, id="a part starts in a leaf that has room for all of it only"),
        pytest.param({"0": 4, "1": 4, "2": 4}, 2, 8, id="two of three parts suffice"),
        pytest.param({"0": 4, "1": 4, "2": 4}, 3, 0, id="three parts needed and room for two: none starts"),
        pytest.param({"0": 4}, 2, 0, id="too few parts exist"),
    ],
)
def test_each_part_stays_in_its_own_leaf(counts: dict[str, int], groups: int, bound: int) -> None:
    objects = split_gang(counts, 4 * groups, size=4, groups=groups, tier=1)
    world = worlds.world(worlds.queue(), *fabric((2, 2, 1), cpu="2"), *objects)
    plan = worlds.cycle(world, TOPOLOGY)
    assert len(plan.binds) == bound
    for part in counts:
        mine = {key: node for key, node in worlds.binds(plan).items() if key.startswith(f"ns/g-{part}-")}
        assert not mine or spans(world, mine) == 1


def test_counts_of_parts_follow_what_happens_to_their_tasks() -> None:
    world = worlds.world(worlds.queue(), *fabric((2, 2, 1)), *split_gang({"0": 2, "1": 2}, 4, size=2, groups=2))
    worlds.cycle(world, TOPOLOGY)
    layout = world.jobs["ns/g"].layout
    assert layout is not None
    for sub in layout.subs.values():
        assert [sum(t.status == s for t in sub.tasks.values()) for s in range(10)] == sub.counts
    world.remove_pod("ns/g-0-0")
    world.remove_pod("ns/g-0-1")
    assert set(layout.subs) == {"ns/g/p-1"}


# -- whatever the world looks like -------------------------------------------------------------------------------------


@st.composite
def crowded(draw: st.DrawFn) -> tuple[list[Json], dict[str, int]]:
    widths = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)))
    objects = [worlds.queue(), *fabric(widths, cpu=str(draw(st.integers(1, 4))))]
    names = [o["metadata"]["name"] for o in objects if o["kind"] == "Node"]
    limits: dict[str, int] = {}
    used = draw(st.lists(st.sampled_from(names), max_size=4, unique=True))
    objects += [worlds.pod(f"old-{name}", memory="", phase="Running", nodeName=name) for name in used]
    for number in range(draw(st.integers(1, 4))):
        size, name = draw(st.integers(1, 8)), f"g{number}"
        limits[name] = draw(st.integers(1, 4))
        minimum = draw(st.integers(1, size))
        objects += gang(name, size, minimum, limits[name], cpu=str(draw(st.integers(1, 2))))
    return objects, limits


@settings(max_examples=60, deadline=None)
@given(case=crowded())
def test_a_hard_gang_is_whole_and_never_spans_more_than_its_tier(case: tuple[list[Json], dict[str, int]]) -> None:
    objects, limits = case
    world = worlds.world(*objects)
    for number in range(2):
        worlds.cycle(world, TOPOLOGY, seed=number)
        for name, limit in limits.items():
            job = world.jobs[f"ns/{name}"]
            placed = {t.key: world.nodes.names[t.row] for t in job.tasks.values() if t.row >= 0}
            assert not placed or (spans(world, placed) <= limit and len(placed) >= job.min_available)
    for sub in (sub for job in world.laid_out.values() if job.layout for sub in job.layout.subs.values()):
        assert sub.counts is sub.job.counts


@settings(max_examples=30, deadline=None)
@given(case=crowded(), seed=st.integers(0, 100))
def test_the_same_seed_decides_the_same(case: tuple[list[Json], dict[str, int]], seed: int) -> None:
    objects, _ = case
    twice = [worlds.binds(worlds.cycle(worlds.world(*objects), TOPOLOGY, seed=seed)) for _ in range(2)]
    assert twice[0] == twice[1]


@settings(max_examples=40, deadline=None)
@given(case=crowded())
def test_a_gang_that_does_not_fit_leaves_no_trace(case: tuple[list[Json], dict[str, int]]) -> None:
    objects, _ = case
    world = worlds.world(*objects, *gang("huge", 200, 200, 4))
    without = worlds.world(*objects)
    assert worlds.binds(worlds.cycle(world, TOPOLOGY)) == worlds.binds(worlds.cycle(without, TOPOLOGY))
    held = worlds.fingerprint(world)["nodes"]
    assert held == worlds.fingerprint(without)["nodes"]
