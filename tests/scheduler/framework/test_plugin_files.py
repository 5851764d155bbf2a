"""A running scheduler and plugins from files: reloaded when edited, left out when they fail, never in the way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from strato.api import catalog
from strato.clock import VirtualClock
from strato.metrics import Registry
from tests.scheduler import worlds
from tests.scheduler.test_service import create, nodes_of, running, virtually

PLUGIN = """
import numpy as np
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import StaticScore

class Likes(Plugin):
    name = "likes"

    def static_scores(self, cls, nodes, rows):
        {body}
        return (StaticScore(np.array([float(nodes.names[row] == "{node}") for row in rows]), 1000.0),)
"""
CONFIG = "actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: likes, path: likes.py}, {name: predicates}]}]\n"


def write(file: Path, text: str, at: int) -> None:
    """Write a file with a time of its own: two writes may fall into one tick of the file system's clock."""
    file.write_text(text)
    os.utime(file, (at, at))


def test_an_edited_plugin_takes_effect_and_a_failing_one_stops_nothing(tmp_path: Path) -> None:
    config, plugin = tmp_path / "scheduler.conf", tmp_path / "likes.py"
    config.write_text(CONFIG)
    write(plugin, PLUGIN.format(body="", node="b"), 1)
    metrics = Registry()

    async def story(clock: VirtualClock) -> None:
        async with running(clock, config=config, metrics=metrics) as (cluster, scheduler):
            await create(cluster, *(worlds.node(name) for name in "abc"))

            async def place(name: str) -> str:
                await create(cluster, worlds.pod(name, scheduler="default-scheduler"))
                await clock.sleep(5)
                return (await nodes_of(cluster))[name]

            async def events(reason: str) -> list[Any]:
                found = (await cluster.list(catalog.EVENT)).items
                return [event for event in found if event["reason"] == reason]

            assert await place("first") == "b"
            write(plugin, PLUGIN.format(body="", node="c"), 2)
            await clock.sleep(3)
            assert await place("second") == "c"
            write(plugin, "this is no python", 3)
            await clock.sleep(3)
            assert await place("third") == "c"
            assert await events("BadConfiguration")
            write(plugin, PLUGIN.format(body="raise ValueError('ouch')", node="a"), 4)
            await clock.sleep(3)
            assert await place("fourth")
            (told,) = await events("PluginFailed")
            assert "plugin likes failed in static_scores" in told["message"]
            assert "ValueError: ouch" in told["message"]
            assert scheduler.config.actions == ("enqueue", "allocate")

    virtually(story)
    assert 'strato_plugin_failures_total{plugin="likes",point="static_scores"}' in metrics.render().decode()
