"""Rules of pods about other pods are found by labels as they would be by asking every one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api.selectors import from_label_selector
from strato.api.shapes import LabelSelector
from strato.scheduler.cache.affinity import HARD_WEIGHT, Term
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Task
from strato.scheduler.ordering.jobclasses import PENDING
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
KEYS, VALUES = ("a", "b"), ("x", "y", "z")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expressions = st.builds(
    lambda key, operator, values: {
        "key": key, "operator": operator, "values": values if operator in ("In", "NotIn") else []
    },
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
)  # fmt: skip
selectors = st.one_of(
    st.none(),
    st.builds(lambda m, e: {"matchLabels": m, "matchExpressions": e}, labels, st.lists(expressions, max_size=2)),
)
terms = st.builds(
    lambda selector, namespaces, chosen, same: {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": selector,
        "namespaces": namespaces,
        "namespaceSelector": chosen,
        "matchLabelKeys": same if selector is not None else [],
    },
    selectors,
    st.lists(st.sampled_from(("ns", "other")), max_size=1),
    selectors,
    st.lists(st.sampled_from(KEYS), max_size=1),
)


@st.composite
def affinities(draw: st.DrawFn) -> Json:
    out: Json = {}
    for side in ("podAffinity", "podAntiAffinity"):
        wishes = [
            {"weight": draw(st.integers(1, 100)), "podAffinityTerm": t} for t in draw(st.lists(terms, max_size=2))
        ]
        out[side] = {
            "requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(terms, max_size=2)),
            "preferredDuringSchedulingIgnoredDuringExecution": wishes,
        }
    return out


def plainly(world: World, task: Task) -> Counter[tuple[int, str, int, bool]]:
    """Ask every class for every term."""
    found: Counter[tuple[int, str, int, bool]] = Counter()
    for cls, owner in {other.cls: other for other in world.tasks.values()}.items():
        affinity = cls.spec.affinity
        if affinity is None:
            continue
        near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
        rules = [(t, 0, True) for t in (apart.required if apart else ())]
        rules += [(t, HARD_WEIGHT, False) for t in (near.required if near else ())]
        rules += [(p.pod_affinity_term, p.weight, False) for p in (near.preferred if near else ())]
        rules += [(p.pod_affinity_term, -p.weight, False) for p in (apart.preferred if apart else ())]
        for term, weight, is_anti in rules:
            if Term(term, owner).matches(task, world.namespaces):
                found[cls.number, str(Term(term, owner).key), weight, is_anti] += 1
    return found


def indexed(world: World, task: Task) -> Counter[tuple[int, str, int, bool]]:
    rules = world.affinity.about(task, world.namespaces)
    return Counter((rule.cls.number, str(rule.term.key), rule.weight, rule.is_anti) for rule in rules)


@settings(max_examples=150, deadline=None)
@given(
    owners=st.lists(st.tuples(affinities(), labels, st.sampled_from(("ns", "other"))), max_size=4),
    asked=st.lists(st.tuples(labels, st.sampled_from(("ns", "other"))), min_size=1, max_size=3),
    gone=st.sets(st.integers(0, 3)),
    namespace=labels,
)
def test_the_index_finds_the_rules_that_asking_everybody_finds(
    owners: list[Any], asked: list[Any], gone: set[int], namespace: dict[str, str]
) -> None:
    world = worlds.world(worlds.node("n"))
    world.set_namespace("ns", namespace)
    for at, (affinity, own, home) in enumerate(owners):
        for twin in "ab":
            worlds.feed(world, worlds.pod(f"o{at}{twin}", affinity=affinity, labels=own, namespace=home))
    pods = [worlds.pod(f"p{at}", labels=own, namespace=home) for at, (own, home) in enumerate(asked)]
    worlds.feed(world, *pods)
    for removed in (
        (),
        [f"{at}a" for at in gone],
        [f"{at}b" for at in gone],
        [f"{at}{t}" for at in range(4) for t in "ab"],
    ):
        for name in removed:
            for home in ("ns", "other"):
                world.remove_pod(f"{home}/o{name}")
        for at, (_, home) in enumerate(asked):
            task = world.tasks[f"{home}/p{at}"]
            assert indexed(world, task) == plainly(world, task)
            assert world.has_rules_about(task) == bool(plainly(world, task))
    assert not world.affinity
    assert not vars(world.affinity)["_rules"]


def avoids(**wanted: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": wanted}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(("app", "classes"), [("other", 1), ("batch", 3)], ids=["of others", "about these pods"])
def test_rules_keep_only_those_jobs_apart_that_they_are_about(app: str, classes: int) -> None:
    service = worlds.pod("s", labels={"app": app}, affinity=avoids(app=app), phase="Running", nodeName="n")
    jobs = [worlds.group(f"g{i}", 1) for i in range(3)]
    pods = [worlds.pod(f"p{i}", f"g{i}", labels={"app": "batch", "i": str(i)}) for i in range(3)]
    world = worlds.world(worlds.node("n"), worlds.queue(), *jobs, *pods)
    ssn = asking.session(world, "gang", "predicates", "priority")
    assert len(ssn.job_classes.of(PENDING)) == 1
    worlds.feed(world, service)
    ssn = asking.session(world, "gang", "predicates", "priority", placer=ssn.placer)
    assert len(ssn.job_classes.of(PENDING)) == classes
    world.remove_pod("ns/s")
    ssn = asking.session(world, "gang", "predicates", "priority", placer=ssn.placer)
    assert len(ssn.job_classes.of(PENDING)) == 1


def test_pods_that_are_spread_have_no_rules() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    world = worlds.world(worlds.node("n"))
    before = world.affinity.generation
    worlds.feed(world, worlds.pod("p", topologySpreadConstraints=[spread]))
    assert world.affinity
    world.remove_pod("ns/p")
    assert not world.affinity
    assert world.affinity.generation == before
    worlds.feed(world, worlds.pod("q", affinity=avoids(app="x")))
    assert world.affinity.generation > before


@settings(max_examples=200, deadline=None)
@given(selector=selectors, own=labels)
def test_whatever_matches_has_one_of_the_labels_asked_for(selector: Json | None, own: dict[str, str]) -> None:

    made = from_label_selector(msgspec.convert(selector, LabelSelector) if selector is not None else None)
    one_of = made.one_of
    if made.matches(own) and one_of is not None:
        assert len(set(own.items()) & set(one_of)) == 1
