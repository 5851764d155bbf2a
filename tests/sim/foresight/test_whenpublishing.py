"""Predicted starts on pod groups of a cluster in virtual time: what is written when, and how it fares."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.clock import parse_time
from strato.errors import Unavailable
from strato.history.prediction import SubmittedJob
from strato.metrics import Registry
from strato.scheduler.config import default_config
from strato.sim.foresight.whenpublishing import (
    CONFIG_MAP,
    NAMESPACE,
    START,
    START_INTERVAL,
    PublishOptions,
    StartPublisher,
    read_calibration,
)
from strato.testing.harness import Harness, run_in_virtual_time
from strato.testing.manifests import vcjob

Story = Callable[[Harness], Awaitable[None]]


def in_virtual_time(story: Story) -> Callable[[], None]:
    """Make a test of a story on one node of four CPUs."""

    def test() -> None:
        run_in_virtual_time(story, nodes="1x4cpu,8Gi")

    test.__doc__ = story.__doc__
    return test


def publisher(h: Harness, registry: Registry | None = None, **more: object) -> StartPublisher:
    options = PublishOptions(period_seconds=25.0, draws=2)
    config = default_config()
    return StartPublisher(
        h.cluster,
        h.world.informers,
        h.clock,
        lambda: config,
        registry or Registry(),
        options=options,
        **more,  # type: ignore[arg-type]  # values of a table
    )


async def groups_of(h: Harness) -> dict[str, dict[str, str]]:
    page = await h.cluster.list(catalog.PODGROUP, "default")
    return {
        item["metadata"]["ownerReferences"][0]["name"]: item["metadata"].get("annotations") or {} for item in page.items
    }


@in_virtual_time
async def test_starts_are_written_and_their_outcomes_counted(h: Harness) -> None:
    registry = Registry()
    predicting = publisher(h, registry)
    task = asyncio.ensure_future(predicting.run())
    await h.apply(vcjob("first").task("w", 4, cpu="1", run_seconds=300))
    await h.eventually(lambda: h.job("first").status.running == 4)
    began = h.clock.now()
    await h.apply(vcjob("second").task("w", 4, cpu="1", run_seconds=50))
    await h.clock.sleep(60)
    notes = (await groups_of(h))["second"]
    assert abs(parse_time(notes[START]) - began - 300) < 5
    low, _, high = notes[START_INTERVAL].partition("/")
    assert parse_time(low) <= parse_time(notes[START]) <= parse_time(high)
    assert START not in (await groups_of(h))["first"]
    await h.eventually(lambda: h.job("second").status.running == 4, timeout_seconds=400)
    await h.clock.sleep(1)
    assert (predicting.accuracy.predictions, predicting.accuracy.held) == (1, 1)
    assert predicting.accuracy.mean_error_seconds < 5
    assert 'strato_start_predictions_total{outcome="within"} 1.0' in registry.render().decode()
    task.cancel()


@in_virtual_time
async def test_an_unmoved_prediction_is_not_written_again(h: Harness) -> None:
    predicting = publisher(h)
    task = asyncio.ensure_future(predicting.run())
    await h.apply(vcjob("first").task("w", 4, cpu="1", run_seconds=600))
    await h.eventually(lambda: h.job("first").status.running == 4)
    await h.apply(vcjob("second").task("w", 4, cpu="1", run_seconds=50))
    await h.clock.sleep(60)
    before = await _written(h)
    await h.clock.sleep(120)
    assert any(before.values())
    assert await _written(h) == before
    task.cancel()


async def _written(h: Harness) -> dict[str, str]:
    """Return by name the start that each waiting group has."""
    page = await h.cluster.list(catalog.PODGROUP, "default")
    return {
        item["metadata"]["name"]: (item["metadata"].get("annotations") or {}).get(START, "")
        for item in page.items
        if item["status"]["phase"] != "Running"
    }


@in_virtual_time
async def test_the_past_counts(h: Harness) -> None:
    """Jobs of a name that took ten minutes in the past are expected to take that long."""
    past = [(SubmittedJob(user="default", name=f"etl-{number}", size=4.0), 600.0) for number in range(30)]
    predicting = publisher(h, past=past)
    task = asyncio.ensure_future(predicting.run())
    await h.apply(vcjob("etl-31").task("w", 4, cpu="1"))
    await h.eventually(lambda: h.job("etl-31").status.running == 4)
    began = h.clock.now()
    await h.apply(vcjob("next").task("w", 4, cpu="1"))
    await h.clock.sleep(30)
    notes = (await groups_of(h))["next"]
    assert abs(parse_time(notes[START]) - began - 600) < 60
    task.cancel()


@in_virtual_time
async def test_calibration_outlives_the_process(h: Harness) -> None:
    assert await read_calibration(h.cluster) is None
    predicting = publisher(h)
    task = asyncio.ensure_future(predicting.run())
    for name in ("a", "b", "c"):
        await h.apply(vcjob(name).task("w", 4, cpu="1", run_seconds=60))
    await h.clock.sleep(300)
    task.cancel()
    known = await read_calibration(h.cluster)
    assert known is not None
    found = await h.cluster.get(catalog.CONFIGMAP, CONFIG_MAP, NAMESPACE)
    assert msgspec.json.decode(found["data"]["accuracy.json"])["predictions"] >= 1
    assert len({one.metadata.name for one in h.world.informers.informer(Pod).list()}) > 0


@in_virtual_time
async def test_a_server_that_refuses_is_asked_again(h: Harness) -> None:
    predicting = publisher(h)
    calls = 0
    patch_all = h.cluster.patch_all

    async def refusing(*args: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Unavailable("away")
        return await patch_all(*args, **more)  # type: ignore[arg-type]  # values of a table

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(h.cluster, "patch_all", refusing)
        await _second_gets_its_start(h, predicting)
    assert calls >= 2


async def _second_gets_its_start(h: Harness, predicting: StartPublisher) -> None:
    task = asyncio.ensure_future(predicting.run())
    await h.apply(vcjob("first").task("w", 4, cpu="1", run_seconds=300))
    await h.eventually(lambda: h.job("first").status.running == 4)
    await h.apply(vcjob("second").task("w", 4, cpu="1", run_seconds=50))
    await h.clock.sleep(60)
    assert START in (await groups_of(h))["second"]
    task.cancel()
