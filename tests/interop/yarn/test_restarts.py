"""What the plugins remember outlives the scheduler: since when somebody is starved, who is marked, who is due."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.volcano.scheduling import Queue
from strato.clock import VirtualClock, format_time
from strato.interop.yarn.fairplugin import sources
from strato.interop.yarn.remembering import REMEMBERED, QueueMemory, text_of
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.states import START
from strato.testing import manifests
from tests.interop.yarn.worlds import Cluster, Json, app, capacity_config, config, node, queues, said
from tests.scheduler import worlds
from tests.scheduler.test_service import create, nodes_of, running, virtually

PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption."
CAPACITY = {
    "root.queues": "a,b",
    "root.a.capacity": "25",
    "root.b.capacity": "75",
    "root.a.user-limit-factor": "9",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    PREEMPTION + "total_preemption_per_round": "1.0",
    PREEMPTION + "natural_termination_factor": "1.0",
    PREEMPTION + "monitoring_interval": "1000",
    PREEMPTION + "max_wait_before_kill": "20000",
}
ACTIONS = "enqueue, allocate, reclaim, preempt"


def queue(name: str, **settings: str) -> Json:
    made: Json = dict(manifests.queue(name))
    made["metadata"]["annotations"] = {sources.SETTING + key: value for key, value in settings.items()}
    return made


def fair(**settings: str) -> Cluster:
    """A full node, and an application of another queue that is owed half of it."""
    old = format_time(START - 3600)
    world = [node(cpu="8", memory="8Gi"), queue("a"), queue("b", **settings)]
    greedy = app("greedy", "a", 8, on="n", creationTimestamp=old)
    text = config("yarnfair", ACTIONS, preemption=True, waitTimeBeforeKill=20_000)
    return Cluster([*world, greedy, app("starved", "b", 4, creationTimestamp=format_time(START))], text)


def capacity(folder: Path) -> Cluster:
    world = [node(cpu="16"), *queues("a", "b"), app("greedy", "a", 16, on="n"), app("starved", "b", 20)]
    return Cluster(world, capacity_config(folder / "capacity-scheduler.xml", CAPACITY, ACTIONS))


def remembered(cluster: Cluster, queue: str) -> QueueMemory:
    view = cluster.world.queues[queue].view
    assert view is not None
    return msgspec.json.decode(view.metadata.annotation(REMEMBERED) or "{}", type=QueueMemory)


@pytest.mark.parametrize("plugin", ["yarnfair", "yarncapacity"])
@pytest.mark.parametrize("restarts", [True, False])
def test_marked_pods_go_when_they_were_to(tmp_path: Path, plugin: str, restarts: bool) -> None:
    owed: dict[str, str] = {"minResources": "4096 mb, 4 vcores", "minSharePreemptionTimeout": "0"}
    cluster = fair(**owed) if plugin == "yarnfair" else capacity(tmp_path)
    cluster.cycle(0)
    for at in range(10, 30, 10):
        if restarts:
            cluster.restart()
        plan = cluster.cycle(at)
        if at < 20:
            assert "in 10 s" in said(plan, "starved")
            assert cluster.evicted == []
    cluster.cycle(21)
    assert len(cluster.evicted) == (4 if plugin == "yarnfair" else 12)


def test_pods_that_are_due_stay_due(tmp_path: Path) -> None:
    """Whoever is owed their room asks for it later: here nobody may take pods at first."""
    actions = ACTIONS.partition(", reclaim")[0]
    world = [node(cpu="16"), *queues("a", "b"), app("greedy", "a", 16, on="n"), app("starved", "b", 20)]
    cluster = Cluster(world, capacity_config(tmp_path / "capacity-scheduler.xml", CAPACITY, actions))
    for at in (0, 20):
        cluster.cycle(at)
    cluster.restart()
    cluster.cycle(21)
    assert len(remembered(cluster, "a").due) == 12
    assert set(remembered(cluster, "a").due.values()) == {"root.a"}


@pytest.mark.parametrize(("restarts", "at"), [(True, 31), (False, 31)])
def test_a_queue_is_below_its_minimum_since_it_was(restarts: bool, at: int) -> None:
    cluster = fair(minResources="4096 mb, 4 vcores", minSharePreemptionTimeout="30")
    cluster.cycle(0)
    cluster.cycle(5)
    since = remembered(cluster, "b").below_minimum_since_ms
    assert since == START * 1000
    if restarts:
        cluster.restart()
    assert "makes room" not in said(cluster.cycle(29), "starved")
    assert "makes room" in said(cluster.cycle(at), "starved")


def test_an_application_lacks_its_share_since_it_was_submitted() -> None:
    """It never had it, so nothing has to be written."""
    cluster = fair(fairSharePreemptionTimeout="30", fairSharePreemptionThreshold="1")
    cluster.cycle(0)
    cluster.restart()
    assert remembered(cluster, "b").lacking_since_ms == {}
    assert "makes room" not in said(cluster.cycle(29), "starved")
    assert "makes room" in said(cluster.cycle(31), "starved")


@pytest.mark.parametrize("restarts", [True, False])
def test_an_application_lacks_its_share_since_it_lost_it(restarts: bool) -> None:
    settings = {"fairSharePreemptionTimeout": "30", "fairSharePreemptionThreshold": "1"}
    old = format_time(START - 3600)
    world = [node(cpu="8", memory="8Gi"), queue("a"), queue("b", **settings), app("greedy", "a", 5, on="n")]
    losing = app("losing", "b", 3, on="n", creationTimestamp=old)
    waiting = [one for one in app("losing", "b", 4, creationTimestamp=old, first=3) if one["kind"] == "Pod"]
    text = config("yarnfair", ACTIONS, preemption=True, waitTimeBeforeKill=20_000)
    cluster = Cluster([*world, losing, *waiting], text)
    plan = cluster.cycle(0)
    assert "makes room" not in said(plan, "losing")
    cluster.cycle(10)
    assert remembered(cluster, "b").lacking_since_ms == {"default/losing": START * 1000}
    if restarts:
        cluster.restart()
    assert "makes room" not in said(cluster.cycle(29), "losing")
    assert "makes room" in said(cluster.cycle(31), "losing")


def test_memories_that_are_over_are_taken_away(tmp_path: Path) -> None:
    cluster = capacity(tmp_path)
    cluster.cycle(0)
    assert len(remembered(cluster, "a").marked_since_ms) == 12
    cluster.end(*(f"starved-{at}" for at in range(20)))
    for at in range(1, 60, 10):
        plan = cluster.cycle(at)
    assert cluster.evicted == []
    assert remembered(cluster, "a") == QueueMemory()
    assert plan.queue_annotations.get("a", {}).get(REMEMBERED, "") == ""


def test_what_would_be_too_long_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    marks: dict[str, int] = {f"{number:036d}": 1 for number in range(5000)}
    with caplog.at_level(logging.WARNING):
        text = text_of(QueueMemory(marked_since_ms=marks, reserved={"n1": ("p", "j", 1)}))
    assert text == '{"reserved":{"n1":["p","j",1]}}'
    assert "too many marks to remember" in caplog.text


def test_texts_that_are_hostile_change_nothing() -> None:
    world: list[Any] = [node(), *queues("a"), app("x", "a", 1)]
    for text in (
        '{"reserved": {"n": ["default/x-0", "default/other", 0]}}',
        "[" * 5000,
        '{"nextCheckMs": {"": 1e999}}',
        f'{{"reserved": {{"n": ["default/x-0", "default/other", {"9" * 400}]}}}}',
    ):
        world[1]["metadata"]["annotations"] = {REMEMBERED: text}
        cluster = Cluster(world, config("yarnfair"))
        cluster.cycle(0)
        assert cluster.running == {"x-0": "n"}


def test_a_scheduler_writes_what_it_remembers_and_reads_it_again() -> None:
    """Against an API server: what is reserved stays so, and is taken away when it is used."""

    async def said_on(cluster: Any) -> str:
        view = await cluster.get(Queue, "default")
        return str(view.metadata.annotation(REMEMBERED))

    async def story(clock: VirtualClock) -> None:
        rules = parse_config(config("yarnfair", "enqueue, allocate", reservationThreshold=1.5))
        async with running(clock, config=rules) as (cluster, scheduler):
            small = [worlds.pod(f"small-{at}", "small", cpu="1", memory="1Gi") for at in range(4)]
            await create(cluster, worlds.node("n", cpu="4", memory="8Gi"), worlds.group("small", 1), *small)
            await clock.sleep(5)
            await create(cluster, worlds.group("large", 1), worlds.pod("large-0", "large", cpu="3", memory="2Gi"))
            await clock.sleep(5)
            first = await said_on(cluster)
            assert '"reserved":{"n":["ns/large-0","ns/large",' in first
            scheduler.world.plugin_state.clear()  # what a restart forgets
            await create(cluster, worlds.pod("small-4", "small", cpu="1", memory="1Gi"))
            await cluster.delete(catalog.POD, "small-0", "ns", grace_period_seconds=0)
            await clock.sleep(5)
            assert await said_on(cluster) == first
            for name in ("small-1", "small-2"):
                await cluster.delete(catalog.POD, name, "ns", grace_period_seconds=0)
            await clock.sleep(10)
            placed = await nodes_of(cluster)
            assert (placed["large-0"], placed["small-4"]) == ("n", "")
            assert await said_on(cluster) == ""

    virtually(story)
