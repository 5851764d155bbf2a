"""Renewals of leases: only their time is looked at, and nobody can tell from a server that looks at all."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from strato.server.rest import memberpatch
from strato.server.rest.stored import split

ADMIN = User("admin", ("system:masters",))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"
TIME, LATER = "2026-11-22T05:44:25.945770Z", "2026-11-22T05:44:35.9Z"

SPECS: dict[str, dict[str, Any]] = {
    "a node's": {"holderIdentity": 'a "renewTime":"', "leaseDurationSeconds": 40, "renewTime": TIME},
    "one without a time": {"holderIdentity": "a"},
}
SHORT: dict[str, bytes] = {
    "a later time": b'{"spec":{"renewTime":"%b"}}' % LATER.encode(),
    "the same time": b'{"spec":{"renewTime":"%b"}}' % TIME.encode(),
    "a time of another zone": b'{"spec":{"renewTime":"2026-11-22T05:44:35+02:00"}}',
    "a time with an escape": b'{"spec":{"renewTime":"2026-11-22T05:44:35\\u005a"}}',
    "blanks": b'{"spec": {"renewTime": "2026-11-22T05:44:35Z"}}',
}
LONG: dict[str, bytes] = {
    "no time": b'{"spec":{"renewTime":"soon"}}',
    "a time in lower case": b'{"spec":{"renewTime":"2026-11-22t05:44:35z"}}',
    "the time away": b'{"spec":{"renewTime":null}}',
    "the holder as well": b'{"spec":{"renewTime":"2026-11-22T05:44:35Z","holderIdentity":"b"}}',
    "a label as well": b'{"metadata":{"labels":{"a":"b"}},"spec":{"renewTime":"2026-11-22T05:44:35Z"}}',
    "an unknown field": b'{"spec":{"renewedTime":"2026-11-22T05:44:35Z"}}',
    "nothing": b"{}",
    "no JSON": b'{"spec":{"renewTime":"2026-11-22T05:44:35Z"}',
}


async def _asked(spec: dict[str, Any], patch: bytes, media: str = MERGE, **query: str) -> list[Any]:
    """Return what two patches are answered, the stored bytes after each, and what happens without the lease."""
    server = in_memory_server(VirtualClock(), Random(1))

    async def ask(method: str, path: str, body: bytes, media: str = "application/json", **query: str) -> Any:
        asked = {name: [value] for name, value in query.items()}
        answer = await server.handle(Request(method, path, asked, {"content-type": media}, body, ADMIN))
        return answer.status, answer.body, dict(answer.headers)

    await ask("POST", "/api/v1/namespaces", b'{"metadata":{"name":"default"}}')
    lease = {"metadata": {"name": "n"}, "spec": spec}
    answers = [await ask("POST", LEASES, json.dumps(lease).encode())]
    bucket = server.store.bucket("leases.coordination.k8s.io")
    for _ in range(2):
        answers += [await ask("PATCH", f"{LEASES}/n", patch, media, **query), bucket.objects["default/n"]]
        body = bucket.objects["default/n"].body
        assert server.state.recent.of(body) == split(body)
    return [*answers, await ask("PATCH", f"{LEASES}/missing", patch, media, **query)]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", [*SHORT, *LONG])
async def test_both_ways_answer_and_store_the_same(name: str, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = {**SHORT, **LONG}[name]
    for media, query in ((MERGE, {}), (MERGE, {"dryRun": "All"}), ("application/strategic-merge-patch+json", {})):
        short = await _asked(SPECS[spec], patch, media, **query)
        with monkeypatch.context() as patched:
            patched.setattr(memberpatch, "patched", lambda *_: None)
            long = await _asked(SPECS[spec], patch, media, **query)
        assert short == long


@pytest.mark.parametrize("name", [*SHORT, *LONG])
async def test_only_a_time_takes_the_short_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    original = memberpatch.patched

    def noted(*args: Any) -> bytes | None:
        result = original(*args)
        taken.append(result is not None)
        return result

    monkeypatch.setattr(memberpatch, "patched", noted)
    await _asked(SPECS["a node's"], {**SHORT, **LONG}[name])
    assert taken == [name in SHORT] * 2
