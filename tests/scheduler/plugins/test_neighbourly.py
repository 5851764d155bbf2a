"""Inter-pod affinity and topology spread, rule by rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from strato.scheduler.plugins.neighbourly import score_spread
from tests.scheduler import worlds

Json = dict[str, Any]
ZONE = "zone"
HOST = "kubernetes.io/hostname"


def node(name: str, zone: str = "", **more: Any) -> Json:
    return worlds.node(name, labels={ZONE: zone} if zone else {}, **more)


ROWS = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("bare")]


def running(name: str, on: str, namespace: str = "ns", **labels: str) -> Json:
    return worlds.pod(name, phase="Running", nodeName=on, namespace=namespace, labels=labels)


def term(key: str = ZONE, **more: Any) -> Json:
    selector = {"matchLabels": more.pop("match")} if "match" in more else None
    return {"topologyKey": key, **({"labelSelector": selector} if selector else {}), **more}


def affine(*terms: Json, anti: bool = False, soft: bool = False) -> Json:
    name = "podAntiAffinity" if anti else "podAffinity"
    if soft:
        wishes = [{"weight": 100, "podAffinityTerm": t} for t in terms]
        return {"affinity": {name: {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}}
    return {"affinity": {name: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def spread(key: str = ZONE, skew: int = 1, soft: bool = False, **more: Any) -> Json:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        "labelSelector": {"matchLabels": more.pop("match", {"app": "x"})},
        **more,
    }


def spreading(*constraints: Json, **more: Any) -> Json:
    return {"topologySpreadConstraints": list(constraints), "labels": {"app": "x"}, **more}


@dataclass(frozen=True)
class Case:
    id: str
    pod: Json
    others: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=lambda: ROWS)
    want: frozenset[str] = frozenset()
    said: str = ""


def names(*found: str) -> frozenset[str]:
    return frozenset(found)


DB = {"app": "db"}
LABELLED = {"kind": "Namespace", "metadata": {"name": "far", "labels": {"team": "red"}}}
CASES = [
    Case(
        "goes to the zone of what it wants to be near",
        affine(term(match=DB)),
        [running("d", "b1", app="db")],
        want=names("b1"),
    ),
    Case(
        "near two kinds of pods means near one that is both",
        affine(term(match={"app": "db"}), term(match={"tier": "hot"})),
        [running("d", "a1", app="db"), running("t", "a1", tier="hot"), running("both", "b1", app="db", tier="hot")],
        want=names("b1"),
    ),
    Case(
        "nobody to be near keeps it waiting",
        affine(term(match=DB)),
        said="didn't match pod affinity rules",
    ),
    Case(
        "the first that wants its own kind near may start",
        {**affine(term(match=DB)), "labels": DB},
        want=names("a1", "a2", "b1"),
    ),
    Case(
        "other namespaces do not count",
        affine(term(match=DB)),
        [running("d", "b1", "far", app="db")],
        said="didn't match pod affinity rules",
    ),
    Case(
        "named namespaces count",
        affine(term(match=DB, namespaces=["far"])),
        [running("d", "b1", "far", app="db")],
        want=names("b1"),
    ),
    Case(
        "selected namespaces count",
        affine(term(match=DB, namespaceSelector={"matchLabels": {"team": "red"}})),
        [LABELLED, running("d", "b1", "far", app="db")],
        want=names("b1"),
    ),
    Case(
        "an empty namespace selector means all of them",
        affine(term(match=DB, namespaceSelector={})),
        [running("d", "b1", "far", app="db")],
        want=names("b1"),
    ),
    Case(
        "matchLabelKeys narrow to its own revision",
        {**affine(term(match=DB, matchLabelKeys=["rev"])), "labels": {"rev": "2"}},
        [running("d1", "a1", app="db", rev="1"), running("d2", "b1", app="db", rev="2")],
        want=names("b1"),
    ),
    Case(
        "mismatchLabelKeys keep other tenants away",
        {**affine(term(match=DB, mismatchLabelKeys=["tenant"]), anti=True), "labels": {"tenant": "me"}},
        [running("d1", "a1", app="db", tenant="me"), running("d2", "b1", app="db", tenant="you")],
        want=names("a1", "a2", "bare"),
    ),
    Case(
        "keeps away from what it does not like",
        affine(term(match=DB), anti=True),
        [running("d", "a1", app="db")],
        want=names("b1", "bare"),
    ),
    Case(
        "what runs may not like it",
        {"labels": {"app": "new"}},
        [
            {
                **running("d", "a1"),
                "spec": {**running("d", "a1")["spec"], **affine(term(match={"app": "new"}), anti=True)},
            }
        ],
        want=names("b1", "bare"),
    ),
    Case(
        "prefers the zone of what it likes",
        affine(term(match=DB), soft=True),
        [running("d", "b1", app="db")],
        want=names("b1"),
    ),
    Case("spreads over zones", spreading(spread()), [running("x1", "a1", app="x")], want=names("b1")),
    Case(
        "spreads only where the label is",
        spreading(spread()),
        nodes=[node("bare")],
        said="didn't match pod topology spread constraints (missing required label)",
    ),
    Case(
        "allows a larger skew", spreading(spread(skew=2)), [running("x1", "a1", app="x")], want=names("a1", "a2", "b1")
    ),
    Case(
        "too few domains count as an empty one",
        spreading(spread(minDomains=3)),
        [running("x1", "a1", app="x"), running("x2", "b1", app="x")],
        said="didn't match pod topology spread constraints",
    ),
    Case(
        "pods of other revisions do not count",
        spreading(spread(matchLabelKeys=["rev"]), labels={"app": "x", "rev": "2"}),
        [running("x1", "a1", app="x", rev="1"), running("x2", "b1", app="x", rev="2")],
        want=names("a1", "a2"),
    ),
    Case(
        "leaving pods do not count",
        spreading(spread()),
        [
            worlds.pod("x1", phase="Running", nodeName="a1", labels={"app": "x"}, leaving=True),
            running("x2", "b1", app="x"),
        ],
        want=names("a1", "a2"),
    ),
    Case(
        "domains that its selector forbids do not count",
        spreading(spread(HOST), nodeSelector={ZONE: "a"}),
        [running("x1", "a1", app="x")],
        want=names("a2"),
    ),
    Case(
        "domains that its selector forbids count when the policy says so",
        spreading(spread(HOST, nodeAffinityPolicy="Ignore"), nodeSelector={ZONE: "a"}),
        [running("x1", "a1", app="x"), running("x2", "a2", app="x")],
        said="didn't match pod topology spread constraints",
    ),
    Case(
        "tainted domains count unless the policy honours taints",
        spreading(spread()),
        [running("x1", "a1", app="x")],
        [node("a1", "a"), node("b1", "b", taints=[{"key": "k", "effect": "NoSchedule"}])],
        said="didn't match pod topology spread constraints",
    ),
    Case(
        "tainted domains do not count when the policy honours taints",
        spreading(spread(nodeTaintsPolicy="Honor")),
        [running("x1", "a1", app="x")],
        [node("a1", "a"), node("b1", "b", taints=[{"key": "k", "effect": "NoSchedule"}])],
        want=names("a1"),
    ),
    Case("spreads softly where it can", spreading(spread(soft=True)), [running("x1", "a1", app="x")], want=names("b1")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rules_about_other_pods_decide_where_a_pod_runs(case: Case) -> None:
    found, message = set(), ""
    for seed in range(12):  # ties are broken by the seed: all that are as good show up
        world = worlds.world(
            worlds.queue(), *case.nodes, *case.others, worlds.group("g", 1), worlds.pod("p", "g", **case.pod)
        )
        plan = worlds.cycle(world, PLAIN, seed=seed, spread=seed)
        found |= set(worlds.binds(plan).values())
        message = plan.pods[0].message if plan.pods else ""
    assert found == case.want
    assert case.said in message


@pytest.mark.parametrize(
    ("there", "points"),
    [
        pytest.param({"a1": 1, "b1": 2}, {"a1": 100.0, "b1": 33.0}, id="of 1 and 3, counted so"),
        pytest.param({"a1": 3, "b1": 3}, {"a1": 100.0, "b1": 100.0}, id="equal ones too"),
        pytest.param({"a1": 0, "b1": 2}, {"a1": 100.0, "b1": 0.0}, id="against none, all others get nothing"),
    ],
)
def test_soft_spread_scores_by_what_is_there(there: dict[str, int], points: dict[str, float]) -> None:
    """Kubernetes: 100 * (most + least - here) / most, where here is counted with a weight of log(domains + 2)."""
    others = [running(f"{name}-{i}", name, app="x") for name, count in there.items() for i in range(count)]
    pod = worlds.pod("p", **spreading(spread(soft=True)))
    world = worlds.world(worlds.queue(), node("a1", "a"), node("b1", "b"), *others, pod)
    rows = np.array([world.nodes.row_of[name] for name in points], np.int64)
    found = score_spread(world, world.tasks["ns/p"], rows)
    assert found is not None
    assert dict(zip(points, found.tolist(), strict=True)) == points


PLAIN = """
actions: "allocate"
tiers:
- plugins: [{name: gang}]
- plugins:
  - {name: predicates}
  - name: nodeorder
    arguments: {leastrequested.weight: 0, balancedresource.weight: 0}
"""
