"""Objects alike: of the third and later ones less is looked at, and nobody can tell."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strato.api.wire import Request, Response, User
from strato.clock import VirtualClock
from strato.server import preparation
from strato.server.embedded import in_memory_server
from strato.server.rest import pipeline
from strato.server.rest.metadatatemplate import metadata_template
from strato.server.snapshot import Change
from tests.profiles import examples

ADMIN = User("admin", ("system:masters",))
PODS = "/api/v1/namespaces/default/pods"
SPEC: dict[str, Any] = {
    "schedulerName": "volcano",
    "containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}}],
}


class Client:
    def __init__(self) -> None:
        self.server = in_memory_server(VirtualClock(), Random(1))

    async def post(self, path: str, body: Any, **query: str) -> tuple[int, Any]:
        headers = {"content-type": "application/json"}
        parameters = {name: [value] for name, value in query.items()}
        request = Request("POST", path, parameters, headers, json.dumps(body).encode(), ADMIN)
        response = await self.server.handle(request)
        return response.status, json.loads(response.body)

    async def pod(self, name: str, spec: Any = SPEC, **metadata: Any) -> tuple[int, Any]:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        return await self.post(PODS, body)


@pytest.fixture
async def client() -> Client:
    client = Client()
    await client.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    return client


def alike(pod: dict[str, Any]) -> dict[str, Any]:
    own = ("name", "uid", "resourceVersion")
    return {**pod, "metadata": {key: value for key, value in pod["metadata"].items() if key not in own}}


async def test_every_pod_of_one_spec_is_stored_alike(client: Client) -> None:
    pods = [await client.pod(f"p{number}", labels={"a": "b"}) for number in range(5)]
    assert [status for status, _ in pods] == [201] * 5
    assert all(alike(pod) == alike(pods[0][1]) for _, pod in pods)
    assert pods[4][1]["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert pods[4][1]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def test_pods_alike_do_not_share_what_is_written_later(client: Client) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p2"}, "target": {"name": "n"}}
    assert (await client.post(f"{PODS}/p2/binding", binding))[0] == 201
    _, later = await client.pod("later")
    assert "nodeName" not in later["spec"]
    assert later["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


GATE = "scheduling.volcano.sh/queue-allocation-gate"


@pytest.mark.parametrize("asks", [(True, True, True, False, False), (False, False, False, True, True, False)])
async def test_a_gate_that_one_pod_asks_for_is_no_other_s(client: Client, asks: tuple[bool, ...]) -> None:
    for number, gated in enumerate(asks):
        _, pod = await client.pod(f"p{number}", annotations={GATE: "true"} if gated else {"other": "true"})
        assert pod["spec"].get("schedulingGates") == ([{"name": GATE}] if gated else None), number


async def test_admission_sees_the_cluster_as_it_is_for_every_pod(client: Client) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    group = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.post(group, {"metadata": {"name": "high"}, "value": 7, "globalDefault": True})
    _, pod = await client.pod("after")
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("high", 7)
    limits = {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}
    status, _ = await client.post("/api/v1/namespaces/default/limitranges", {"metadata": {"name": "l"}, "spec": limits})
    assert status == 201
    status, refused = await client.pod("too-big")
    assert (status, refused["reason"]) == (403, "Forbidden")


METADATA = [
    pytest.param({"name": "UPPER"}, 422, "metadata.name", id="a name that is none"),
    pytest.param({"labels": {"a": "b c"}}, 422, "metadata.labels", id="a label that is none"),
    pytest.param({"labels": {"a": 1}}, 400, "unmarshal number", id="a label of the wrong type"),
    pytest.param({"namespace": "other"}, 400, "does not match", id="another namespace"),
    pytest.param({"resourceVersion": "1"}, 400, "resourceVersion should not be set", id="a revision"),
    pytest.param({"name": "p0"}, 409, "already exists", id="a name that is taken"),
]


@pytest.mark.parametrize(("metadata", "code", "text"), METADATA)
async def test_metadata_is_checked_whatever_is_known(
    client: Client, metadata: dict[str, Any], code: int, text: str
) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "next", **metadata}, "spec": SPEC}
    status, answer = await client.post(PODS, body)
    assert status == code
    assert text in json.dumps(answer)


async def test_a_spec_that_is_refused_is_not_learned(client: Client) -> None:
    bad = {**SPEC, "restartPolicy": "Sometimes"}
    for number in range(4):
        status, answer = await client.pod(f"p{number}", bad)
        assert (status, answer["details"]["causes"][0]["field"]) == (422, "spec.restartPolicy")


async def test_unknown_members_beside_a_known_spec_are_dropped_with_a_warning(client: Client) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": SPEC, "extra": 1, "status": {}}
    status, pod = await client.post(PODS, body)
    assert status == 201
    assert "extra" not in pod


# ── the short way and the long way, side by side ──────────────────────────────────────────────────────────────────

GROUP = "/apis/scheduling.volcano.sh/v1beta1"
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
JOB_SPEC = {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": {"spec": SPEC}}]}
GROUP_SPEC = {"minMember": 2, "queue": "default", "minResources": {"cpu": "1", "memory": "1Gi"}}
UNKNOWN = {"minMember": 1, "queue": "default", "minMembre": 1}
KINDS: dict[str, tuple[str, str, str, list[dict[str, Any]]]] = {
    "Pod": ("v1", PODS, "Pod", [{"spec": SPEC}, {"spec": {**SPEC, "schedulingGates": [{"name": "g"}]}}]),
    "Job": (
        "batch.volcano.sh/v1alpha1",
        "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs",
        "Job",
        [{"spec": JOB_SPEC}, {"spec": {**JOB_SPEC, "queue": "closed"}}, {"spec": JOB_SPEC, "status": {"running": 1}}],
    ),
    "PodGroup": (
        "scheduling.volcano.sh/v1beta1",
        f"{GROUP}/namespaces/default/podgroups",
        "PodGroup",
        [{"spec": GROUP_SPEC, "status": {"phase": "Pending"}}, {"spec": GROUP_SPEC}, {"spec": UNKNOWN}],
    ),
}
BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
names = st.sampled_from(["a", "b-1", "c.d", "UPPER", "", "x" * 62, "x" * 70])
metadatas = st.fixed_dictionaries(
    {},
    optional={
        "name": names,
        "generateName": st.just("made-"),
        "namespace": st.sampled_from(["default", "other"]),
        "labels": st.dictionaries(st.sampled_from(["a", "b/c", "?"]), st.sampled_from(["1", "x y", ""]), max_size=2),
        "annotations": st.dictionaries(st.sampled_from(BUDGETS), st.sampled_from(["1", "0", "50%"]), max_size=2),
        "ownerReferences": st.lists(st.just(OWNER), max_size=2),
        "resourceVersion": st.sampled_from(["", "7"]),
        "finalizers": st.lists(st.sampled_from(["a/b", "none"]), max_size=1),
        "uid": st.just("mine"),
        "generation": st.just(3),
        "unknown": st.just(True),
    },
)
objects = st.tuples(st.sampled_from(sorted(KINDS)), st.integers(0, 2), metadatas)
WORLD: list[tuple[str, str, dict[str, Any]]] = [
    (
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "high"}, "value": 7, "globalDefault": True},
    ),
    ("PATCH", f"{GROUP}/queues/default/status", {"status": {"state": "Closed"}}),
    ("PATCH", f"{GROUP}/queues/default/status", {"status": {"state": "Open"}}),
    (
        "PATCH",
        "/api/v1/namespaces/default",
        {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "elsewhere"}}},
    ),
    (
        "POST",
        "/api/v1/namespaces/default/limitranges",
        {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}},
    ),
]
steps = st.lists(st.one_of(objects, objects, objects, st.sampled_from(WORLD)), min_size=4, max_size=30)


class Side:
    """A server of its own; a media type with a parameter is the same to it, but goes the long way."""

    def __init__(self, media: str, separators: tuple[str, str] = (",", ":")) -> None:
        self.clock = VirtualClock()
        self.server, self.media, self.separators = in_memory_server(self.clock, Random(1)), media, separators

    async def send(self, method: str, path: str, body: dict[str, Any], media: str) -> Response:
        sent = json.dumps(body, separators=self.separators).encode()
        return await self.server.handle(Request(method, path, {}, {"content-type": media}, sent, ADMIN))

    async def prepare(self) -> None:
        await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}}, "application/json")
        for name, state in (("default", "Open"), ("elsewhere", "Open"), ("closed", "Closed")):
            body = {"apiVersion": GROUP[6:], "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
            await self.send("POST", f"{GROUP}/queues", body, "application/json")
            patch = {"status": {"state": state}}
            await self.send("PATCH", f"{GROUP}/queues/{name}/status", patch, "application/merge-patch+json")

    async def take(self, step: tuple[Any, Any, Any]) -> Response:
        if step[0] not in KINDS:
            return await self.send(*step, "application/merge-patch+json" if step[0] == "PATCH" else "application/json")
        version, path, kind, bodies = KINDS[step[0]]
        body = {"apiVersion": version, "kind": kind, "metadata": step[2], **bodies[step[1] % len(bodies)]}
        return await self.send("POST", path, body, self.media)


def plain(number: int) -> list[tuple[str, int, dict[str, Any]]]:
    """So many of each kind that the last ones are known."""
    return [(kind, 0, {"name": f"n{at}"}) for at in range(number) for kind in KINDS]


async def _answered_alike(sides: tuple[Side, Side], steps: list[tuple[Any, Any, Any]]) -> None:
    short, long = sides
    for side in sides:
        await side.prepare()
    for step in [*plain(3), *steps]:
        for side in sides:
            side.clock.advance(0.4)  # some are of the same second
        one, other = await short.take(step), await long.take(step)
        assert (one.status, one.body, dict(one.headers)) == (other.status, other.body, dict(other.headers))
    for bucket in long.server.store.buckets():
        assert short.server.store.bucket(bucket.resource).objects == bucket.objects


@settings(max_examples=examples(25), deadline=None)
@given(steps)
@example([*plain(4), *WORLD, *plain(4)])
@example([("Job", 0, {"name": "x" * 57}), *plain(3), ("Job", 0, {"name": "x" * 61}), ("Pod", 0, {"name": "n9"})])
async def test_what_is_known_changes_no_answer_and_no_stored_byte(steps: list[tuple[Any, Any, Any]]) -> None:
    await _answered_alike((Side("application/json"), Side("application/json; charset=utf-8")), steps)


# ── metadata of one form ──────────────────────────────────────────────────────────────────────────────────────────

NAMES = ["a", "b-1", "c.d", "UPPER", "", "-a", 'q"', "x" * 57, "x" * 62, "x" * 63, "x" * 64, "ü", "a b", 1]
LABELS = ["1", "X_y.z", "", "a-", "x y", "x" * 63, "x" * 64, "ü", "\\", '"', None, 1, "\ue0000\ue000"]
TEXTS = ["text", "", 'a "quote"', "back\\slash", "ü", "a\nb", "x" * 1025, "/", "\x7f", None, 1, "#[]!~ "]


def shaped(shape: int, name: Any, label: Any, text: Any) -> dict[str, Any]:
    """Return metadata of one of some shapes."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": text, "uid": text, "controller": True}
    labels = {"a": label, "b/c": "1", "d": label}
    return [
        {"name": name},
        {"namespace": "default", "name": name, "labels": labels},
        {"labels": labels, "annotations": {"x": text, "y.z/a": "fixed"}, "ownerReferences": [owner], "name": name},
        {"name": name, "annotations": {BUDGETS[0]: "1"}, "labels": labels},
        {"generateName": "made-", "labels": labels},
        {"name": name, "finalizers": ["a/b"], "labels": {}},
        {"name": name, "ownerReferences": [owner, {**owner, "controller": False}]},
        {"name": name, "namespace": text},
    ][shape]


