"""Stored objects as members: each is put where it belongs, however often an object was written and by whatever way."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server
from strato.server.rest.stored import STATUS, RecentObjects, split
from tests.profiles import examples

ADMIN = User("admin", ("system:masters",))
CORE, BATCH, GROUP = "/api/v1", "/apis/batch.volcano.sh/v1alpha1", "/apis/scheduling.volcano.sh/v1beta1"
PLACES = {
    "Pod": f"{CORE}/namespaces/default/pods",
    "Job": f"{BATCH}/namespaces/default/jobs",
    "PodGroup": f"{GROUP}/namespaces/default/podgroups",
}
VERSIONS = {"Pod": "v1", "Job": BATCH[6:], "PodGroup": GROUP[6:]}
POD_SPEC = {"containers": [{"name": "c", "image": "busybox"}]}
SPECS: dict[str, Any] = {
    "Pod": POD_SPEC,
    "Job": {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": {"spec": POD_SPEC}}]},
    "PodGroup": {"minMember": 1, "queue": "default"},
}
MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"
UID = "{uid}"
"""Stands for the object's."""
NAMES = ["a", "b", "c", "d"]
kinds, names = st.sampled_from(sorted(PLACES)), st.sampled_from(NAMES)
JOB_STATUS = {"minAvailable": 1, "state": {"phase": "Pending", "lastTransitionTime": "2026-11-22T05:44:35Z"}}
CONDITION = {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-11-22T05:44:34Z"}
STATUSES: dict[str, list[Any]] = {
    "Pod": [
        {"phase": "Running", "hostIP": "10.0.0.1", "startTime": "2026-11-22T05:44:34Z", "conditions": [CONDITION]},
        {"phase": "Succeeded", "message": 'ü\u2028"', "startTime": None},
        {"startTime": "2026-11-22t05:44:34z"},
        {"startTime": "soon"},
        {"phase": None},
        {"resourceVersion": "1"},
        {},
    ],
    "Job": [JOB_STATUS, {**JOB_STATUS, "running": 1}, {"running": "one"}, {"foo": 1}, {}, {"state": None}],
    "PodGroup": [
        {"phase": "Inqueue", "running": 0},
        {"running": 0, "phase": "Inqueue"},
        {"phase": "Running", "conditions": [{"type": "Scheduled", "status": "True", "transitionID": "x"}]},
        {"running": "one"},
        {"foo": {"bar": 1}},
    ],
}
Step = tuple[str, str, str, Any]
"""What is done, to which kind and name, and with what."""


def _statuses(what: str) -> st.SearchStrategy[Step]:
    return kinds.flatmap(lambda kind: st.tuples(st.just(what), st.just(kind), names, st.sampled_from(STATUSES[kind])))


steps = st.one_of(
    _statuses("merge"),
    _statuses("replace"),
    _statuses("operate"),
    st.tuples(st.just("create"), kinds, names, st.sampled_from([{}, {"resourceVersion": "9"}])),
    st.tuples(st.just("bind"), st.just("Pod"), names, st.sampled_from([{}, {"x": "y"}])),
    st.tuples(st.just("label"), kinds, names, st.sampled_from(["resourceVersion", "other"])),
    st.tuples(st.just("delete"), kinds, names, st.none()),
)


def _requests(step: Step, uid: str) -> list[tuple[str, str, str, Any]]:
    what, kind, name, given = step
    path = f"{PLACES[kind]}/{name}"
    of_status = path if kind == "PodGroup" else f"{path}/status"
    test = {"op": "test", "path": "/metadata/uid", "value": uid}
    match what:
        case "merge":
            return [("PATCH", of_status, MERGE, {"status": given})]
        case "replace":
            return [("PATCH", of_status, JSON, [test, {"op": "add", "path": "/status", "value": given}])]
        case "operate":
            more = [
                {"op": "replace", "path": "/status", "value": {}},
                {"op": "add", "path": "/status/phase", "value": 1},
            ]
            return [("PATCH", of_status, JSON, [test, more[0]]), ("PATCH", of_status, JSON, [more[len(given) % 2]])]
        case "create":
            body = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {"name": name, "labels": given}}
            return [("POST", PLACES[kind], "application/json", {**body, "spec": SPECS[kind]})]
        case "bind":
            about = {"name": name, "uid": uid, **({"annotations": given} if given else {})}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": {"name": "n"}}
            return [("POST", f"{path}/binding", "application/json", binding)]
        case "label":
            return [("PATCH", path, MERGE, {"metadata": {"labels": {given: "7"}}})]
    return [("DELETE", path, "application/json", {"gracePeriodSeconds": 30})]


