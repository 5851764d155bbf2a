"""Which nodes count in what queues share, and how it is shared where queues are kept to groups of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput
from strato.scheduler.cache.totals import TotalsRule
from strato.scheduler.cache.world import World
from strato.scheduler.config import config_from
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import CPU, Dimensions
from strato.scheduler.plugins.proportion import Proportion
from strato.scheduler.plugins.waterfilling import NodePool, QueueEntitlement, fill_pools
from tests.scheduler import worlds
from tests.scheduler.plugins import asking
from tests.scheduler.worlds import group, node, pod, queue

Json = dict[str, Any]
LOST = {"conditions": [{"type": "Ready", "status": "Unknown"}]}


def not_ready(name: str) -> Json:
    made = node(name)
    made["status"] |= LOST
    return made


def taint(key: str, effect: str = "NoSchedule") -> Json:
    return {"key": key, "effect": effect}


def cpus(world: World) -> float:
    return float(world.totals.total[CPU]) / 1000


def total(*objects: Json, names: tuple[str, ...] = (), **configuration: Any) -> float:
    world = worlds.world(*objects, names=names)
    world.totals.rule = config_from({"actions": "allocate", "strict-totals": True, **configuration}).totals
    return cpus(world)


STRICT = TotalsRule(strict=True)
STRICTLY = {"strict-totals": True}
OTHERS = pod("o", cpu="3", schedulerName="other", nodeName="a", phase="Running")
TOLERATED = [{"key": "gpu", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("objects", "configuration", "want"),
    [
        pytest.param([node("a"), node("b")], {}, 8, id="all of them"),
        pytest.param([node("a"), not_ready("b")], {}, 4, id="not one that is lost"),
        pytest.param([node("a"), node("b", unschedulable=True)], {}, 4, id="not a cordoned one"),
        pytest.param(
            [node("a"), node("b", taints=[taint("node.kubernetes.io/disk-pressure")])], {}, 4, id="a condition"
        ),
        pytest.param(
            [node("a"), node("b", taints=[taint("node-role.kubernetes.io/control-plane")])], {}, 4, id="a role"
        ),
        pytest.param([node("a"), node("b", taints=[taint("gpu")])], {}, 8, id="people's taints are for jobs"),
        pytest.param([node("a"), node("b", taints=[taint("gpu")])], {"totals-tolerations": []}, 4, id="unless said"),
        pytest.param(
            [node("a"), node("b", taints=[taint("gpu")]), node("c", taints=[taint("x", "NoExecute")])],
            {"totals-tolerations": TOLERATED},
            8,
            id="what jobs tolerate is said",
        ),
        pytest.param(
            [node("a"), node("b", taints=[taint("gpu", "PreferNoSchedule")])],
            {"totals-tolerations": []},
            8,
            id="a preference keeps nobody away",
        ),
        pytest.param([node("a"), OTHERS], {}, 1, id="less what others placed"),
        pytest.param(
            [node("a"), OTHERS, not_ready("b"), node("c", unschedulable=True)],
            {"strict-totals": False},
            12,
            id="Volcano's: everything",
        ),
    ],
)
def test_what_there_is(objects: list[Json], configuration: Json, want: float) -> None:
    assert total(*objects, names=("volcano",), **configuration) == want


def test_the_sum_follows_nodes_and_pods() -> None:
    world = worlds.world(node("a"), node("b"), names=("volcano",))
    world.totals.rule = STRICT
    assert cpus(world) == 8
    worlds.feed(world, not_ready("a"))
    assert cpus(world) == 4
    worlds.feed(
        world, {**node("a"), "status": {**node("a")["status"], "conditions": [{"type": "Ready", "status": "True"}]}}
    )
    assert cpus(world) == 8
    worlds.feed(world, OTHERS)
    assert cpus(world) == 5
    worlds.feed(world, {**OTHERS, "status": {"phase": "Succeeded"}})
    assert cpus(world) == 8
    worlds.feed(world, pod("ours", cpu="2", schedulerName="volcano", nodeName="b", phase="Running"))
    assert cpus(world) == 8
    assert world.totals.idle[CPU] == 6000
    world.remove_node("a")
    assert cpus(world) == 4
    world.remove_pod("ns/o")
    worlds.feed(world, node("c", cpu="1"))
    assert cpus(world) == 5


@given(
    strict=st.booleans(),
    cores=st.lists(
        st.tuples(st.integers(0, 8), st.sampled_from(["", "A", "B"]), st.booleans()), min_size=1, max_size=5
    ),
    others=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9), st.booleans()), max_size=6),
)
def test_the_pools_are_the_parts_of_the_total(
    strict: bool, cores: list[tuple[int, str, bool]], others: list[tuple[int, int, bool]]
) -> None:
    """Whatever counts, and also where pods of others hold more than their node has."""
    labels = [{"volcano.sh/nodegroup-name": pool} if pool else {} for _, pool, _ in cores]
    nodes = [
        node(f"n{i}", cpu=str(cpu), labels=labels[i], unschedulable=cordoned)
        for i, (cpu, _, cordoned) in enumerate(cores)
    ]
    pods = [
        pod(f"o{i}", cpu=str(cpu), schedulerName="other" if foreign else "volcano", nodeName=f"n{row}", phase="Running")
        for i, (row, cpu, foreign) in enumerate(others)
        if row < len(cores)
    ]
    world = worlds.world(*nodes, *pods, names=("volcano",))
    world.totals.rule = TotalsRule(strict=strict)
    assert sum(int(one[CPU]) for one in world.totals.pools.values()) == world.totals.total[CPU]


def test_a_node_that_others_overfill_takes_nothing_from_the_next() -> None:
    world = worlds.world(node("a", cpu="2"), node("b"), OTHERS, names=("volcano",))
    world.totals.rule = STRICT
    assert cpus(world) == 4


def test_a_bad_rule_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput) as caught:
        config_from({"actions": "allocate", "strict-totals": "no", "totals-tolerations": [3]})
    assert [problem.where for problem in caught.value.problems] == ["strict-totals", "totals-tolerations"]


def test_a_queue_over_its_real_share_is_found() -> None:
    """Ten nodes of which five are ours and one is lost: a half of what is left, not of all."""
    nodes = [node(f"n{i}", cpu="10") for i in range(4)] + [not_ready("n4")]
    pods = [pod(f"p{i}", "g", cpu="10", nodeName=f"n{i % 4}", phase="Running") for i in range(3)]
    waiting = [pod(f"w{i}", "h", cpu="10") for i in range(4)]
    queues = [queue("q"), queue("r"), group("g", 1, queue="q"), group("h", 1, queue="r")]
    ssn = asking.session(worlds.world(*nodes, *queues, *pods, *waiting), "proportion", **STRICTLY)
    (plugin,) = [one for one in ssn.plugins if isinstance(one, Proportion)]
    attributes = plugin.of(ssn.world.queues["q"])
    assert attributes is not None
    assert attributes.deserved[CPU] == 20_000


def affinity(*groups: str) -> Json:
    return {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(groups)}}


def test_pools_are_shared_by_those_that_may_use_them() -> None:
    nodes = [
        node(f"{pool}{i}", cpu="10", labels={"volcano.sh/nodegroup-name": pool}) for pool in "AB" for i in range(5)
    ]
    queues = [
        queue("q1", affinity=affinity("A")),
        queue("q2", affinity=affinity("A", "B")),
        queue("q3", weight=2, affinity=affinity("B")),
    ]
    hungry: list[Json] = []
    for name in ("q1", "q2", "q3"):
        hungry += [group(f"g{name}", 1, queue=name), *(pod(f"{name}-{i}", f"g{name}", cpu="10") for i in range(20))]
    world = worlds.world(*nodes, *queues, *hungry)
    ssn = asking.session(world, "nodegroup", "proportion", **STRICTLY)
    (plugin,) = [one for one in ssn.plugins if isinstance(one, Proportion)]
    found = {name: plugin.of(world.queues[name]) for name in ("q1", "q2", "q3")}
    deserved = {name: round(float(one.deserved[CPU]) / 1000, 1) for name, one in found.items() if one is not None}
    assert deserved == {"q1": 25.0, "q2": 41.7, "q3": 33.3}


@given(
    totals=st.lists(st.integers(0, 1000), min_size=1, max_size=4),
    queues=st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 2000), st.sets(st.integers(0, 3), min_size=1)), max_size=5
    ),
)
def test_no_pool_is_shared_out_twice(totals: list[int], queues: list[tuple[int, int, set[int]]]) -> None:
    def amounts(number: float) -> Any:
        return np.array([number, 0.0, 0.0])

    zero = np.zeros(3, np.int64)
    made = {
        f"q{i}": QueueEntitlement(
            queue=Queue(f"q{i}", Dimensions()),
            weight=float(weight),
            guarantee=amounts(0),
            real_capability=amounts(float(sum(totals))),
            request=amounts(float(request)),
            inqueue=zero,
            elastic=zero,
        )
        for i, (weight, request, _) in enumerate(queues)
    }
    pools = [
        NodePool(total=amounts(float(one)), members=[f"q{i}" for i, (_, _, may) in enumerate(queues) if number in may])
        for number, one in enumerate(totals)
    ]
    fill_pools(made, pools)
    for i, (_, request, may) in enumerate(queues):
        room = sum(one for number, one in enumerate(totals) if number in may)
        assert made[f"q{i}"].deserved[0] <= min(request, room) + 1e-6
    assert sum(one.deserved[0] for one in made.values()) <= sum(totals) + 1e-6