shapes = st.builds(shaped, st.integers(0, 7), st.sampled_from(NAMES), st.sampled_from(LABELS), st.sampled_from(TEXTS))
formed = st.tuples(st.sampled_from(sorted(KINDS)), st.just(0), shapes)


def learned(shape: int) -> list[tuple[str, int, dict[str, Any]]]:
    """So many of each kind that their metadata's form is known."""
    return [(kind, 0, shaped(shape, f"f{shape}{at}", "v", "t")) for at in range(3) for kind in KINDS]


EVERY = [
    *((name, "1", "t") for name in NAMES),
    *((f"l{at}", label, "t") for at, label in enumerate(LABELS)),
    *((f"t{at}", "1", text) for at, text in enumerate(TEXTS)),
]


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from([(",", ":"), (", ", ": "), (",", ": ")]),
    st.lists(st.one_of(formed, formed, st.sampled_from(WORLD))),
)
@example((",", ":"), [(kind, 0, shaped(shape, *given)) for shape in range(8) for kind in KINDS for given in EVERY])
@example((", ", ": "), [(kind, 0, shaped(shape, *given)) for shape in range(3) for kind in KINDS for given in EVERY])
@example(
    (",", ":"), [("Pod", 0, shaped(1, "s1", "1", "t")), *WORLD, *learned(2), ("Pod", 0, shaped(1, "s2", "1", "t"))]
)
async def test_metadata_of_a_known_form_change_no_answer_and_no_stored_byte(
    separators: tuple[str, str], steps: list[tuple[Any, Any, Any]]
) -> None:
    sides = (Side("application/json", separators), Side("application/json; charset=utf-8", separators))
    await _answered_alike(sides, [*(step for shape in range(8) for step in learned(shape)), *steps])


