"""JobFlows and JobTemplates: pure parts, life in virtual time, and probes over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Event
from strato.api.meta import ObjectMeta
from strato.api.volcano.batch import Job, JobState, JobStatus
from strato.api.volcano.flow import JobFlow, JobFlowState, JobFlowStatus, JobTemplate
from strato.controllers.flow import NetworkProber
from strato.controllers.flow.build import merged
from strato.controllers.flow.status import flow_status, next_phase
from tests.controllers.world import World, play, task, vcjob

ENABLED = ("jobflow-controller", "jobtemplate-controller", "job-controller", "queue-controller", "gc-controller")
FLOW_KIND, FLOW_API = "JobFlow", "flow.volcano.sh/v1alpha1"


@pytest.mark.parametrize(
    ("phase", "numbers", "wanted"),
    [
        pytest.param("", {}, "Pending", id="nothing has begun"),
        pytest.param("Pending", {"running": 1}, "Running", id="a job runs"),
        pytest.param(
            "Pending", {"completed": 1, "terminated": 1}, "Running", id="a terminated job beside a completed one"
        ),
        pytest.param("Pending", {"running": 1, "failed": 1}, "Failed", id="a failed job outweighs a running one"),
        pytest.param("Pending", {"terminated": 1}, "Failed", id="terminated before anything ran"),
        pytest.param("Running", {"completed": 2}, "Succeed", id="all steps completed"),
        pytest.param("Running", {"completed": 1, "running": 1}, "Running", id="one of two completed"),
        pytest.param("Running", {"completed": 1, "terminated": 1}, "Failed", id="one was terminated"),
        pytest.param("Succeed", {"failed": 1}, "Succeed", id="success is kept"),
    ],
)
def test_next_phase(phase: str, numbers: dict[str, int], wanted: str) -> None:
    counts = {"running": 0, "completed": 0, "failed": 0, "terminated": 0, **numbers}
    assert next_phase(phase, flows=2, **counts) == wanted


def test_patch_merges_tasks_by_name() -> None:
    spec = {"queue": "a", "maxRetry": 3, "tasks": [{"name": "x", "replicas": 1}, {"name": "y", "replicas": 2}]}
    patch = {"queue": "b", "maxRetry": None, "tasks": [{"name": "y", "replicas": 5}, {"name": "z"}]}
    assert merged(spec, patch) == {
        "queue": "b",
        "tasks": [{"name": "x", "replicas": 1}, {"name": "y", "replicas": 5}, {"name": "z"}],
    }
    assert merged({"plugins": {"ssh": ["a", "b"]}}, {"plugins": {"ssh": ["c"]}}) == {"plugins": {"ssh": ["c"]}}


# Life


def template(name: str, **more: Any) -> dict[str, Any]:
    spec = {**vcjob("x", task("w", more.pop("replicas", 1), **more.pop("pod", {"seconds": 5})))["spec"], **more}
    return {
        "apiVersion": FLOW_API,
        "kind": "JobTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def flow(*steps: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": FLOW_API,
        "kind": FLOW_KIND,
        "metadata": {"name": "f", "namespace": "default"},
        "spec": {"flows": list(steps), **spec},
    }


def step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    probe = {"probe": more.pop("probe")} if "probe" in more else {}
    return {"name": name, **({"dependsOn": {"targets": list(after), **probe}} if after else {}), **more}


async def make(world: World, *bodies: dict[str, Any]) -> None:
    kinds = {"JobTemplate": catalog.JOBTEMPLATE, "JobFlow": catalog.JOBFLOW}
    for body in bodies:
        await world.cluster.create(kinds[body["kind"]], body, "default")


async def until_flow(world: World, phase: str) -> JobFlow:
    async def reached() -> bool:
        return (await world.cluster.get(JobFlow, "f", "default")).status.state.phase == phase

    await world.until(reached)
    return await world.cluster.get(JobFlow, "f", "default")


async def job_names(world: World) -> list[str]:
    return sorted(job.metadata.name for job in (await world.cluster.list(Job, "default")).items)


def test_steps_run_in_the_order_of_their_dependencies() -> None:
    async def scenario(world: World) -> None:
        await make(world, template("a"), template("b"), template("c"))
        await make(world, flow(step("c", "a", "b"), step("b", "a"), step("a")))
        seen = await until_flow(world, "Succeed")
        assert seen.status.completed_jobs == ("f-c", "f-b", "f-a")
        begun = {entry.name: entry.running_histories for entry in seen.status.job_status_list}
        ended = {name: histories[-1].start_timestamp or "" for name, histories in begun.items()}
        started = {name: histories[0].start_timestamp or "" for name, histories in begun.items()}
        assert ended["f-a"] <= started["f-b"]
        assert ended["f-b"] <= started["f-c"]
        assert [h.state for h in begun["f-b"]][-1] == "Completed"
        assert all(h.end_timestamp for h in begun["f-b"][:-1])
        assert seen.status.conditions["f-a"].phase == "Completed"
        job = await world.job("f-a")
        for mark in (job.metadata.labels or {}, job.metadata.annotations or {}):
            assert mark["volcano.sh/createdByJobTemplate"] == "default.a"
            assert mark["volcano.sh/createdByJobFlow"] == "default.f"
        owner = job.metadata.controller
        assert owner is not None
        assert (owner.kind, owner.uid) == (FLOW_KIND, seen.metadata.uid)
        listed = await world.cluster.get(JobTemplate, "a", "default")
        assert listed.status.job_depends_on_list == ("f-a",)

    play(scenario, enabled=ENABLED)


def test_a_flow_whose_only_job_ends_between_two_passes_succeeds() -> None:
    job = Job(metadata=ObjectMeta(name="f-a"), status=JobStatus(state=JobState(phase="Completed")))
    seen = JobFlow(metadata=ObjectMeta(name="f"), status=JobFlowStatus(state=JobFlowState(phase="Pending")))
    assert flow_status(seen, [job], ["f-a"], 0.0)["state"] == {"phase": "Succeed"}


def test_a_failed_step_ends_the_flow() -> None:
    async def scenario(world: World) -> None:
        await make(world, template("a", pod={"seconds": 5, "code": 1}), template("b"), flow(step("a"), step("b", "a")))
        await until_flow(world, "Failed")
        await world.settle(60)
        assert await job_names(world) == ["f-a"]

    play(scenario, enabled=ENABLED)


def test_jobs_go_with_success_when_asked() -> None:
    async def scenario(world: World) -> None:
        await make(world, template("a"), template("b"), flow(step("a"), step("b", "a"), jobRetainPolicy="delete"))
        await until_flow(world, "Succeed")
        await world.settle(60)
        assert await job_names(world) == []

    play(scenario, enabled=ENABLED)


def test_a_completed_job_that_is_gone_is_not_run_again() -> None:
    async def scenario(world: World) -> None:
        await make(world, template("a", ttlSecondsAfterFinished=1), template("b", pod={"seconds": 60}))
        await make(world, flow(step("a"), step("b", "a")))
        seen = await until_flow(world, "Succeed")
        assert await job_names(world) == ["f-b"]
        assert seen.status.completed_jobs == ("f-a", "f-b")

    play(scenario, enabled=(*ENABLED, "kube-garbage-collector"))


def test_a_template_that_comes_late_is_used_at_once() -> None:
    async def scenario(world: World) -> None:
        await make(world, flow(step("a")))
        await world.settle(5)
        assert await job_names(world) == []
        await make(world, template("a"))
        await world.settle(1)
        assert await job_names(world) == ["f-a"]

    play(scenario, enabled=ENABLED)


def test_a_template_that_never_comes_is_told() -> None:
    async def scenario(world: World) -> None:
        await make(world, flow(step("a")))
        await world.settle(2400)
        events = (await world.cluster.list(Event, "default")).items
        told = [e for e in events if e.involved_object.kind == FLOW_KIND]
        assert [e.reason for e in told] == ["SyncJobFlow"]
        assert "JobTemplate default/a" in told[0].message

    play(scenario, enabled=ENABLED)


def test_the_patch_of_a_step_changes_its_job() -> None:
    async def scenario(world: World) -> None:
        patched = step(
            "a", patch={"jobSpec": {"maxRetry": 7, "tasks": [{"name": "w", "replicas": 3}], "minAvailable": 3}}
        )
        await make(world, template("a", queue="default"), flow(patched))
        await world.settle(2)
        job = await world.job("f-a")
        assert (job.spec.max_retry, job.spec.queue) == (7, "default")
        assert [t.replicas for t in job.spec.tasks] == [3]
        assert len(await world.pods()) == 3

    play(scenario, enabled=ENABLED)


def test_a_task_status_probe_lets_the_next_step_start_beside() -> None:
    async def scenario(world: World) -> None:
        probe = {"taskStatusList": [{"taskName": "w", "phase": "Running"}]}
        await make(world, template("server", pod={}, replicas=2), template("client"))
        await make(world, flow(step("server"), step("client", "server", probe=probe)))
        await world.until_phase("f-client", "Completed")
        assert (await world.job("f-server")).status.state.phase == "Running"

    play(scenario, enabled=ENABLED)


def test_a_probe_of_another_task_does_not_open_the_way() -> None:
    async def scenario(world: World) -> None:
        probe = {"taskStatusList": [{"taskName": "other", "phase": "Running"}]}
        await make(world, template("server", pod={}), template("client"))
        await make(world, flow(step("server"), step("client", "server", probe=probe)))
        await world.settle(60)
        assert await job_names(world) == ["f-server"]

    play(scenario, enabled=ENABLED)


def test_a_network_probe_is_asked_again_until_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, str]] = []

    async def answers(self: NetworkProber, host: str, port: int, path: str, header: tuple[str, str] | None) -> bool:
        asked.append((host, port, path))
        return len(asked) > 3

    monkeypatch.setattr(NetworkProber, "answers", answers)

    async def scenario(world: World) -> None:
        probe = {"httpGetList": [{"taskName": "w", "port": 8080, "path": "/ready"}]}
        await make(world, template("server", pod={}), template("client"))
        await make(world, flow(step("server"), step("client", "server", probe=probe)))
        await world.until_phase("f-client", "Completed")
        assert asked == [("10.0.0.1", 8080, "/ready")] * 4

    play(scenario, enabled=ENABLED)


@asynccontextmanager
async def serving(status: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answer one caller, who may hang up without a word; its connection is closed when the block ends."""
    requests: list[bytes] = []
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        over.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests
        await over.wait()


@pytest.mark.parametrize(("status", "holds"), [("204 No Content", True), ("302 Found", True), ("500 Oops", False)])
async def test_http_probe_over_a_socket(status: str, holds: bool) -> None:
    async with serving(status) as (port, requests):
        assert await NetworkProber().answers("127.0.0.1", port, "ready", ("X-Token", "t")) is holds
    assert requests[0].startswith(b"GET /ready HTTP/1.1\r\n")
    assert b"X-Token: t\r\n" in requests[0]


async def test_tcp_probe_over_a_socket() -> None:
    async with serving("200 OK") as (port, _):
        assert await NetworkProber().connects("127.0.0.1", port)
    assert not await NetworkProber().connects("127.0.0.1", port)


async def test_a_header_cannot_smuggle_a_request() -> None:
    assert not await NetworkProber().answers("127.0.0.1", 1, "/", ("X", "a\r\nEvil: 1"))
