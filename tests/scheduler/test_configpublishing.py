"""A scheduler's configuration where others can read it: the one in force, and nothing for the built-in one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from strato.api import catalog
from strato.api.wire import User
from strato.cli.states import served_config
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import Unavailable
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.configpublishing import keep_published, published
from strato.scheduler.framework.options import Config
from strato.server.embedded import in_memory_server

MINE = 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}]\n'
OTHER = MINE.replace("gang", "priority")


class Silent(LocalCluster):
    """A server that does not answer writes for a while."""

    is_silent = False

    async def patch(self, *args: Any, **options: Any) -> Any:
        if self.is_silent:
            raise Unavailable("no answer")
        return await super().patch(*args, **options)


def published_by(configs: list[Config], look: Callable[[Silent, int], None] = lambda *_: None) -> list[str | None]:
    """Return what a cluster knows after each of the configurations that follow one another."""

    async def story(clock: VirtualClock) -> list[str | None]:
        cluster = Silent(in_memory_server(clock), User("admin", groups=("system:masters",)))
        current = configs[0]
        task = asyncio.ensure_future(keep_published(cluster, clock, "volcano", lambda: current))
        found = []
        for number, config in enumerate(configs):
            current = config
            look(cluster, number)
            await clock.sleep(12)
            found.append(await published(cluster))
        task.cancel()
        return found

    clock = VirtualClock()
    return run_virtual(clock, story(clock))


def test_the_configuration_in_force_is_published() -> None:
    mine, other = parse_config(MINE), parse_config(OTHER)
    assert published_by([mine, other, default_config(), mine]) == [MINE, OTHER, default_config().text, MINE]


def test_the_built_in_one_needs_no_object() -> None:
    assert published_by([default_config()]) == [None]


def test_a_server_without_an_answer_is_asked_again() -> None:
    def look(cluster: Silent, number: int) -> None:
        cluster.is_silent = number == 0

    assert published_by([parse_config(MINE)] * 2, look) == [None, MINE]


def test_a_published_configuration_goes_before_that_of_the_installation() -> None:
    async def story(clock: VirtualClock) -> list[str | None]:
        cluster = LocalCluster(in_memory_server(clock), User("admin", groups=("system:masters",)))
        found = [await served_config(cluster)]
        meta = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
        installed = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {"volcano-scheduler.conf": MINE},
        }
        await cluster.create(catalog.CONFIGMAP, installed, "volcano-system")
        found.append(await served_config(cluster))
        task = asyncio.ensure_future(keep_published(cluster, clock, "volcano", lambda: parse_config(OTHER)))
        await clock.sleep(1)
        task.cancel()
        return [*found, await served_config(cluster)]

    clock = VirtualClock()
    assert run_virtual(clock, story(clock)) == [None, MINE, OTHER]
