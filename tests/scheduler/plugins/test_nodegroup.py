"""nodegroup: affinities of queues, order of preference, inheritance, limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins import asking

NODES = [worlds.node(f"n{i}", labels={"volcano.sh/nodegroup-name": f"g{i}"}) for i in (1, 2, 3, 4)] + [
    worlds.node("bare")
]


def lists(required: list[str] | None = None, preferred: list[str] | None = None) -> dict[str, Any]:
    when = "DuringSchedulingIgnoredDuringExecution"
    return {f"required{when}": required or [], f"preferred{when}": preferred or []}


def affinity(towards: dict[str, Any] | None = None, against: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"nodeGroupAffinity": towards, "nodeGroupAntiAffinity": against}


def ask(queue: dict[str, Any], *more: dict[str, Any], **plugin: Any) -> Any:
    world = worlds.world(*NODES, queue, *more, worlds.group("g", 1, queue=queue["metadata"]["name"]))
    worlds.feed(world, worlds.pod("p", "g", cpu="1", memory="1Gi"))
    return asking.session(world, {"name": "nodegroup", **plugin})


def words(found: dict[str, tuple[str, bool]]) -> dict[str, str]:
    assert not any(curable for _, curable in found.values())
    short = {
        "node group label not found": "unlabelled",
        "node group affinity not specified": "unspecified",
        "node does not satisfy the node group affinity": "other",
        "node group resource limit annotation invalid": "invalid",
        "node group resource limit exceeded": "full",
    }
    return {node: short[text] for node, (text, _) in found.items()}


TABLE = [
    pytest.param(
        affinity(lists(), None),
        {"strict": False},
        {"n1": "unspecified", "n2": "unspecified", "n3": "unspecified", "n4": "unspecified"},
        dict.fromkeys(("n1", "n2", "n3", "n4", "bare"), 0.0),
        id="not strict: an affinity that names no group is none",
    ),
    pytest.param(
        affinity(lists(["g1"], ["g2"]), lists(["g3"], ["g4"])),
        {},
        {"n3": "other", "bare": "unlabelled"},
        {"n1": 100.0, "n2": 50.0, "n3": 0.0, "n4": -1.0, "bare": 0.0},
        id="required and preferred groups fit; so does one better avoided, with a malus",
    ),
    pytest.param(
        affinity(lists([], ["g1", "g2", "g3"])),
        {"enablePreferredOrder": True},
        {"n4": "other", "bare": "unlabelled"},
        {"n1": 50.0, "n2": 100 / 3, "n3": 50 / 3, "n4": 0.0, "bare": 0.0},
        id="preference falls along the list",
    ),
    pytest.param(
        affinity(lists(["g1"]), lists(["g1"], [])),
        {},
        {"n1": "other", "n2": "other", "n3": "other", "n4": "other", "bare": "unlabelled"},
        {"n1": 100.0, "n2": 0.0, "n3": 0.0, "n4": 0.0, "bare": 0.0},
        id="required against wins over required for",
    ),
    pytest.param(
        None,
        {},
        {"n1": "unspecified", "n2": "unspecified", "n3": "unspecified", "n4": "unspecified", "bare": "unlabelled"},
        dict.fromkeys(("n1", "n2", "n3", "n4", "bare"), 0.0),
        id="strict: a queue without affinity runs nowhere",
    ),
    pytest.param(
        None,
        {"strict": False},
        {"n1": "unspecified", "n2": "unspecified", "n3": "unspecified", "n4": "unspecified"},
        dict.fromkeys(("n1", "n2", "n3", "n4", "bare"), 0.0),
        id="not strict: it runs on nodes without a group",
    ),
    pytest.param(
        affinity(lists(["g1"])),
        {"strict": False},
        {"n2": "other", "n3": "other", "n4": "other", "bare": "unlabelled"},
        {"n1": 100.0, "n2": 0.0, "n3": 0.0, "n4": 0.0, "bare": 0.0},
        id="not strict helps queues without affinity only",
    ),
]


@pytest.mark.parametrize(("spec", "arguments", "refused", "scores"), TABLE)
def test_affinity(spec: Any, arguments: dict[str, Any], refused: dict[str, str], scores: dict[str, float]) -> None:
    ssn = ask(worlds.queue("q", affinity=spec), arguments=arguments)
    assert words(asking.refusals(ssn, "p")) == refused
    assert asking.scores(ssn, "p") == pytest.approx(scores, abs=1e-5)
    assert not ssn.one_by_one(asking.task(ssn, "p"))


@pytest.mark.parametrize(("on", "fits"), [(True, {"n2"}), (False, set())], ids=["inherited", "without hierarchy not"])
def test_affinity_of_the_nearest_ancestor(on: bool, fits: set[str]) -> None:
    root = worlds.queue("root", affinity=affinity(lists(["g1"])))
    middle = worlds.queue("m", parent="root", affinity=affinity(lists(["g2"])))
    ssn = ask(worlds.queue("q", parent="m"), root, middle, enableHierarchy=on)
    assert {"n1", "n2", "n3", "n4"} - set(asking.refusals(ssn, "p")) == fits


def limited(text: str) -> dict[str, Any]:
    made = worlds.queue("q", affinity=affinity(lists(["g1", "g2"])))
    made["metadata"]["annotations"] = {"volcano.sh/nodegroup-resource-limits": text}
    return made


LIMITS = [
    pytest.param('{"g1": {"cpu": "2"}}', {"n3": "other", "n4": "other", "bare": "unlabelled"}, id="just fits"),
    pytest.param(
        '{"g1": {"cpu": "1500m"}}', {"n1": "full", "n3": "other", "n4": "other", "bare": "unlabelled"}, id="exceeds"
    ),
    pytest.param('{"g1": {"memory": "1Gi"}}', {"n1": "full", "n3": "other", "n4": "other", "bare": "unlabelled"},
                 id="each named resource counts"),
    pytest.param("{oops", dict.fromkeys(("n1", "n2", "n3", "n4", "bare"), "invalid"), id="unreadable"),
    pytest.param("[" * 99_000, dict.fromkeys(("n1", "n2", "n3", "n4", "bare"), "invalid"), id="too deep"),
    pytest.param('{"g1": {"cpu": "much"}}', dict.fromkeys(("n1", "n2", "n3", "n4", "bare"), "invalid"), id="no amount"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "refused"), LIMITS)
def test_limits_count_what_the_queue_holds_in_the_group(text: str, refused: dict[str, str]) -> None:
    running = worlds.pod("r", "g", cpu="1", memory="1Gi", phase="Running", nodeName="n1")
    ssn = ask(limited(text), running)
    assert words(asking.refusals(ssn, "p")) == refused


def test_limits_hold_within_a_cycle() -> None:
    world = worlds.world(
        *NODES[:2], limited('{"g1": {"cpu": "2"}, "g2": {"cpu": "1"}}'), worlds.group("g", 0, queue="q")
    )
    worlds.feed(world, *[worlds.pod(f"p{i}", "g") for i in range(8)])
    placed = list(worlds.binds(worlds.cycle(world, asking.config("nodegroup"))).values())
    assert (placed.count("n1"), placed.count("n2")) == (2, 1)
