"""Runs of jobs in virtual time, as they are recorded and what is advised of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from strato.advice.estimators import Amounts
from strato.api.metrics import USAGE_RATIO
from strato.api.volcano.batch import Job
from strato.history import advising, statistics
from strato.history.recorder import KEPT_SECONDS, HistoryRecorder
from strato.history.rows import ABORTED, COMPLETED, Host, JobRun
from strato.history.statistics import Period
from strato.history.store import HistoryStore
from strato.metrics import Registry
from strato.testing.harness import Harness, run_in_virtual_time
from strato.testing.manifests import vcjob

NODES = "2x8cpu,16Gi"


async def inline(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@asynccontextmanager
async def recorded(h: Harness, path: Path, metrics: Registry | None = None) -> AsyncIterator[HistoryStore]:
    store = HistoryStore(path)
    recorder = HistoryRecorder(h.cluster, h.world.informers, h.clock, store, offload=inline, metrics=metrics)
    running = asyncio.ensure_future(recorder.run())
    try:
        yield store
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        store.close()


def job(name: str, seconds: float, ratio: str = "0.5") -> Any:
    made = vcjob(name, min_available=2).task("worker", replicas=2, cpu="2", memory="2Gi", run_seconds=seconds)
    template = made["spec"]["tasks"][0]["template"]
    template.setdefault("metadata", {}).setdefault("annotations", {})[USAGE_RATIO] = ratio
    return made


def host(at: float) -> Host:
    amounts = dict.fromkeys(("cpu_capacity", "cpu_used", "cpu_allocatable", "mem_capacity", "mem_used"), 1.0)
    return Host(ts=at, node="n", selected=True, **amounts)


def phase_of(h: Harness, name: str) -> str:
    return h.get(Job, name).status.state.phase


def test_a_jobs_run_its_replicas_and_hosts_are_recorded(tmp_path: Path) -> None:
    async def story(h: Harness) -> None:
        metrics = Registry()
        async with recorded(h, tmp_path / "h.db", metrics) as store:
            begun = h.clock.now()
            await h.apply(job("ctr-day-20260801", 900))
            await h.eventually(lambda: phase_of(h, "ctr-day-20260801") == "Completed", timeout_seconds=2000)
            await h.clock.sleep(5)
            (run,) = store.runs()
            assert (run.phase, run.template, run.queue) == (COMPLETED, "ctr-day", "default")
            assert None not in (run.inqueue, run.ready, run.started, run.ended)
            found = statistics.of_runs([run], Period(begun - 1, h.clock.now()))
            assert found.mean_run == pytest.approx(900, abs=5)
            replicas = store.replicas()
            assert sorted((one.role, one.index) for one in replicas) == [("worker", "0"), ("worker", "1")]
            assert all(one.exit == 0 and one.cpu_req == 2000 and one.mem_peak == 1 << 30 for one in replicas)
            assert statistics.of_role(replicas, Period(begun - 1, h.clock.now())).efficiency == pytest.approx(0.5, 0.1)
            assert len(store.hosts()) >= 4
            text = metrics.render().decode()
            ran = float(next(one for one in text.splitlines() if "job_run_seconds_sum{" in one).rpartition(" ")[2])
            assert ran == pytest.approx(900, abs=5)
            (advice,) = advising.advise([run], replicas, "vpa", h.clock.now())
            assert advice.advice.target == Amounts(1200, 1216 << 20)
            assert advice.saved_core_hours > 0

    run_in_virtual_time(story, nodes=NODES)


def test_what_is_older_than_a_quarter_is_forgotten(tmp_path: Path) -> None:
    async def story(h: Harness) -> None:
        store, now = HistoryStore(tmp_path / "h.db"), h.clock.now()
        recorder = HistoryRecorder(h.cluster, h.world.informers, h.clock, store, offload=inline)
        kept = now - KEPT_SECONDS + 60
        store.append([host(at) for at in (now - KEPT_SECONDS - 60, kept, now)])
        await recorder._forget()
        assert [one.ts for one in store.hosts()] == [kept, now]
        store.close()

    run_in_virtual_time(story, nodes=NODES)


def test_a_job_that_is_deleted_was_aborted_and_a_restart_forgets_nothing(tmp_path: Path) -> None:
    async def story(h: Harness) -> None:
        path = tmp_path / "h.db"
        async with recorded(h, path):
            await h.apply(job("long", 9000), job("gone", 9000))
            await h.eventually(lambda: phase_of(h, "long") == "Running", timeout_seconds=100)
            await h.clock.sleep(200)
        await h.delete(Job, "gone")
        await h.clock.sleep(60)
        async with recorded(h, path) as store:
            await h.clock.sleep(300)
            runs = {run.job: run for run in store.runs()}
            assert (runs["gone"].phase, runs["long"].phase) == (ABORTED, "Running")
        samples = [sum(one.cpu_samples.values()) for one in HistoryStore(path, read_only=True).replicas()]
        assert len(samples) == 4
        assert max(samples) > 5, "what was sampled before the restart counts too"

    run_in_virtual_time(story, nodes=NODES)


def test_what_is_older_than_the_retention_is_forgotten(tmp_path: Path) -> None:
    """The job of three months ago goes, and the one of today stays; a label says of what it is a run."""

    async def story(h: Harness) -> None:
        async with recorded(h, tmp_path / "h.db") as store:
            old = {"phase": COMPLETED, "ended": h.clock.now() - 91 * 86_400.0}
            store.append([JobRun(run_id="0/0", job_uid="0", namespace="n", kind="k", job="j", template="j", queue="q",
                              submitted=0.0, **old)])  # fmt: skip
            made = job("daily-a", 60)
            made["metadata"].setdefault("labels", {})["strato.io/template"] = "daily"
            await h.apply(made)
            await h.clock.sleep(86_400 + 60)
            assert [(run.job, run.template) for run in store.runs()] == [("daily-a", "daily")]

    run_in_virtual_time(story, nodes=NODES)
