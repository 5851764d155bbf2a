"""predicates: which nodes a pod may run on by what the node object says, and what a refusal is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.reasons import MOST_REASONS, FitErrors, Reason
from strato.scheduler.plugins.predicates import merged, ports_clash
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
CORDONED = "node(s) were unschedulable"
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Json:
    return {"key": key, "value": value, "effect": effect}


def untolerated(key: str, value: str = "") -> str:
    return f"node(s) had untolerated taint {{{key}: {value}}}"


def required(key: str, *values: str, operator: str = "In") -> Json:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


TOLERANT = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]
NODES: list[Any] = [
    pytest.param({}, {}, "", id="a plain node"),
    pytest.param({"unschedulable": True}, {}, CORDONED, id="a cordon"),
    pytest.param({"unschedulable": True}, {"tolerations": TOLERANT}, "", id="a cordon that is tolerated"),
    pytest.param({"labels": {"zone": "a"}}, {"nodeSelector": {"zone": "a"}}, "", id="the label selected"),
    pytest.param({"labels": {"zone": "b"}}, {"nodeSelector": {"zone": "a"}}, UNMATCHED, id="another value"),
    pytest.param({}, {"nodeSelector": {"zone": "a"}}, UNMATCHED, id="no such label"),
    pytest.param({"labels": {"zone": "a"}}, {"affinity": required("zone", "a", "b")}, "", id="one of two values"),
    pytest.param({"labels": {"zone": "c"}}, {"affinity": required("zone", "a", "b")}, UNMATCHED, id="neither value"),
    pytest.param({}, {"affinity": required("zone", operator="DoesNotExist")}, "", id="a label that must not be"),
    pytest.param({"taints": [taint("k", "v")]}, {}, untolerated("k", "v"), id="a taint"),
    pytest.param({"taints": [taint("k", effect="NoExecute")]}, {}, untolerated("k"), id="one that also evicts"),
    pytest.param({"taints": [taint("k", effect="PreferNoSchedule")]}, {}, "", id="a soft one is no matter of filters"),
    pytest.param(
        {"taints": [taint("k", "v"), taint("l", "w")]}, {"tolerations": [{"key": "k", "operator": "Exists"}]},
        untolerated("l", "w"), id="the first that is not tolerated",
    ),
    pytest.param({"taints": [taint("k", "v")]}, {"tolerations": [{"operator": "Exists"}]}, "", id="all tolerated"),
    pytest.param(
        {"unschedulable": True, "labels": {"zone": "b"}, "taints": [taint("k")]}, {"nodeSelector": {"zone": "a"}},
        CORDONED, id="the cordon is named first",
    ),
    pytest.param(
        {"labels": {"zone": "b"}, "taints": [taint("k")]}, {"nodeSelector": {"zone": "a"}}, UNMATCHED,
        id="then the selector",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("node", "pod", "refusal"), NODES)
def test_by_the_node_object(node: Json, pod: Json, refusal: str) -> None:
    world = worlds.world(worlds.node("n", **node), worlds.pod("p", **pod))
    said = asking.refusals(asking.session(world, "predicates"), "p")
    assert said == ({"n": (refusal, False)} if refusal else {})


SWITCHES: list[Any] = [
    pytest.param("NodeAffinityEnable", {"labels": {"zone": "b"}}, {"nodeSelector": {"zone": "a"}}, {}, id="selectors"),
    pytest.param("TaintTolerationEnable", {"taints": [taint("k")]}, {}, {}, id="taints"),
    pytest.param("TaintTolerationEnable", {"unschedulable": True}, {}, {"n": (CORDONED, False)}, id="but not cordons"),
    pytest.param(
        "NodeAffinityEnable", {"taints": [taint("k")]}, {}, {"n": (untolerated("k"), False)}, id="one rule is one rule"
    ),
]


@pytest.mark.parametrize(("switch", "node", "pod", "left"), SWITCHES)
def test_a_rule_can_be_switched_off(switch: str, node: Json, pod: Json, left: Json) -> None:
    world = worlds.world(worlds.node("n", **node), worlds.pod("p", **pod))
    off = {"name": "predicates", "arguments": {f"predicate.{switch}": False}}
    assert asking.refusals(asking.session(world, off), "p") == left


@pytest.mark.parametrize("nodes", [254, 255, 256, 1000])
def test_any_number_of_nodes_may_have_a_taint_of_its_own(nodes: int) -> None:
    tainted = [worlds.node(f"n{i:04}", taints=[taint("team", f"t{i}")]) for i in range(nodes)]
    last = f"t{nodes - 1}"
    mine = [{"key": "team", "operator": "Equal", "value": last, "effect": "NoSchedule"}]
    world = worlds.world(*tainted, worlds.queue(), worlds.group("g", 1), worlds.pod("p", "g", tolerations=mine))
    assert worlds.binds(worlds.cycle(world)) == {"ns/p": f"n{nodes - 1:04}"}


def test_of_a_thousand_reasons_a_message_names_the_most_frequent() -> None:
    counts = {Reason("p", f"had taint {i:03}"): 3 if i == 500 else 1 for i in range(1000)}
    text = FitErrors(1002, counts).message("ns/p")
    assert text.count("had taint") == MOST_REASONS
    assert "3 had taint 500" in text
    assert text.endswith("950 for 950 other reasons.")
    few = dict(list(counts.items())[:MOST_REASONS])
    assert "other reasons" not in FitErrors(1002, few).message("ns/p")


def test_taints_that_come_and_go_leave_nothing_behind() -> None:
    world = worlds.world(worlds.node("n"), worlds.pod("p"))
    ssn = asking.session(world, "predicates")
    for turn in range(3000):
        worlds.feed(world, worlds.node("n", taints=[taint("turn", str(turn))]))
        ssn = asking.session(world, "predicates", placer=ssn.placer)
        candidates = ssn.placer.known.of(ssn, asking.task(ssn, "p"))
    assert len(candidates.reasons) <= 1100
    assert not candidates.mask.any()
    worlds.feed(world, worlds.node("n"))
    ssn = asking.session(world, "predicates", placer=ssn.placer)
    assert ssn.placer.known.of(ssn, asking.task(ssn, "p")).mask.sum() == 1


def test_of_several_rules_the_first_that_refuses_a_row_counts() -> None:
    a, b, c = Reason("p", "a"), Reason("p", "b"), Reason("p", "c")
    first = Verdicts(np.array([0, 1, 2, 0], np.uint16), (a, b))
    second = Verdicts(np.array([1, 1, 0, 0], np.uint16), (c,))
    answer = merged([first, second], 4)
    assert answer is not None
    assert [answer.reasons[code - 1] if code else None for code in answer.codes.tolist()] == [c, a, b, None]
    assert merged([], 4) is None


def port(number: int, protocol: str = "TCP", ip: str = "") -> Json:
    return {"containerPort": 80, "hostPort": number, "protocol": protocol, **({"hostIP": ip} if ip else {})}


CLASHES: list[Any] = [
    pytest.param([port(80)], [port(80)], True, id="the same"),
    pytest.param([port(80)], [port(81)], False, id="another port"),
    pytest.param([port(80)], [port(80, "UDP")], False, id="another protocol"),
    pytest.param([port(80, ip="10.0.0.1")], [port(80, ip="10.0.0.2")], False, id="another address"),
    pytest.param([port(80, ip="10.0.0.1")], [port(80, ip="10.0.0.1")], True, id="the same address"),
    pytest.param([port(80, ip="10.0.0.1")], [port(80)], True, id="held on all addresses"),
    pytest.param([port(80)], [port(80, ip="10.0.0.1")], True, id="wanted on all addresses"),
    pytest.param([port(1), port(80)], [port(80)], True, id="the second of two wanted"),
    pytest.param([port(80)], [port(1), port(80)], True, id="the second of two held"),
    pytest.param([port(80)], [], False, id="none held"),
]


@pytest.mark.parametrize(("wants", "holds", "clash"), CLASHES)
def test_host_ports(wants: list[Json], holds: list[Json], clash: bool) -> None:
    holder = worlds.pod("h", phase="Running", nodeName="n", ports=holds)
    ssn = asking.session(worlds.world(worlds.node("n"), worlds.pod("p", ports=wants), holder), "predicates")
    mine, other = asking.task(ssn, "p"), asking.task(ssn, "h")
    assert ports_clash(mine, [other]) == clash
    assert not ports_clash(mine, [mine])
    assert asking.refusals(ssn, "p") == (
        {"n": ("node(s) didn't have free ports for the requested pod ports", True)} if clash else {}
    )
