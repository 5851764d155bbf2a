"""Long computations take turns with all else; what was decided on an object that has changed is decided anew."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import threading
import time
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest

from strato.api.catalog import POD
from strato.api.wire import Request, Response, User
from strato.clock import SystemClock, VirtualClock
from strato.errors import ApiError, BadRequest
from strato.server import preparation
from strato.server.api import ApiServer
from strato.server.bodies import is_slow, read_json
from strato.server.embedded import open_server
from strato.server.flowcontrol import timeslice
from strato.server.flowcontrol.dispatch import Steps, at_once, divided
from strato.server.flowcontrol.timeslice import Computation, alone
from strato.server.jsonbodies import stored_steps
from strato.server.rest import storing

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
            thread.join(120)
            assert not thread.is_alive()


def _asked(method: str, path: str, body: Any, media: str = "application/json") -> Request:
    return Request(method, path, {}, {"content-type": media}, msgspec.json.encode(body), ADMIN)


def test_what_is_divisible_is_made_in_one_go_or_in_steps_with_one_result() -> None:
    body = msgspec.json.encode({"data": {f"key-{number}": [number, str(number)] for number in range(20_000)}})
    whole = at_once(stored_steps(body))
    made: list[Any] = []

    def divide() -> Iterator[None]:
        made.append((yield from divided(stored_steps(body))))

    assert len(list(divide())) > 3
    assert made == [whole] == [msgspec.json.decode(body)]
    assert list(stored_steps(b"{}")) == []  # a small one needs no step


@pytest.mark.parametrize(
    ("body", "is_decoded_ahead"),
    [
        pytest.param(b'{"a":[%s]}' % b",".join([b"{}"] * 20_000), True, id="20,000 values in 60 kB"),
        pytest.param(b'{"a":[%s]}' % b",".join([b"0"] * 2_500), True, id="2,500 values in 5 kB"),
        pytest.param(b'{"a":"%s"}' % (b"x" * 60_000), False, id="one text of 60 kB"),
        pytest.param(b'{"a":"%s"}' % (b"x" * 70_000), True, id="one text of 70 kB"),
        pytest.param(b'{"a":[%s]}' % b",".join([b'{"name":"value"}'] * 300), False, id="300 values in 5 kB"),
        pytest.param(b"[" + b"1," * 900 + b"1]", False, id="few bytes"),
    ],
)
def test_bodies_that_take_long_to_check_are_known_by_their_values_too(body: bytes, is_decoded_ahead: bool) -> None:
    assert is_slow(body, "application/json") is is_decoded_ahead


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


async def test_an_object_of_few_bytes_and_many_values_is_changed_in_slices() -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    data = {f"k{number}": "" for number in range(4_000)}
    made = await server.handle(_asked("POST", MAPS, {"metadata": {"name": "short"}, "data": data}))
    assert made.status == 201
    assert len(made.body) < 64 * 1024
    before = server.state.flows.dispatcher.slices
    patch = _asked("PATCH", f"{MAPS}/short", {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    assert (await server.handle(patch)).status == 200
    assert server.state.flows.dispatcher.slices - before > 2


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


async def test_a_large_object_is_deleted_in_slices_as_it_is_at_the_end() -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    made = await server.handle(_asked("POST", MAPS, {"metadata": {"name": "large"}, "data": DATA}))
    revision = msgspec.json.decode(made.body)["metadata"]["resourceVersion"]
    before = server.state.flows.dispatcher.slices
    preconditions = {"preconditions": {"resourceVersion": revision}}
    patch = _asked("PATCH", f"{MAPS}/large", {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    patched, refused = await asyncio.gather(
        server.handle(patch), server.handle(_asked("DELETE", f"{MAPS}/large", preconditions))
    )
    assert (patched.status, refused.status) in ((200, 409), (404, 200))
    if refused.status == 409:
        assert (await server.handle(_asked("DELETE", f"{MAPS}/large", {}))).status == 200
    assert server.state.flows.dispatcher.slices - before > 2
    assert (await server.handle(_asked("GET", f"{MAPS}/large", None))).status == 404


async def test_large_objects_of_a_collection_are_deleted_in_slices_as_they_are_at_the_end() -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    for number in range(3):
        metadata = {"name": f"large-{number}", "labels": {"a": "b"}}
        await server.handle(_asked("POST", MAPS, {"metadata": metadata, "data": DATA}))
    before = server.state.flows.dispatcher.slices
    path = Request("DELETE", MAPS, {"labelSelector": ["a=b"]}, {}, b"", ADMIN)
    patch = _asked("PATCH", f"{MAPS}/large-2", {"metadata": {"labels": {"c": "d"}}}, "application/merge-patch+json")
    deleted, patched = await asyncio.gather(server.handle(path), server.handle(patch))
    assert (deleted.status, patched.status) in ((200, 200), (200, 404))
    assert server.state.flows.dispatcher.slices - before > 3 * 3
    last = {one["metadata"]["name"]: one["metadata"]["labels"] for one in (await _whole(deleted))["items"]}
    assert set(last) == {f"large-{number}" for number in range(3)}
    assert ("c" in last["large-2"]) is (patched.status == 200)
    left = await _whole(await server.handle(Request("GET", MAPS, {"labelSelector": ["a=b"]}, {}, b"", ADMIN)))
    assert left["items"] == []


async def test_a_large_pod_that_is_changed_while_it_is_evicted_goes_as_it_is() -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    env = [{"name": f"V{number}", "value": "x" * 20} for number in range(3_000)]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i", "env": env}]}
    assert (await server.handle(_asked("POST", PODS, {"metadata": {"name": "p"}, "spec": spec}))).status == 201
    eviction = asyncio.ensure_future(server.handle(_asked("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})))
    running = {"status": {"phase": "Running"}}
    bucket = server.state.bucket(POD)
    while b"DisruptionTarget" not in (bucket.latest("default/p") or b""):
        await asyncio.sleep(0)
    await server.handle(_asked("PATCH", f"{PODS}/p/status", running, "application/merge-patch+json"))
    assert (await eviction).status == 201
    stored = msgspec.json.decode((await server.handle(_asked("GET", f"{PODS}/p", None))).body)
    assert stored["status"]["phase"] == "Running"
    assert stored["metadata"]["deletionTimestamp"]
    assert [one["type"] for one in stored["status"]["conditions"]] == ["DisruptionTarget"]


async def _whole(response: Response) -> Any:
    if response.stream is None:
        return msgspec.json.decode(response.body)
    chunks = [chunk async for chunk in response.stream]
    assert all(chunks), "an empty chunk would end the body"
    return msgspec.json.decode(b"".join(chunks))


@pytest.mark.parametrize("large", [(), (0,), (2,), (1, 2), (0, 1, 2)])
async def test_tables_of_large_objects_are_made_in_slices_and_look_as_ever(large: tuple[int, ...]) -> None:
    server, _ = open_server(VirtualClock(), random.Random(1), None)  # ages are the same a moment later
    for number in range(3):
        data = DATA if number in large else {"a": "b"}
        await server.handle(_asked("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": data}))
    accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    before = server.state.flows.dispatcher.slices
    table = await _whole(await server.handle(Request("GET", MAPS, {}, accept, b"", ADMIN)))
    rows = [row for row in table["rows"] if row["cells"][0].startswith("m")]
    assert [row["cells"][:2] for row in rows] == [[f"m{n}", 5000 if n in large else 1] for n in range(3)]
    assert bool(large) is (server.state.flows.dispatcher.slices > before)
    for number in range(3):
        one = await _whole(await server.handle(Request("GET", f"{MAPS}/m{number}", {}, accept, b"", ADMIN)))
        assert one["rows"] == [rows[number]]


TERMS = ",".join(f"k{number}!=v" for number in range(600))


@pytest.mark.parametrize("parameter", ["labelSelector", "fieldSelector"])
async def test_long_selectors_are_read_in_slices_and_select_as_short_ones(parameter: str) -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await server.handle(_asked("POST", MAPS, {"metadata": {"name": name, "labels": {"l": label, "k3": "w"}}}))
    terms = TERMS if parameter == "labelSelector" else ",".join(f"metadata.name!=v{n}" for n in range(300))
    wanted = "l=x" if parameter == "labelSelector" else "metadata.name!=b,metadata.namespace=default"

    async def ask(method: str, text: str, **more: str) -> Response:
        query = {parameter: [text]} | {name: [value] for name, value in more.items()}
        return await server.handle(Request(method, MAPS, query, {}, b"", ADMIN))

    async def names(text: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await _whole(await ask("GET", text)))["items"]]

    before = server.state.flows.dispatcher.slices
    short = await names(wanted)
    assert server.state.flows.dispatcher.slices == before
    assert "b" not in short
    assert await names(f"{terms},{wanted}") == short
    assert server.state.flows.dispatcher.slices > before
    watch = await ask("GET", f"{terms},{wanted}", watch="true", resourceVersion="0")
    assert watch.stream is not None
    seen = (await anext(watch.stream)).count(b"ADDED")
    await watch.stream.aclose()  # type: ignore[attr-defined]  # it has it
    assert seen == len(short)
    assert (await ask("GET", f"{terms},x=y z=")).status == 400
    assert (await ask("DELETE", f"{terms},{wanted}")).status == 200
    assert not set(await names(terms)) & set(short)


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
    items = {"type": "array", "items": {"type": "integer"}, "maxItems": 500}
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


def test_a_call_that_cannot_pause_begins_a_slice_unless_one_has_just_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    now, seen = [0.0], []
    monkeypatch.setattr(timeslice, "perf_counter", lambda: now[0])

    def work() -> None:
        alone(seen.append, "at once")
        now[0] += 3.0
        alone(seen.append, "in the next slice")

    computation = Computation(work, 10.0)
    computation.step()
    assert seen == ["at once"]
    assert _finished(computation) == 1
    computation.result()
    assert seen == ["at once", "in the next slice"]
    alone(seen.append, "outside of a computation")
    assert len(seen) == 3


POD_OF_MANY = {"containers": [{"name": "a", "image": "i", "env": [{"name": f"V{n}"} for n in range(6_000)]}]}
PODS = "/api/v1/namespaces/default/pods"


async def test_the_slice_that_writes_a_large_object_does_not_encode_it(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []

    def encode(obj: Any) -> bytes:
        written.append(obj.get("spec"))
        return msgspec.json.encode(obj)

    server, _ = open_server(SystemClock(), random.Random(1), None)
    monkeypatch.setattr(storing, "encode", encode)

    async def ask(method: str, path: str, body: Any, media: str = "application/json") -> Any:
        answer = await server.handle(_asked(method, path, body, media))
        assert answer.status < 300, answer.body
        return msgspec.json.decode(answer.body)

    for name in ("a", "b", "c"):
        await ask("POST", PODS, {"metadata": {"name": name}, "spec": POD_OF_MANY})
    await ask("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}})
    small = len(written)
    labelled = await ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"l": "m"}}}, "application/merge-patch+json")
    assert len(labelled["spec"]["containers"][0]["env"]) == 6_000
    await ask("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    assert (await ask("GET", f"{PODS}/a", None))["spec"] == labelled["spec"]
    await ask("DELETE", f"{PODS}/b", {})
    await ask("DELETE", PODS, {})
    assert len(written) - small >= 5
    assert all(isinstance(spec, msgspec.Raw) for spec in written[small:])


@pytest.mark.parametrize("body", [b'{"a":[%s]}' % (b"1," * 70_000), b'{"data":[%s1]}' % (b"1," * 3_000)])
async def test_a_large_body_that_is_refused_is_freed_at_once(body: bytes) -> None:
    server, _ = open_server(SystemClock(), random.Random(1), None)
    flow = server.state.flows.flow_of(_asked("POST", MAPS, None))

    class Kept(list[int]):
        """A list that weak references can refer to."""

    async def refused() -> weakref.ref[Kept]:
        kept = Kept((1, 2))
        found = weakref.ref(kept)

        def steps() -> Steps[None]:
            document = kept
            yield None
            yield lambda: read_json(body) if document else None
            raise BadRequest("not an object")

        with contextlib.suppress(ApiError):
            await server.state.flows.dispatcher.finish(flow, steps())
            raise AssertionError("it is refused")
        return found

    gc.disable()
    try:
        found = await refused()
        await asyncio.sleep(0)  # until then the loop refers to the exception
        for thread in threading.enumerate():
            if thread.name == "timeslice":
                thread.join(120)
        assert found() is None
    finally:
        gc.enable()


async def test_causes_that_no_answer_names_are_not_kept_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []

    def alone_(function: Any, *args: Any) -> Any:
        if args:
            return function(*args)
        freed.append(len(function.__self__))
        return function()

    server, _ = open_server(SystemClock(), random.Random(1), None)
    monkeypatch.setattr(preparation, "alone", alone_)
    answer = await server.handle(
        _asked("POST", MAPS, {"metadata": {"name": "wrong"}, "data": {f"k {number}": "v" for number in range(3_000)}})
    )
    assert (answer.status, freed) == (422, [3_000])
    assert len(msgspec.json.decode(answer.body)["details"]["causes"]) == 1_000
