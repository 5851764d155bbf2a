"""Bindings take the short way, and nobody can tell: each is asked of both ways."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from strato.server.rest import quickbind

ADMIN = User("admin", ("system:masters",))
PODS = "/api/v1/namespaces/default/pods"
SPEC = {"containers": [{"name": "c", "image": "busybox", "env": [{"name": "E", "value": 'x"nodeName":"y'}]}]}
UID = "{uid}"
"""Stands for the pod's."""

SHORT: dict[str, dict[str, Any]] = {
    "a target": {"target": {"name": "n"}},
    "a target as schedulers write it": {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "default", "uid": UID},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    },
    "annotations": {"metadata": {"annotations": {"a": "new", "c": "d"}}, "target": {"name": "n"}},
}
LONG: dict[str, dict[str, Any]] = {
    "labels": {"metadata": {"labels": {"a": "b"}}, "target": {"name": "n"}},
    "another name": {"metadata": {"name": "q"}, "target": {"name": "n"}},
    "another namespace": {"metadata": {"namespace": "q"}, "target": {"name": "n"}},
    "another uid": {"metadata": {"uid": "x"}, "target": {"name": "n"}},
    "no node": {"metadata": {}, "target": {"name": ""}},
    "no target": {"metadata": {}},
    "a target that is no node": {"metadata": {}, "target": {"kind": "Pod", "name": "n"}},
    "another kind": {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "target": {"name": "n"}},
    "an unknown field": {"foo": 1, "metadata": {}, "target": {"name": "n"}},
    "a wrong type": {"metadata": {"annotations": {"a": 1}}, "target": {"name": "n"}},
}


async def _asked(binding: dict[str, Any], **spec: Any) -> list[Any]:
    """Return what two bindings are answered, and the pod after each."""
    server = in_memory_server(VirtualClock(), Random(1))

    async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        answer = await server.handle(Request(method, path, {}, {"content-type": "application/json"}, content, ADMIN))
        return answer.status, json.loads(answer.body)

    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    status, pod = await ask(
        "POST", PODS, {"metadata": {"name": "p", "annotations": {"a": "b"}}, "spec": {**SPEC, **spec}}
    )
    assert status == 201, pod
    binding = json.loads(json.dumps(binding).replace(UID, pod["metadata"]["uid"]))
    return [
        answer
        for _ in range(2)
        for answer in (await ask("POST", f"{PODS}/p/binding", binding), await ask("GET", f"{PODS}/p"))
    ]


@pytest.mark.parametrize("spec", [{}, {"schedulingGates": [{"name": "a"}]}], ids=["a free pod", "a gated pod"])
@pytest.mark.parametrize("name", [*SHORT, *LONG])
async def test_both_ways_answer_and_store_the_same(
    name: str, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    binding = {**SHORT, **LONG}[name]
    short = await _asked(binding, **spec)
    with monkeypatch.context() as patched:
        patched.setattr(quickbind, "bound", lambda *_: None)
        long = await _asked(binding, **spec)
    assert short == long


@pytest.mark.parametrize("name", [*SHORT, *LONG])
async def test_only_plain_bindings_take_the_short_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    original = quickbind.bound

    def noted(*args: Any) -> bytes | None:
        result = original(*args)
        taken.append(result is not None)
        return result

    monkeypatch.setattr(quickbind, "bound", noted)
    await _asked({"metadata": {}, **{**SHORT, **LONG}[name]})
    assert taken == [name in SHORT, False], "a pod that has its node already is refused by the long way"
