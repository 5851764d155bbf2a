"""Long computations take turns with all else; what was decided on an object that has changed is decided anew."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest

from strato.api.wire import Request, Response, User
from strato.clock import SystemClock
from strato.server.api import ApiServer
from strato.server.embedded import open_server
from strato.server.flowcontrol.timeslice import Computation

ADMIN = User("admin", ("system:masters", "system:authenticated"))
MAPS = "/api/v1/namespaces/default/configmaps"
DATA = {f"key-{number:05}": "value" for number in range(5_000)}
variable: ContextVar[int] = ContextVar("variable", default=0)


def _one(number: int) -> int:
    return number


def _count(to: int) -> int:
    return sum(map(_one, range(to)))


def _finished(computation: Computation[Any]) -> int:
    """Run it to its end; return the number of slices."""
    slices = 0
    while not computation.has_ended:
        computation.step()
        slices += 1
    return slices


def test_a_long_computation_runs_in_slices_and_returns_its_result() -> None:
    computation = Computation(lambda: _count(100_000), 0.001)
    assert _finished(computation) > 3
    assert computation.result() == sum(range(100_000))


def test_a_short_one_takes_one_slice() -> None:
    assert _finished(Computation(lambda: _one(5), 10.0)) == 1


def test_what_it_raises_is_raised() -> None:
    computation = Computation(lambda: 1 // 0, 0.001)
    _finished(computation)
    with pytest.raises(ZeroDivisionError):
        computation.result()


def test_it_never_runs_beside_the_one_who_asks() -> None:
    computation = Computation(lambda: _count(50_000), 0.001)
    while not computation.has_ended:
        computation.step()
        before = computation.calls
        time.sleep(0.0005)
        assert computation.calls == before


def test_it_sees_the_context_of_who_asks() -> None:
    token = variable.set(7)
    computation = Computation(variable.get, 0.001)
    variable.reset(token)
    _finished(computation)
    assert computation.result() == 7


def test_one_that_nobody_waits_for_ends() -> None:
    computation = Computation(lambda: _count(10**9), 0.001)
    computation.step()
    computation.abandon()
    for thread in threading.enumerate():
        if thread.name == "timeslice":
            thread.join(10)
            assert not thread.is_alive()


def _asked(method: str, path: str, body: Any, media: str = "application/json") -> Request:
    return Request(method, path, {}, {"content-type": media}, msgspec.json.encode(body), ADMIN)


@pytest.mark.parametrize("media", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
async def test_changes_of_a_large_object_at_the_same_time_are_all_kept(media: str) -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    made = await server.handle(_asked("POST", MAPS, {"metadata": {"name": "large"}, "data": DATA}))
    assert made.status == 201
    before = server.state.flows.dispatcher.slices
    patches = [
        server.handle(_asked("PATCH", f"{MAPS}/large", {"metadata": {"labels": {f"l{number}": "x"}}}, media))
        for number in range(4)
    ]
    answers: list[Response] = await asyncio.gather(*patches)
    assert [answer.status for answer in answers] == [200] * 4
    assert server.state.flows.dispatcher.slices - before > 4 * 3, "they were worked out in turn"
    stored = msgspec.json.decode((await server.handle(_asked("GET", f"{MAPS}/large", None))).body)
    assert stored["metadata"]["labels"] == {f"l{number}": "x" for number in range(4)}
    assert stored["data"] == DATA


async def test_what_is_deleted_meanwhile_is_not_written_again() -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    made = await server.handle(_asked("POST", MAPS, {"metadata": {"name": "large"}, "data": DATA}))
    obj = msgspec.json.decode(made.body)
    obj["data"]["new"] = "x"
    long = asyncio.ensure_future(server.handle(_asked("PUT", f"{MAPS}/large", obj)))
    await asyncio.sleep(0)
    gone = await server.handle(_asked("DELETE", f"{MAPS}/large", {}))
    assert gone.status == 200
    assert (await long).status == 404


PODS = "/api/v1/namespaces/default/pods"
MANY = 600


async def _with_pods() -> ApiServer:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    spec = {"containers": [{"name": "c", "image": "i"}]}
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for number in range(MANY):
        metadata = {"name": f"p{number}", "labels": {"a": "b"}}
        assert (await server.handle(_asked("POST", PODS, {"metadata": metadata, "spec": spec}))).status == 201
        await server.handle(_asked("PATCH", f"{PODS}/p{number}/status", ready, "application/merge-patch+json"))
    return server


async def test_evictions_at_the_same_time_take_no_more_than_the_budget_has() -> None:
    server = await _with_pods()
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": MANY - 2, "selector": {"matchLabels": {"a": "b"}}},
    }
    await server.handle(_asked("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget))
    before = server.state.flows.dispatcher.slices
    evictions = [
        server.handle(_asked("POST", f"{PODS}/p{number}/eviction", {"metadata": {"name": f"p{number}"}}))
        for number in range(5)
    ]
    answers = await asyncio.gather(*evictions)
    assert sorted(answer.status for answer in answers) == [201, 201, 429, 429, 429]
    assert server.state.flows.dispatcher.slices - before >= 10, "pods were looked at in turn"


@pytest.mark.parametrize("sort", ["pods", "persistentvolumeclaims"])
async def test_objects_made_at_the_same_time_get_no_more_than_the_quota_has(sort: str) -> None:
    server = await _with_pods()
    path = f"/api/v1/namespaces/default/{sort}"
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
    hard = {"pods": str(MANY + 2)}
    if sort != "pods":
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        for number in range(MANY):
            await server.handle(_asked("POST", path, {"metadata": {"name": f"c{number}"}, "spec": spec}))
        hard = {"requests.storage": f"{MANY + 2}Gi"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    await server.handle(_asked("POST", "/api/v1/namespaces/default/resourcequotas", quota))
    before = server.state.flows.dispatcher.slices
    made = [server.handle(_asked("POST", path, {"metadata": {"name": f"n{n}"}, "spec": spec})) for n in range(5)]
    answers = await asyncio.gather(*made)
    assert sorted(answer.status for answer in answers) == [201, 201, 403, 403, 403]
    assert server.state.flows.dispatcher.slices - before >= 10, "they were counted in turn"


def _definition(rules: list[str]) -> dict[str, Any]:
    items = {"type": "array", "items": {"type": "integer"}}
    validations = [{"rule": rule} for rule in rules]
    spec = {"type": "object", "properties": {"items": items}, "x-kubernetes-validations": validations}
    status = {"type": "object", "properties": {"items": items}, "x-kubernetes-validations": validations}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "things", "kind": "Thing"},
            "scope": "Namespaced",
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


async def test_rules_that_cost_much_are_evaluated_in_slices_up_to_kubernetes_limit() -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    pairs = [f"self.items.all(a, self.items.all(b, a + b >= {-number}))" for number in range(8)]
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await server.handle(_asked("POST", definitions, _definition(pairs)))).status == 201
    path = "/apis/example.com/v1/namespaces/default/things"
    slices = []
    for number, (count, status) in enumerate([(5, 201), (200, 201), (500, 422)]):
        before = server.state.flows.dispatcher.slices
        kind = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": f"t{number}"}}
        made = await server.handle(_asked("POST", path, {**kind, "spec": {"items": list(range(count))}}))
        assert made.status == status, made.body
        slices.append(server.state.flows.dispatcher.slices - before)
    assert b"cost" in made.body
    assert slices[0] == 0
    assert min(slices[1:]) >= 10
    before = server.state.flows.dispatcher.slices
    change = _asked(
        "PATCH", f"{path}/t0/status", {"status": {"items": list(range(200))}}, "application/merge-patch+json"
    )
    assert (await server.handle(change)).status == 200
    assert server.state.flows.dispatcher.slices - before >= 10
