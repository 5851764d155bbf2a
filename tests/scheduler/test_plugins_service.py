"""Plugins that need more than a session, against an embedded server: annotations written with binds, windows, usage."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from strato.api import catalog
from strato.api.core import Pod
from strato.clock import VirtualClock
from strato.scheduler.config import parse_config
from tests.scheduler import worlds
from tests.scheduler.test_service import create, nodes_of, running, virtually

SHARE = """
actions: "allocate"
tiers:
- plugins:
  - {name: gang}
  - name: deviceshare
    arguments: {deviceshare.GPUSharingEnable: true}
"""


def test_the_card_a_pod_gets_is_written_with_its_bind_and_counts_after_a_restart() -> None:
    def sharing(name: str) -> dict[str, Any]:
        made = worlds.pod(name, "g", resources={"volcano.sh/gpu-memory": "60"})
        made["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/gpu-memory": "60"}
        return made

    async def cards(cluster: Any) -> dict[str, str]:
        pods = (await cluster.list(Pod)).items
        return {p.metadata.name: p.metadata.annotation("volcano.sh/gpu-index") for p in pods}

    async def story(clock: VirtualClock) -> None:
        node = worlds.node("n", cpu="9", **{"volcano.sh/gpu-memory": 300, "volcano.sh/gpu-number": 3})
        async with running(clock, config=parse_config(SHARE)) as (cluster, scheduler):
            await create(cluster, node, worlds.group("g", 0), sharing("a"), sharing("b"))
            await clock.sleep(5)
            first = await cards(cluster)
            assert sorted(first.values()) == ["0", "1"]
            scheduler.world.plugin_state.clear()  # what a restart forgets
            for task in scheduler.world.tasks.values():
                task.grants = None
            await create(cluster, sharing("c"))
            await clock.sleep(5)
            assert await cards(cluster) == {**first, "c": "2"}

    virtually(story)


LENT = """
actions: "allocate, shuffle"
tiers:
- plugins:
  - {name: gang}
  - name: tdm
    arguments: {tdm.revocable-zone.z: "10:00-21:00"}
"""


def test_a_window_that_closes_evicts_although_nothing_waits() -> None:
    async def story(clock: VirtualClock) -> None:
        clock.advance(datetime.fromisoformat("2024-05-06T20:50:00").timestamp() - clock.now())
        node = worlds.node("n", labels={"volcano.sh/revocable-zone": "z"})
        pod = worlds.pod("p", "g", annotations={"volcano.sh/preemptable": "true"})
        async with running(clock, config=parse_config(LENT)) as (cluster, _):
            await create(cluster, node, worlds.group("g", 0), pod)
            await clock.sleep(60)
            assert await nodes_of(cluster) == {"p": "n"}
            await cluster.patch(catalog.POD, "p", "ns", {"status": {"phase": "Running"}}, subresource="status")
            await clock.sleep(11 * 60)
            left = (await cluster.list(Pod)).items
            assert all(p.metadata.deletion_timestamp for p in left)

    virtually(story)


def test_a_metrics_source_that_does_not_answer_does_not_hold_scheduling_up(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text(
        "actions: allocate\n"
        "tiers:\n- plugins: [{name: gang}, {name: usage}]\n"
        "metrics: {type: prometheus_adaptor, interval: 10s}\n"
    )

    async def story(clock: VirtualClock) -> None:
        async with running(clock, config=path) as (cluster, _):
            await create(cluster, worlds.node("n"), worlds.group("g", 0), worlds.pod("p", "g"))
            await clock.sleep(5)
            assert await nodes_of(cluster) == {"p": "n"}

    virtually(story)
