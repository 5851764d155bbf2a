"""Between an eviction and the API's word on it the victim counts as leaving, whatever is read of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.scheduler.cache.world import World
from strato.scheduler.model.tasks import BOUND, RELEASING, RUNNING, STATUS_NAMES
from tests.scheduler import worlds
from tests.scheduler.reporting.test_evictionrecords import EVICTING, HIGH

Json = dict[str, Any]

RECLAIM = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""
EVICTED = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "DisruptionTarget", "status": "True"}]}


def low(name: str, **more: Json | str) -> Json:
    return worlds.pod(name, "low", phase="Running", nodeName="n", **more)


def full(between_queues: bool = False) -> list[Json]:
    """Two unimportant pods fill a node, an important one waits."""
    first = "a" if between_queues else "default"
    queues = [worlds.queue(first, deserved={"cpu": "2", "memory": "8Gi"})]
    if between_queues:
        queues.append(worlds.queue("b", deserved={"cpu": "0", "memory": "0"}))
    objects = [HIGH, *queues, worlds.node("n", cpu="2")]
    objects += [worlds.group("low", 0, phase="Running", queue="b" if between_queues else first), low("v0"), low("v1")]
    high = worlds.group("high", 1, priorityClassName="high", queue=first)
    return [*objects, high, worlds.pod("high", "high", priority=100)]


def told(pod: Json, **status: object) -> Json:
    """Return a pod as its status was patched."""
    return {**pod, "status": {**pod["status"], **status}}


def victim_of(world: World, config: str) -> str:
    (eviction,) = worlds.cycle(world, config).evictions
    return eviction.task.name


either = pytest.mark.parametrize(
    ("config", "between"), [pytest.param(EVICTING, False, id="preempt"), pytest.param(RECLAIM, True, id="reclaim")]
)


@either
def test_the_echo_of_a_patch_does_not_take_an_eviction_back(config: str, between: bool) -> None:
    world = worlds.world(*full(between))
    name = victim_of(world, config)
    for _ in range(3):
        worlds.feed(world, told(low(name), **EVICTED))
        assert world.tasks[f"ns/{name}"].status == RELEASING
        assert worlds.cycle(world, config).evictions == []
        worlds.check_invariants(world)


@either
def test_a_change_of_annotations_does_not_take_an_eviction_back(config: str, between: bool) -> None:
    world = worlds.world(*full(between))
    name = victim_of(world, config)
    worlds.feed(world, low(name, annotations={"note": "new"}))
    assert world.tasks[f"ns/{name}"].status == RELEASING
    assert worlds.cycle(world, config).evictions == []
    worlds.check_invariants(world)


def test_a_list_from_before_the_deletion_does_not_bring_a_pod_back() -> None:
    world = worlds.world(*full())
    name = victim_of(world, EVICTING)
    worlds.feed(world, low(name, leaving=True))
    assert not world.evictions.unconfirmed
    worlds.feed(world, low(name))
    assert world.tasks[f"ns/{name}"].status == RELEASING


@pytest.mark.parametrize(("phase", "want"), [("Running", RUNNING), ("Pending", BOUND)])
def test_a_refusal_gives_the_pod_back_at_once_and_spares_it_for_a_while(phase: str, want: int) -> None:
    world = worlds.world(*full())
    name = victim_of(world, EVICTING)
    worlds.feed(world, told(low(name), phase=phase))
    world.refuse_eviction(f"ns/{name}", f"ns-{name}", now=1_700_000_000.0)
    assert STATUS_NAMES[world.tasks[f"ns/{name}"].status] == STATUS_NAMES[want]
    worlds.check_invariants(world)
    assert victim_of(world, EVICTING) != name
    other = next(key for key in world.evictions.unconfirmed)
    world.refuse_eviction(other, other.replace("/", "-"), now=1_700_000_000.0)
    assert worlds.cycle(world, EVICTING).evictions == []
    assert len(worlds.cycle(world, EVICTING, now=1_700_000_002.0).evictions) == 1


def test_a_namesake_of_a_victim_is_a_pod_like_any_other() -> None:
    world = worlds.world(*full())
    name = victim_of(world, EVICTING)
    again = low(name)
    again["metadata"]["uid"] = "another"
    worlds.feed(world, again)
    assert world.tasks[f"ns/{name}"].status == RUNNING
    world.refuse_eviction(f"ns/{name}", f"ns-{name}", now=0.0)
    assert world.tasks[f"ns/{name}"].status == RUNNING
    assert len(worlds.cycle(world, EVICTING).evictions) == 1


def test_a_victim_that_ends_by_itself_is_over() -> None:
    world = worlds.world(*full())
    name = victim_of(world, EVICTING)
    worlds.feed(world, told(low(name), phase="Succeeded"))
    assert not world.evictions.unconfirmed
    assert worlds.binds(worlds.cycle(world, EVICTING)) == {"ns/high": "n"}


def test_a_scheduler_that_starts_between_patch_and_deletion_decides_anew() -> None:
    world = worlds.world(*[told(pod, **EVICTED) if pod["metadata"]["name"] == "v0" else pod for pod in full()])
    assert world.tasks["ns/v0"].status == RUNNING
    assert len(worlds.cycle(world, EVICTING).evictions) == 1


def test_a_statement_that_is_undone_leaves_a_bound_pod_bound() -> None:
    objects = full()
    objects = [told(pod, phase="Pending") if pod["metadata"]["name"] in ("v0", "v1") else pod for pod in objects]
    too_large = worlds.pod("high", "high", cpu="8", priority=100)
    world = worlds.world(*objects[:-1], too_large)
    before = worlds.fingerprint(world)
    assert worlds.cycle(world, EVICTING).evictions == []
    assert worlds.fingerprint(world) == before


def test_a_pod_that_waits_for_a_victim_it_cannot_stand_takes_no_other() -> None:
    """The node has room as it is; the victim goes because of a rule between the two, and is there until it is gone."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "v"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    objects = [HIGH, worlds.queue(), worlds.group("low", 0, phase="Running")]
    for name in ("a", "b"):
        objects.append(worlds.node(name, cpu="1"))
        pod = worlds.pod(f"v-{name}", "low", phase="Running", nodeName=name, labels={"app": "v"})
        objects.append(pod)
    objects += [worlds.group("high", 1, priorityClassName="high"), worlds.pod("high", "high", priority=100)]
    objects[-1]["spec"]["affinity"] = apart
    world = worlds.world(*objects)
    evicted = len(worlds.cycle(world, EVICTING).evictions)
    for _ in range(3):
        evicted += len(worlds.cycle(world, EVICTING).evictions)
    assert evicted <= 1


def test_pods_are_read_as_they_are() -> None:
    """The helper above speaks the wire's names."""
    assert msgspec.convert(told(low("v"), **EVICTED), Pod).status.condition("DisruptionTarget") is not None