async def _life(steps: list[Step], *, memoises: bool) -> tuple[list[tuple[int, bytes]], ApiServer]:
    server = in_memory_server(VirtualClock(), Random(1), memoises=memoises)

    async def ask(method: str, path: str, media: str, body: Any) -> tuple[int, bytes]:
        sent = json.dumps(body, separators=(",", ":")).encode()
        answer = await server.handle(Request(method, path, {}, {"content-type": media}, sent, ADMIN))
        return answer.status, answer.body

    await ask("POST", f"{CORE}/namespaces", "application/json", {"metadata": {"name": "default"}})
    queue = {"apiVersion": GROUP[6:], "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
    await ask("POST", f"{GROUP}/queues", "application/json", queue)
    answers = []
    for step in [*(("create", kind, name, {}) for kind in PLACES for name in NAMES), *steps]:
        resource = PLACES[step[1]].rpartition("/")[2]
        group = VERSIONS[step[1]].rpartition("/")[0]
        stored = server.store.bucket(f"{resource}.{group}" if group else resource).latest(f"default/{step[2]}")
        uid = json.loads(stored)["metadata"]["uid"] if stored else "none"
        answers += [await ask(*request) for request in _requests(step, uid)]
        _check_recent(server)
    return answers, server


def _check_recent(server: ApiServer) -> None:
    for bucket in server.store.buckets():
        for row in bucket.objects.values():
            known, read = server.state.recent.of(row.body), split(row.body)
            assert known == read or read is None
            assert known is None or known.encode(row.revision) == row.body


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(steps, max_size=25))
@example([("merge", "PodGroup", name, STATUSES["PodGroup"][0]) for name in NAMES])
@example([("merge", "PodGroup", "a", status) for status in STATUSES["PodGroup"]] * 2)
@example([("replace", "Job", name, STATUSES["Job"][at]) for at in (0, 1, 1) for name in NAMES])
@example(
    [(what, "Pod", name, STATUSES["Pod"][0] if what == "merge" else {}) for what in ("bind", "merge") for name in NAMES]
)
@example([("merge", "Pod", "a", status) for status in STATUSES["Pod"]])
@example(
    [("label", "Pod", "a", "resourceVersion"), *[("merge", "Pod", "a", status) for status in STATUSES["Pod"][:2]] * 4]
)
async def test_what_is_remembered_changes_no_answer_and_no_stored_byte(steps: list[Step]) -> None:
    short_answers, short = await _life(steps, memoises=True)
    long_answers, long = await _life(steps, memoises=False)
    assert short_answers == long_answers
    for bucket in long.store.buckets():
        assert short.store.bucket(bucket.resource).objects == bucket.objects


BODIES = {
    "a plain object": (b'{"apiVersion":"v1","metadata":{"uid":"u","resourceVersion":"5"},"spec":{},"status":{}}', True),
    "neither spec nor status": (b'{"apiVersion":"v1","metadata":{"uid":"u","resourceVersion":"5"}}', True),
    "an unusual member": ('{"apiVersion":"v1","ü":1,"metadata":{"uid":"u","resourceVersion":"5"}}'.encode(), False),
    "blanks": (b'{"apiVersion":"v1", "metadata":{"uid":"u","resourceVersion":"5"}}', False),
    "a status before the spec": (
        b'{"apiVersion":"v1","metadata":{"uid":"u","resourceVersion":"5"},"status":{},"spec":{}}',
        True,
    ),
    "metadata last": (b'{"apiVersion":"v1","spec":{},"metadata":{"uid":"u","resourceVersion":"5"}}', False),
    "metadata first": (b'{"metadata":{"uid":"u","resourceVersion":"5","x":1},"apiVersion":"v1","spec":{}}', True),
    "a label like the revision": (
        b'{"apiVersion":"v1","metadata":{"labels":{"resourceVersion":"5"},"uid":"u","resourceVersion":"5"}}',
        False,
    ),
    "on its way out": (
        b'{"apiVersion":"v1","metadata":{"uid":"u","resourceVersion":"5","deletionTimestamp":"2026-11-22T05:44:34Z"}}',
        False,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_only_plain_bodies_are_split(name: str) -> None:
    body, is_plain = BODIES[name]
    stored = split(body)
    assert (stored is not None) is is_plain
    if stored is None:
        return
    assert (stored.uid, stored.encode(5)) == ("u", body)
    wanted = {**json.loads(body), "status": {"a": 1}}
    wanted["metadata"]["resourceVersion"] = "66"
    changed = stored.replaced({STATUS: b'{"a":1}'})
    assert json.loads(changed.encode(66)) == wanted
    assert split(changed.encode(66)) == changed
    wanted["metadata"]["labels"] = {"b": "c"}
    labelled = changed.with_metadata(labels={"b": "c"}, annotations={})
    assert json.loads(labelled.encode(66)) == wanted
    assert split(labelled.encode(66)) == labelled


def test_objects_written_long_ago_are_forgotten() -> None:
    recent, body = RecentObjects(), BODIES["a plain object"][0]
    stored = split(body)
    assert stored is not None
    bodies = [bytes([*body]) for _ in range(20_000)]
    for one in bodies:
        recent.note(one, stored)
    assert len(recent) < 20_000
    assert recent.of(bodies[-1]) is stored
