"""Access lists of queues on the server: what one user was let in with is no way in for the next."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import pytest

from strato.admission.queueacls import is_trusted
from strato.api.queueacls import SUBMIT
from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server import bootstrap
from strato.server.embedded import in_memory_server

Json = dict[str, Any]
ADMIN = User("admin", ("system:masters",))
ALICE = User("alice", ("system:authenticated",))
EVE = User("eve", ("system:authenticated",))
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
JOB: Json = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {},
    "spec": {
        "queue": "gpu",
        "minAvailable": 1,
        "tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}],
    },
}


class Client:
    def __init__(self) -> None:
        self.server = in_memory_server(VirtualClock(), Random(1))

    async def ask(self, user: User, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = json.dumps(body).encode() if body is not None else b""
        response = await self.server.handle(Request(method, path, {}, {"content-type": media}, content, user))
        return response.status, json.loads(response.body)

    async def job(self, user: User, name: str) -> tuple[int, Json]:
        body = copy.deepcopy(JOB)
        body["metadata"]["name"] = name
        return await self.ask(user, "POST", JOBS, body)


async def _client(lists: dict[str, str]) -> Client:
    client = Client()
    await client.ask(ADMIN, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    for name, noted in (("root", {}), ("default", {}), ("gpu", lists)):
        queue: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        queue |= {"metadata": {"name": name, "annotations": noted}, "spec": {"weight": 1}}
        await client.ask(ADMIN, "POST", QUEUES, queue)
    return client


async def test_equal_jobs_of_others_are_judged_each() -> None:
    """After three equal jobs of an administrator a spec is in the cache; the lists are asked all the same."""
    client = await _client({SUBMIT: "alice"})
    for number in range(3):
        assert (await client.job(ADMIN, f"admins-{number}"))[0] == 201
    for number in range(3):
        status, answer = await client.job(EVE, f"hers-{number}")
        assert (status, answer["reason"]) == (403, "Forbidden"), answer
        status, answer = await client.job(ALICE, f"ours-{number}")
        assert status == 201
        assert answer["metadata"]["annotations"]["strato.dev/submitted-by"] == "alice"


async def test_a_list_that_comes_later_counts_at_once() -> None:
    client = await _client({})
    for number in range(3):
        assert (await client.job(EVE, f"before-{number}"))[0] == 201
    await client.ask(ADMIN, "PATCH", f"{QUEUES}/gpu", {"metadata": {"annotations": {SUBMIT: "alice"}}})
    assert (await client.job(EVE, "after"))[0] == 403


@pytest.mark.parametrize("user", [EVE, ALICE])
async def test_a_group_is_not_moved_by_who_may_not_submit(user: User) -> None:
    client = await _client({SUBMIT: "alice"})
    groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    status, _ = await client.ask(user, "POST", groups, {**group, "spec": {"queue": "default", "minMember": 1}})
    assert status == 201
    status, _ = await client.ask(user, "PATCH", f"{groups}/g", {"spec": {"queue": "gpu"}})
    assert status == (200 if user is ALICE else 403)


def test_the_parts_of_the_cluster_are_trusted_and_its_readers_are_not() -> None:
    users = {name: user for name, user in vars(bootstrap).items() if isinstance(user, User)}
    assert {name for name, user in users.items() if not is_trusted(user)} == {"VIEWER", "ANONYMOUS"} & users.keys()
