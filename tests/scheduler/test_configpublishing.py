"""A scheduler's configuration where others can read it: the one in force, and nothing for the built-in one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.wire import User
from strato.cli.states import served_config
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import Forbidden, Unavailable
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.configpublishing import keep_published, published
from strato.scheduler.framework.options import Config
from strato.server.embedded import in_memory_server

MINE = 'actions: "allocate"\ntiers:\n- plugins: [{name: gang}]\n'
NAME = "strato-scheduler-config-volcano"
OTHER = MINE.replace("gang", "priority")


class Silent(LocalCluster):
    """A server that does not answer writes for a while."""

    is_silent = False
    refused: list[str] | None = None
    """What it was asked to keep and did not."""

    async def create(self, kind: Any, body: Any, *args: Any, **options: Any) -> Any:
        if self.is_silent:
            raise Unavailable("no answer")
        if self.refused is not None and kind is catalog.CONFIGMAP:
            self.refused.append(body["data"]["scheduler.conf"])
            raise Forbidden("configmaps are forbidden")
        return await super().create(kind, body, *args, **options)


async def nothing(cluster: Silent, number: int) -> None:
    """Happens besides."""


def published_by(
    configs: list[Config], happens: Callable[[Silent, int], Awaitable[None]] = nothing
) -> list[str | None]:
    """Return what a cluster knows a moment after each of the configurations that follow one another."""

    async def story(clock: VirtualClock) -> list[str | None]:
        cluster = Silent(in_memory_server(clock), User("admin", groups=("system:masters",)))
        informers = Informers(cluster, clock, Random(1))
        current, changed = configs[0], asyncio.Event()
        task = asyncio.ensure_future(keep_published(cluster, informers, clock, "volcano", lambda: current, changed))
        found = []
        for number, config in enumerate(configs):
            if config is not current:
                current = config
                changed.set()
            await happens(cluster, number)
            await clock.sleep(1)
            found.append(await published(cluster))
            await clock.sleep(11)
        task.cancel()
        await informers.stop()
        return found

    clock = VirtualClock()
    return run_virtual(clock, story(clock))


def test_the_configuration_in_force_is_published() -> None:
    mine, other = parse_config(MINE), parse_config(OTHER)
    assert published_by([mine, other, default_config(), mine]) == [MINE, OTHER, default_config().text, MINE]


def test_the_built_in_one_needs_no_object() -> None:
    assert published_by([default_config()]) == [None]


def test_a_server_without_an_answer_is_asked_again() -> None:
    async def answers_later(cluster: Silent, number: int) -> None:
        cluster.is_silent = number == 0

    assert published_by([parse_config(MINE)] * 3, answers_later) == [None, None, MINE]


async def lost(cluster: Silent) -> None:
    await cluster.delete(catalog.CONFIGMAP, NAME, "volcano-system")


async def overwritten(cluster: Silent) -> None:
    await cluster.patch(catalog.CONFIGMAP, NAME, "volcano-system", {"data": {"scheduler.conf": OTHER}})


async def emptied(cluster: Silent) -> None:
    await cluster.patch(catalog.CONFIGMAP, NAME, "volcano-system", {"data": None})


@pytest.mark.parametrize("deed", [lost, overwritten, emptied])
def test_what_others_make_of_it_does_not_stay(deed: Callable[[Silent], Awaitable[None]]) -> None:
    async def happens(cluster: Silent, number: int) -> None:
        if number == 1:
            await deed(cluster)

    assert published_by([parse_config(MINE)] * 2, happens) == [MINE, MINE]


def test_one_that_may_not_be_published_is_tried_once() -> None:
    tries = []

    async def happens(cluster: Silent, number: int) -> None:
        del number
        cluster.refused = tries

    mine = parse_config(MINE)
    assert published_by([mine, mine, parse_config(OTHER)], happens) == [None, None, None]
    assert tries == [MINE, OTHER]


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
        informers = Informers(cluster, clock, Random(1))
        task = asyncio.ensure_future(
            keep_published(cluster, informers, clock, "volcano", lambda: parse_config(OTHER), asyncio.Event())
        )
        await clock.sleep(1)
        task.cancel()
        await informers.stop()
        return [*found, await served_config(cluster)]

    clock = VirtualClock()
    assert run_virtual(clock, story(clock)) == [None, MINE, OTHER]
