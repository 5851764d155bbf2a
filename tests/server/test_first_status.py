"""Volcano Jobs are born Pending, whatever way their creation takes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from strato.api.wire import Request, User
from strato.clock import VirtualClock, format_time
from strato.server.embedded import in_memory_server

ADMIN = User("admin", ("system:masters",))
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUP = "/apis/scheduling.volcano.sh/v1beta1"
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
SPEC: dict[str, Any] = {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 2, "template": TEMPLATE}]}


class Client:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = in_memory_server(self.clock, Random(1))

    async def send(self, method: str, path: str, body: Any, media: str = "application/json", **query: str) -> Any:
        parameters = {name: [value] for name, value in query.items()}
        request = Request(method, path, parameters, {"content-type": media}, json.dumps(body).encode(), ADMIN)
        response = await self.server.handle(request)
        assert response.status in (200, 201), response.body
        return json.loads(response.body)

    async def job(self, name: str, spec: dict[str, Any] = SPEC, *, media: str = "application/json", **more: Any) -> Any:
        body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        return await self.send("POST", JOBS, body | more, media)

    def born(self, minimum: int) -> dict[str, Any]:
        time = format_time(self.clock.now())
        return {
            "minAvailable": minimum,
            "state": {"phase": "Pending", "lastTransitionTime": time},
            "conditions": [{"status": "Pending", "lastTransitionTime": time}],
        }


@pytest.fixture
async def client() -> Client:
    client = Client()
    queue = {"apiVersion": GROUP[6:], "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
    await client.send("POST", f"{GROUP}/queues", queue)
    open_ = {"status": {"state": "Open"}}
    await client.send("PATCH", f"{GROUP}/queues/default/status", open_, "application/merge-patch+json")
    return client


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8"], ids=["short", "long"])
async def test_each_of_many_alike_carries_the_time_of_its_own_birth(client: Client, media: str) -> None:
    for number in range(5):
        client.clock.advance(7)
        job = await client.job(f"j{number}", media=media)
        assert job["status"] == client.born(1)
        assert job["metadata"]["creationTimestamp"] == job["status"]["state"]["lastTransitionTime"]
        assert job["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "minimum"),
    [
        pytest.param(SPEC, 1, id="as the job says"),
        pytest.param({"tasks": SPEC["tasks"]}, 2, id="as admission fills in"),
    ],
)
async def test_the_status_says_what_the_gang_needs(client: Client, spec: dict[str, Any], minimum: int) -> None:
    for number in range(3):
        assert (await client.job(f"j{number}", spec))["status"] == client.born(minimum)


async def test_a_status_that_is_sent_with_a_job_is_dropped(client: Client) -> None:
    for number in range(4):
        job = await client.job(f"j{number}", status={"state": {"phase": "Completed"}, "succeeded": 9})
        assert job["status"] == client.born(1)


async def test_a_dry_run_shows_what_would_be_and_stores_nothing(client: Client) -> None:
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": SPEC}
    assert (await client.send("POST", JOBS, body, dryRun="All"))["status"] == client.born(1)
    assert (await client.send("GET", JOBS, None))["items"] == []


async def test_a_job_that_is_written_again_keeps_its_status(client: Client) -> None:
    job = await client.job("j")
    born = client.born(1)
    client.clock.advance(60)
    job["metadata"]["labels"] = {"a": "b"}
    assert (await client.send("PUT", f"{JOBS}/j", job))["status"] == born
    patch = {"metadata": {"annotations": {"a": "b"}}, "status": {"state": {"phase": "Completed"}}}
    assert (await client.send("PATCH", f"{JOBS}/j", patch, "application/merge-patch+json"))["status"] == born
