"""Steps of writes declare what they read: those that read nothing but the object are not given the server's state."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.create import CREATION, KNOWN_REST, KNOWN_TEXT
from strato.server.rest.pipeline import AGAIN, KINDS, NEW, DeclaredStep, Draft, Pipeline
from strato.server.rest.state import State
from strato.server.rest.update import UPDATE

USER = User("admin", ("system:masters",))
SPECS: dict[str, tuple[Kind, dict[str, Any]]] = {
    "pod": (catalog.POD, {"containers": [{"name": "c", "image": "i"}]}),
    "job": (
        catalog.VCJOB,
        {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]},
    ),
    "namespace": (catalog.NAMESPACE, {}),
}


class NoState:
    """Stands where a step has declared that it needs none."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"a step reads {name} of the state and does not declare it")


def writes(kind: Kind) -> tuple[State, Draft]:
    server = in_memory_server(VirtualClock(), Random(1))
    for body in (
        {"metadata": {"name": "n"}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}, "spec": {}},
    ):
        path = "/apis/scheduling.volcano.sh/v1beta1/queues" if "kind" in body else "/api/v1/namespaces"
        answer = server.write(
            Request("POST", path, {}, {"content-type": "application/json"}, msgspec.json.encode(body), USER)
        )
        assert answer.status == 201, answer.body
    served = server.registry.find(kind.group, kind.version, kind.plural)
    assert served is not None
    name, spec = next(((n, s) for n, (k, s) in SPECS.items() if k is kind))
    namespace = "n" if kind.namespaced else ""
    target = ResourcePath(kind.group, kind.version, kind.plural, namespace, name, "")
    obj = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
    request = Request("POST", "/", {}, {}, b"", USER)
    return server.state, Draft(request, target, served, msgspec.json.decode(msgspec.json.encode(obj)), [])


def take(rows: tuple[DeclaredStep, ...], state: State, draft: Draft) -> None:
    for row in rows:
        if row.step is not None and (row.concerns is None or row.concerns(state, draft.served)):
            given: Any = state if row.reads & {KINDS, NEW} else NoState()
            row.step(given, draft)


@pytest.mark.parametrize("name", SPECS)
def test_steps_read_what_they_declare(name: str) -> None:
    kind, _ = SPECS[name]
    state, draft = writes(kind)
    take(CREATION, state, draft)
    old = msgspec.json.decode(draft.body)
    changed = msgspec.json.decode(draft.body)
    changed["metadata"]["labels"] = {"a": "b"}
    update = Draft(
        draft.request,
        draft.target,
        draft.served,
        changed,
        [],
        None,
        old,
        state.bucket(kind).latest(draft.key),
        key=draft.key,
    )
    take(UPDATE, state, update)
    assert msgspec.json.decode(update.body)["metadata"]["labels"]["a"] == "b"
    assert update.body == state.bucket(kind).latest(draft.key)


def test_what_is_known_is_skipped() -> None:
    state, draft = writes(catalog.POD)
    creation = Pipeline(state, CREATION)
    taken = {known: len(creation._plan(draft.served, known).at_once) for known in (frozenset(), KNOWN_REST, KNOWN_TEXT)}
    assert taken[frozenset()] > taken[KNOWN_REST] > taken[KNOWN_TEXT]
    skipped = {row.step for row in CREATION if row.reads <= KNOWN_TEXT}
    assert not skipped & set(creation._plan(draft.served, KNOWN_TEXT).at_once)


def test_plans_of_definitions_that_came_and_went_are_forgotten() -> None:
    state, _ = writes(catalog.POD)
    update = Pipeline(state, UPDATE)
    for _ in range(600):
        update._plan(Served(catalog.POD), frozenset())
    assert len(update._plans) <= 512


@pytest.mark.parametrize("rows", [CREATION, UPDATE], ids=["creation", "update"])
def test_both_ways_take_the_steps_in_order(rows: tuple[DeclaredStep, ...]) -> None:
    state, draft = writes(catalog.POD)
    plan = Pipeline(state, rows)._plan(draft.served, frozenset())
    concerned = [row for row in rows if row.concerns is None or row.concerns(state, draft.served)]
    sliced = [step for run in plan.sliced for step in (*run.steps, *run.yielding)]
    assert sliced == [row.yielding or row.step for row in concerned]
    assert list(plan.at_once) == [row.step for row in concerned if row.step is not None and AGAIN not in row.reads]
    pausable = {step for run in plan.sliced if run.is_pausable for step in run.steps}
    assert pausable == {row.step for row in concerned if row.yielding is None and not row.reads & {KINDS, NEW, AGAIN}}