# ── what is written and not yet durable ───────────────────────────────────────────────────────────────────────────

COMMIT = ("commit", "", {})


class Held:
    """A journal whose changes become durable at a word."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def append(self, change: Change) -> None:
        self.changes.append(change)


class Delayed(Side):
    """A side that is asked by those who run ahead of the disk."""

    def __init__(self, media: str) -> None:
        super().__init__(media)
        self.held = Held()
        self.server.store.use_journal(self.held)

    async def send(self, method: str, path: str, body: dict[str, Any], media: str) -> Response:
        sent = json.dumps(body, separators=self.separators).encode()
        return self.server.write(Request(method, path, {}, {"content-type": media}, sent, ADMIN, uncommitted=True))

    async def take(self, step: tuple[Any, Any, Any]) -> Response:
        if step != COMMIT:
            return await super().take(step)
        if self.held.changes:
            self.server.store.committed(self.held.changes)
        self.held.changes = []
        return Response(200)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.one_of(formed, formed, st.sampled_from(WORLD), st.just(COMMIT))))
@example([step for world in WORLD for step in (world, *plain(3), COMMIT, *learned(1), *plain(3), *learned(2))])
@example(
    [WORLD[1], *learned(1), WORLD[2], *learned(2), COMMIT, *learned(3), WORLD[4], *learned(4), COMMIT, *learned(5)]
)
async def test_what_is_only_written_counts_as_it_does_on_the_long_way(steps: list[tuple[Any, Any, Any]]) -> None:
    numbered = [
        (kind, at, {**rest, "name": f"{rest['name']}-{number}"} if kind in KINDS and "name" in rest else rest)
        for number, (kind, at, rest) in enumerate([COMMIT, *plain(3), *learned(1), *steps, COMMIT])
    ]
    await _answered_alike((Delayed("application/json"), Delayed("application/json; charset=utf-8")), numbered)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["without blanks", "with blanks"])
async def test_most_metadata_of_one_form_are_not_even_decoded(
    separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    side, seen = Side("application/json", separators), 0
    await side.prepare()
    at_once = pipeline.Pipeline.at_once

    def counted(creation: pipeline.Pipeline, draft: pipeline.Draft, known: frozenset[str] = frozenset()) -> None:
        nonlocal seen
        seen += draft.known is not None and not draft.known.begin
        at_once(creation, draft, known)

    monkeypatch.setattr(pipeline.Pipeline, "at_once", counted)
    for shape in (1, 2):
        for number in range(20):
            for kind in KINDS:
                step = (kind, 0, shaped(shape, f"n{shape}{number}", str(number), f"owner-{number}"))
                assert (await side.take(step)).status == 201
    assert seen == 4 * len(KINDS), "two of each shape, until its template is made"


async def test_most_of_a_thousand_alike_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Side("application/json")
    await side.prepare()
    seen: list[str] = []
    long_way = preparation.check_type
    monkeypatch.setattr(preparation, "check_type", lambda *given: seen.append(given[0].kind.name) or long_way(*given))
    for number in range(100):
        for kind in KINDS:
            assert (await side.take((kind, 0, {"name": f"n{number}"}))).status == 201
    assert sorted(seen) == sorted([*KINDS] * 2)


def many_annotations(text: str) -> bytes:
    metadata = {"name": "p", "annotations": {f"k{number}": text for number in range(300)}}
    return json.dumps(metadata, separators=(",", ":")).encode()


def test_a_template_takes_no_more_annotations_than_there_may_be() -> None:
    small, large = many_annotations("a"), many_annotations("a" * 1000)
    template = metadata_template(small, "default", frozenset())
    assert template is not None
    assert template.match(small, 0, len(small)) is not None
    assert template.match(large, 0, len(large)) is None


@pytest.mark.parametrize(("letters", "code"), [(130_000, 201), (140_000, 422)])
async def test_annotations_are_measured_in_bytes(client: Client, letters: int, code: int) -> None:
    status, _ = await client.pod("p", annotations={"k": "ü" * letters})
    assert status == code


async def test_a_template_counts_with_the_text_around_the_metadata(client: Client) -> None:
    for number in range(4):
        await client.pod(f"p{number}", {"containers": [{**SPEC["containers"][0], "args": ["x" * 10_000]}]})
    templates = client.server._writer._memo._templates
    assert len(templates) == 1
    assert 10_000 < templates.bytes < 20_000
