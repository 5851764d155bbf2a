"""What rows offered to one evictor is not asked for another: the same is decided, and plugins are asked less."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.actions.offers import Offers
from strato.scheduler.config import parse_config
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.plugins.priority import Priority
from tests.profiles import examples
from tests.scheduler import worlds
from tests.scheduler.rules.deciding import priority

Json = dict[str, Any]
CONFIG = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enableReclaimable: false}}, {{name: conformance}}, {{name: pdb}}]
- plugins: [{{name: drf, enablePreemptable: {drf}}}, {{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


def budget(name: str, allowed: int) -> Json:
    spec = {"selector": {"matchLabels": {"app": name}}}
    status = {"disruptionsAllowed": allowed, "disruptedPods": {}}
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": spec,
        "status": status,
    }


def cluster(seed: int) -> list[Json]:
    """A full cluster in which jobs of all sizes wait."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 5)
    out: list[Json] = [priority("high", 100), priority("low", 1), worlds.queue("a"), worlds.queue("b", weight=2)]
    out += [worlds.node(f"n{i}", cpu=str(rng.randint(2, 6)), memory="16Gi") for i in range(nodes)]
    out += [budget(name, rng.randint(0, 2)) for name in ("x", "y")]
    for j in range(rng.randint(2, 8)):
        of = rng.choice(("high", "low", ""))
        out.append(
            worlds.group(
                f"r{j}", rng.randint(0, 2), queue=rng.choice("ab"), phase="Running",
                **({"priorityClassName": of} if of else {}),
            )
        )  # fmt: skip
        for p in range(rng.randint(1, 4)):
            where: Json = {
                "phase": "Running",
                "nodeName": f"n{rng.randrange(nodes)}",
                "labels": {"app": rng.choice("xyz")},
            }
            if p and rng.random() < 0.2:
                where = {}
            out.append(
                worlds.pod(f"r{j}-{p}", f"r{j}", rng.choice(("1", "500m", "2")), priority=rng.choice((0, 5)), **where)
            )
    for j in range(rng.randint(2, 10)):
        of = rng.choice(("high", "high", "low", ""))
        spec: Json = {"queue": rng.choice("ab"), **({"priorityClassName": of} if of else {})}
        size = rng.choice((1, 1, 2))
        out.append(worlds.group(f"w{j}", size, **spec))
        cpu = f"{rng.randint(2, 40) * 100}m" if rng.random() < 0.9 else ""
        out += [
            worlds.pod(f"w{j}-{p}", f"w{j}", cpu, "1Gi" if cpu else "", priority=rng.choice((0, 5)))
            for p in range(size)
        ]
    return out


@pytest.mark.parametrize("actions", ["preempt", "reclaim", "allocate, preempt, reclaim", "preempt, preempt, reclaim"])
@pytest.mark.parametrize("drf", ["false", "true"], ids=["facts are enough", "a plugin that looks at requests"])
@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_the_same_is_decided_as_by_asking_every_row(actions: str, drf: str, seed: int) -> None:
    plans = []
    config = parse_config(CONFIG.format(actions=actions, drf=drf))
    for remembers in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not remembers:
                patch.setattr(Offers, "room", lambda *_: None)
            plan = worlds.cycle(worlds.world(*cluster(seed)), config)
        gone = [(eviction.task.name, eviction.action, eviction.beneficiary) for eviction in plan.evictions]
        plans.append((gone, worlds.binds(plan), plan.pipelined))
    assert plans[0] == plans[1]


FULL = [worlds.node(f"n{i}", cpu="4") for i in range(20)]
RUNNING = [worlds.pod(f"r{i}", "r", cpu="2", phase="Running", nodeName=f"n{i // 2}") for i in range(40)]


@pytest.mark.parametrize(("says", "asked"), [(True, 20), (False, 200)], ids=["it says", "it does not say"])
def test_a_full_cluster_is_asked_once_if_plugins_say_what_they_look_at(
    says: bool, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(plugin: Priority, preemptor: Any, candidates: Any) -> Any:
        calls.append(preemptor.key)
        return original(plugin, preemptor, candidates)

    original = Priority.preemptable
    monkeypatch.setattr(Priority, "preemptable", counted)
    if not says:
        monkeypatch.setattr(Priority, "evictor_facts", None)
    jobs = [worlds.group(f"w{j}", 1, priorityClassName="low") for j in range(10)]
    pods = [worlds.pod(f"w{j}", f"w{j}", cpu=f"{2000 + j}m") for j in range(10)]
    running = worlds.group("r", 1, phase="Running", priorityClassName="low")
    objects = [*FULL, worlds.queue(), priority("low", 1), running, *RUNNING, *jobs, *pods]
    plan = worlds.cycle(worlds.world(*objects), CONFIG.format(actions="preempt", drf="false"))
    assert plan.evictions == []
    assert len(calls) == asked


def test_a_fact_that_no_task_has_is_refused() -> None:
    with pytest.raises(TypeError, match=r"evictor_facts: 'cls' is none of job\.priority, preemptable, priority"):
        type("Wrong", (Plugin,), {"evictor_facts": ("cls",)})
