"""Reviews in, answers out; certificates that renew themselves; configurations that cannot hurt others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import random
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.admission import Chain, ChainOptions
from strato.admission.groups import read_groups
from strato.admission.pods import GATE
from strato.admission.webhook import (
    SERVICES,
    FileCertificates,
    GroupsFile,
    Hooks,
    SecretCertificates,
    WebhookEndpoint,
    WebhookOptions,
    WebhookServer,
    configurations,
    parse_enabled,
)
from strato.admission.webhook.certificates import Lifetimes, renew
from strato.admission.webhook.difference import json_patch
from strato.admission.webhook.publish import client_config_patch, publish
from strato.admission.webhook.review import answer, read_review
from strato.api import catalog
from strato.api.cel import compile_expression
from strato.api.kinds import Kind
from strato.api.trainingkinds import kinds_off
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.errors import BadRequest, Forbidden, InvalidInput, UsageError
from strato.metrics import Registry
from strato.pki import Authority
from strato.server.embedded import in_memory_server
from strato.server.patch.json_patch import apply_json_patch
from tests.admission.reader import FakeWorld
from tests.http.badrequests import wrongly_answered

Json = dict[str, Any]
DAY = 86400.0
ADMIN = User("admin", ("system:masters",))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values)
def test_the_patch_leads_from_one_value_to_the_other(before: Any, after: Any) -> None:
    patched = apply_json_patch(json.loads(json.dumps(before)), json_patch(before, after))
    assert json.dumps(patched, sort_keys=True) == json.dumps(after, sort_keys=True)


QUEUE: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}


def job(**spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    body = {"tasks": [{"replicas": 2, "template": template}], **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": body}


def question(
    path: str,
    obj: Json | None,
    *,
    operation: str = "CREATE",
    old: Json | None = None,
    resource: str = "",
    name: str = "",
) -> bytes:
    kind = SERVICES[path].kind
    request = {
        "uid": "u-1",
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.name},
        "resource": {"group": kind.group, "version": kind.version, "resource": resource or kind.plural},
        "operation": operation,
        "namespace": "default" if kind.namespaced else "",
        "name": name,
        "userInfo": {"username": "kim"},
        "object": obj,
        "oldObject": old,
        "options": {"kind": "CreateOptions"},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def ask(path: str, body: bytes, reader: FakeWorld | None = None) -> Json:
    chain = Chain(ChainOptions(enabled=frozenset({path}), built_in_plugins=False))
    review = answer(SERVICES[path], chain, read_review(body), reader or FakeWorld().queue("default"))
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Json = review["response"]
    assert response["uid"] == "u-1"
    return response


def test_a_mutation_is_a_patch_of_what_is_missing() -> None:
    response = ask("/jobs/mutate", question("/jobs/mutate", job()))
    patch = json.loads(base64.b64decode(response["patch"]))
    assert response["patchType"] == "JSONPatch"
    assert {operation["path"] for operation in patch} == {
        "/spec/queue",
        "/spec/schedulerName",
        "/spec/maxRetry",
        "/spec/minAvailable",
        "/spec/tasks",
    }
    whole = apply_json_patch(job(), patch)
    assert (whole["spec"]["minAvailable"], whole["spec"]["tasks"][0]["name"]) == (2, "default0")


def test_what_needs_no_change_gets_no_patch() -> None:
    queue = {"metadata": {"name": "q"}, "spec": {"weight": 2, "reclaimable": False}}
    assert ask("/queues/mutate", question("/queues/mutate", queue)) == {"uid": "u-1", "allowed": True}


def test_a_refusal_names_every_problem_without_the_servers_prefix() -> None:
    bad = job(minAvailable=9, queue="nowhere", plugins={"teleport": []})
    message = ask("/jobs/validate", question("/jobs/validate", bad))["status"]["message"]
    assert "minAvailable" in message
    assert "nowhere" in message
    assert "teleport" in message
    assert "admission webhook" not in message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            question("/jobs/validate", job(), resource="cronjobs"), "expect resource to be", id="another resource"
        ),
        pytest.param(
            question("/jobs/validate", job(), operation="CONNECT"), "expect operation", id="another operation"
        ),
        pytest.param(question("/jobs/validate", None), "has no object", id="no object"),
        pytest.param(question("/jobs/validate", job(tasks="many")), "cannot be handled", id="a field of another type"),
    ],
)
def test_what_does_not_belong_here_is_refused_with_words(body: bytes, message: str) -> None:
    response = ask("/jobs/validate", body)
    assert not response["allowed"]
    assert message in response["status"]["message"]


def test_the_name_of_an_object_whose_name_was_generated_is_taken_from_it() -> None:
    assert ask("/jobs/validate", question("/jobs/validate", job(minAvailable=1), name=""))["allowed"]


def test_a_deletion_is_answered_also_where_the_server_does_not_send_what_is_deleted() -> None:
    assert ask("/queueacls/validate", question("/queueacls/validate", None, operation="DELETE", name="q"))["allowed"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"request": {"uid": 5}}', b"\xff", b"[" * 100_000])
def test_what_is_no_review_is_no_traceback(body: bytes) -> None:
    with pytest.raises(BadRequest, match="not an AdmissionReview"):
        read_review(body)


def test_services_are_named_by_their_paths() -> None:
    assert [one.path for one in parse_enabled(["/jobs/mutate, ,/queues/mutate", "/jobs/mutate"])] == [
        "/jobs/mutate",
        "/queues/mutate",
    ]
    assert parse_enabled([""]) == ()
    of_training = ["/tfjobs/validate", "/mpijobs/validate", "/mpijobs/v2beta1/validate", "/jobs/validate"]
    left = parse_enabled([",".join(of_training)], kinds_off("*,-MPIJob"))
    assert [one.path for one in left] == ["/tfjobs/validate", "/jobs/validate"]
    with pytest.raises(UsageError, match="'/jobs/mutat' is no admission service"):
        parse_enabled(["/jobs/mutat"])


def test_no_pod_waits_for_an_answer_and_only_ours_are_sent() -> None:
    hooks = Hooks(scheduler_names=("volcano", "mine"), resource_groups=True)
    bodies = configurations(hooks, WebhookEndpoint(namespace="volcano-system", service="admission"), b"ca")
    by_name = {body["metadata"]["name"]: body["webhooks"][0] for body in bodies}
    assert len(by_name) == len(SERVICES)
    for name, webhook in by_name.items():
        never_waits = "-pods-" in name or "-nodes-" in name
        assert webhook["failurePolicy"] == ("Ignore" if never_waits else "Fail")
        assert all(rule["apiGroups"] != ["*"] and rule["resources"] != ["*"] for rule in webhook["rules"])
        cluster_scoped = any(kind in name for kind in ("queues", "nodes", "clustertrainingruntimes"))
        assert ("namespaceSelector" not in webhook) == cluster_scoped
    conditions = by_name["volcano-admission-service-pods-validate"]["matchConditions"]
    assert '["volcano", "mine"]' in conditions[0]["expression"]


@pytest.mark.parametrize("annotations", [None, {}, {"a": "b"}, {GATE: "false"}, {GATE: "true"}])
def test_without_resource_groups_only_pods_that_ask_for_the_gate_are_sent_to_be_changed(
    annotations: dict[str, str] | None,
) -> None:
    hooks = Hooks(services=parse_enabled(["/pods/mutate"]))
    (webhook,) = configurations(hooks, WebhookEndpoint(url="https://h:1"))[0]["webhooks"]
    (condition,) = webhook["matchConditions"]
    meta: Json = {"name": "p", "namespace": "default"} | ({} if annotations is None else {"annotations": annotations})
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}}
    is_sent = compile_expression(condition["expression"])({"object": pod})
    response = ask("/pods/mutate", question("/pods/mutate", pod), FakeWorld())
    assert is_sent == ("patch" in response) == (annotations == {GATE: "true"})
    with_groups = configurations(replace(hooks, resource_groups=True), WebhookEndpoint(url="https://h:1"))[0]
    assert "matchConditions" not in with_groups["webhooks"][0]


@pytest.mark.parametrize("spec", [None, {}, {"queue": "default"}, {"queue": ""}, {"queue": "mine"}])
def test_groups_are_sent_to_be_changed_unless_they_name_a_queue_of_their_own(spec: Json | None) -> None:
    hooks = Hooks(services=parse_enabled(["/podgroups/mutate"]))
    (webhook,) = configurations(hooks, WebhookEndpoint(url="https://h:1"))[0]["webhooks"]
    (condition,) = webhook["matchConditions"]
    group: Json = {"metadata": {"name": "g", "namespace": "default"}} | ({} if spec is None else {"spec": spec})
    is_sent = compile_expression(condition["expression"])({"object": group})
    annotations = {"scheduling.volcano.sh/queue-name": "other"}
    reader = FakeWorld().add(catalog.NAMESPACE, "default", metadata={"annotations": annotations})
    response = ask("/podgroups/mutate", question("/podgroups/mutate", group), reader)
    assert is_sent or "patch" not in response, "a group is not sent that would be changed"
    assert is_sent == (spec not in ({"queue": "mine"}, {"queue": ""}))


def test_of_a_configuration_somebody_else_wrote_only_the_client_changes() -> None:
    wanted = configurations(
        Hooks(services=parse_enabled(["/hypernodes/validate"])), WebhookEndpoint(url="https://h:1"), b"new"
    )[0]
    found = json.loads(json.dumps(wanted))
    found["metadata"]["resourceVersion"] = "7"
    found["webhooks"][0]["name"] = "validatehypernodes.volcano.sh"  # as Volcano's chart names it
    assert client_config_patch(found, wanted) == []
    found["webhooks"][0]["clientConfig"]["caBundle"] = "b2xk"
    assert [operation["path"] for operation in client_config_patch(found, wanted)] == [
        "/metadata/resourceVersion",
        "/webhooks/0/clientConfig",
    ]


class Installed(LocalCluster):
    """A cluster where configurations may be changed and not created, as the webhook's role has it."""

    async def create(self, kind: Any, body: Any, namespace: str = "", **more: Any) -> Any:
        if kind.name.endswith("WebhookConfiguration"):
            raise Forbidden(f"cannot create {body['metadata']['name']}")
        return await super().create(kind, body, namespace, **more)


async def test_a_configuration_that_an_older_installation_lacks_is_done_without() -> None:
    server = in_memory_server(SystemClock(), random.Random(1))
    cluster = Installed(server, ADMIN)
    wanted = configurations(Hooks(), WebhookEndpoint(url="https://h:1"), b"new")
    with pytest.raises(Forbidden, match="cannot create volcano-admission-service-jobs-mutate"):
        await publish(cluster, wanted)
    older = [
        body
        for body in configurations(Hooks(), WebhookEndpoint(url="https://h:1"), b"old")
        if "pods-mutate" not in str(body)
    ]
    assert len(older) == len(wanted) - 1
    for body in older:
        await LocalCluster(server, ADMIN).create(webhook_kind(body), body)
    await publish(cluster, wanted)
    for body in wanted:
        if "pods-mutate" not in str(body):
            found = await cluster.get(webhook_kind(body), body["metadata"]["name"])
            assert found["webhooks"][0]["clientConfig"] == body["webhooks"][0]["clientConfig"]


def webhook_kind(body: Json) -> Kind:
    mutating = body["kind"] == "MutatingWebhookConfiguration"
    return catalog.MUTATINGWEBHOOKCONFIGURATION if mutating else catalog.VALIDATINGWEBHOOKCONFIGURATION


HOSTS = ("admission.volcano-system.svc",)


def test_certificates_are_kept_until_a_third_of_their_time_is_left() -> None:
    lifetimes = Lifetimes()
    first = renew({}, HOSTS, 0.0, lifetimes)
    assert renew(first, HOSTS, 240 * DAY, lifetimes) == first
    later = renew(first, HOSTS, 246 * DAY, lifetimes)
    assert later["ca.crt"] == first["ca.crt"]
    assert later["tls.crt"] != first["tls.crt"]
    assert renew(first, ("other.svc",), 1.0, lifetimes)["tls.crt"] != first["tls.crt"]


def test_a_new_authority_is_published_together_with_the_old_one() -> None:
    first = renew({}, HOSTS, 0.0, Lifetimes())
    second = renew(first, HOSTS, 3300 * DAY, Lifetimes())
    assert second["ca.crt"].endswith(first["ca.crt"])
    assert second["ca.crt"] != first["ca.crt"]
    Authority.from_pem(second["ca.crt"], second["ca.key"])
    third = renew(second, HOSTS, 6600 * DAY, Lifetimes())
    assert third["ca.crt"].count(b"BEGIN CERTIFICATE") == 2


@pytest.mark.parametrize("key", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [b"", b"broken"])
def test_a_damaged_secret_is_repaired(key: str, content: bytes) -> None:
    repaired = renew({**renew({}, HOSTS, 0.0, Lifetimes()), key: content}, HOSTS, 1.0, Lifetimes())
    assert renew(repaired, HOSTS, 2.0, Lifetimes()) == repaired
    assert Authority.from_pem(repaired["ca.crt"], repaired["ca.key"])


class AdmissionReader:
    """An embedded server with the webhook beside it, on real sockets."""

    def __init__(self, tmp_path: Path) -> None:
        self.clock = SystemClock()
        self.server = in_memory_server(self.clock, random.Random(1))
        self.cluster = LocalCluster(self.server, ADMIN)
        self.metrics = Registry()

    def certificates(self) -> SecretCertificates:
        return SecretCertificates(self.cluster, self.clock, namespace="default", name="certs", hosts=("127.0.0.1",))

    @contextlib.asynccontextmanager
    async def serving(self, **options: Any) -> AsyncIterator[WebhookServer]:
        endpoint = WebhookEndpoint(url="https://127.0.0.1:9")
        settings = WebhookOptions(host="127.0.0.1", port=0, endpoint=endpoint, **options)
        webhook = WebhookServer(self.cluster, self.clock, self.certificates(), settings, self.metrics)
        task = asyncio.ensure_future(webhook.run())
        ready = asyncio.ensure_future(webhook.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task.exception()
        try:
            yield webhook
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def trust(self) -> ssl.SSLContext:
        secret = await self.cluster.get(catalog.SECRET, "certs", "default")
        return ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())


@pytest.fixture
async def reader(tmp_path: Path) -> AdmissionReader:
    reader = AdmissionReader(tmp_path)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    with contextlib.suppress(Exception):
        await reader.cluster.create(catalog.NAMESPACE, body)
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "default"},
        "spec": {},
    }
    with contextlib.suppress(Exception):
        await reader.cluster.create(catalog.QUEUE, queue)
    return reader


async def post(
    port: int, path: str, body: bytes, tls: ssl.SSLContext, kind: str = "application/json"
) -> tuple[int, bytes]:
    url = f"https://127.0.0.1:{port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=io.BytesIO(body), ssl=tls, headers={"content-type": kind}) as response,
    ):
        return response.status, await response.read()


async def test_it_answers_over_tls_that_the_published_bundle_verifies(reader: AdmissionReader) -> None:
    async with reader.serving() as webhook:
        found = await reader.cluster.get(
            catalog.VALIDATINGWEBHOOKCONFIGURATION, "volcano-admission-service-jobs-validate"
        )
        config = found["webhooks"][0]["clientConfig"]
        assert config["url"] == "https://127.0.0.1:9/jobs/validate"
        tls = ssl.create_default_context(cadata=base64.b64decode(config["caBundle"]).decode())
        status, body = await post(webhook.port, "/jobs/validate", question("/jobs/validate", job(minAvailable=3)), tls)
        assert status == 200
        assert not json.loads(body)["response"]["allowed"]
        rendered = reader.metrics.render().decode()
        assert 'volcano_admission_reviews_total{outcome="denied",path="/jobs/validate"} 1.0' in rendered


async def test_bad_requests_are_refused_as_by_the_api_server(reader: AdmissionReader) -> None:
    async with reader.serving() as webhook:
        assert await wrongly_answered(webhook.port, await reader.trust()) == []


def tfjob(queue: str) -> Json:
    pods = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {
            "runPolicy": {"schedulingPolicy": {"queue": queue}},
            "tfReplicaSpecs": {"Worker": {"replicas": 1, "restartPolicy": "Never", "template": pods}},
        },
    }


@pytest.mark.parametrize(
    ("path", "of"),
    [
        pytest.param("/jobs/validate", lambda queue: job(minAvailable=1, queue=queue), id="a job"),
        pytest.param("/tfjobs/validate", tfjob, id="a training job"),
    ],
)
async def test_a_queue_made_a_moment_ago_is_known(
    reader: AdmissionReader, path: str, of: Callable[[str], Json]
) -> None:
    """The first answer rests on a list from before the queue; a refusal is given on a newer one only."""
    hooks = Hooks(services=(SERVICES[path],))  # nobody is asked about queues, at a port of nobody's
    async with reader.serving(hooks=hooks) as webhook:
        tls = await reader.trust()
        status, body = await post(webhook.port, path, question(path, of("default")), tls)
        assert json.loads(body)["response"]["allowed"]
        await reader.cluster.create(catalog.QUEUE, {**QUEUE, "metadata": {"name": "new"}, "spec": {}})
        status, body = await post(webhook.port, path, question(path, of("new")), tls)
        assert (status, json.loads(body)["response"]["allowed"]) == (200, True)


async def test_a_queue_that_got_a_child_a_moment_ago_stays(reader: AdmissionReader) -> None:
    path = "/queues/validate"
    hooks = Hooks(services=(SERVICES[path],), failure_policy="Ignore")  # nobody answers at its port
    async with reader.serving(hooks=hooks) as webhook:
        tls = await reader.trust()

        async def is_deletable(queue: Json) -> bool:
            asked = question(path, None, operation="DELETE", old=queue, name="above")
            _, body = await post(webhook.port, path, asked, tls)
            return bool(json.loads(body)["response"]["allowed"])

        above: Json = {**QUEUE, "metadata": {"name": "above"}, "spec": {"parent": "root"}}
        await reader.cluster.create(catalog.QUEUE, above)
        assert await is_deletable(above)
        child = {**QUEUE, "metadata": {"name": "child"}, "spec": {"parent": "above"}}
        await reader.cluster.create(catalog.QUEUE, child)
        assert not await is_deletable(above)


async def test_a_new_pod_gets_what_its_autoscaler_recommends(reader: AdmissionReader) -> None:
    """Every read is made for the question; what is not there leaves the pod as it is."""
    path = "/pods/recommended/mutate"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"metadata": {"name": "p", "ownerReferences": [owner]}, "spec": {"containers": [container]}}
    pod = {"apiVersion": "v1", "kind": "Pod", **pod}
    policy = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "3"}}]}
    autoscaler = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "v", "namespace": "default"},
        "spec": {"targetRef": {"kind": "ReplicaSet", "name": "web-1"}, "resourcePolicy": policy},
    }
    advice = {"containerRecommendations": [{"containerName": "main", "target": {"cpu": "4"}}]}
    hooks = Hooks(services=(SERVICES[path],), failure_policy="Ignore")  # nobody answers at its port
    async with reader.serving(hooks=hooks) as webhook:
        tls = await reader.trust()

        async def patch(pod: Json = pod) -> Any:
            status, body = await post(webhook.port, path, question(path, pod), tls)
            response = json.loads(body)["response"]
            assert (status, response["allowed"]) == (200, True)
            return json.loads(base64.b64decode(response["patch"])) if "patch" in response else None

        assert await patch() is None
        await reader.cluster.create(catalog.VERTICALPODAUTOSCALER, autoscaler, "default")
        assert "vpaUpdates" not in json.dumps(await patch())
        status = {"status": {"recommendation": advice}}
        await reader.cluster.patch(catalog.VERTICALPODAUTOSCALER, "v", "default", status, subresource="status")
        text = json.dumps(await patch())
        assert '{"cpu": "3"}' in text or '"value": "3"' in text
        assert "container 0: cpu capped to maxAllowed, cpu request" in text
        assert await patch({**pod, "metadata": {"name": "alone"}}) is None


@pytest.mark.parametrize(
    ("path", "body", "kind", "status"),
    [
        pytest.param("/jobs/validate", b"nonsense", "application/json", 400, id="no review"),
        pytest.param("/jobs/validate", b"x" * (3 * 1024 * 1024 + 1), "application/json", 413, id="too large"),
        pytest.param("/jobs/validate", b"{}", "text/plain", 200, id="another content type gets nothing"),
        pytest.param("/nothing", b"{}", "application/json", 404, id="no such service"),
    ],
)
async def test_what_cannot_be_answered(reader: AdmissionReader, path: str, body: bytes, kind: str, status: int) -> None:
    async with reader.serving() as webhook:
        found, _ = await post(webhook.port, path, body, await reader.trust(), kind)
        assert found == status


async def test_a_lost_configuration_and_a_lost_secret_come_back(reader: AdmissionReader) -> None:
    name = "volcano-admission-service-queues-mutate"
    async with reader.serving(refresh_seconds=0.02):
        await reader.cluster.delete(catalog.MUTATINGWEBHOOKCONFIGURATION, name)
        await reader.cluster.delete(catalog.SECRET, "certs", "default")
        while True:
            with contextlib.suppress(Exception):
                secret = await reader.cluster.get(catalog.SECRET, "certs", "default")
                found = await reader.cluster.get(catalog.MUTATINGWEBHOOKCONFIGURATION, name)
                if found["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]:
                    break
            await asyncio.sleep(0.01)


async def test_replicas_share_one_secret(reader: AdmissionReader) -> None:
    served = await asyncio.gather(*(reader.certificates().current() for _ in range(5)))
    assert len({one.ca_bundle for one in served}) == 1
    assert len({one.pair.certificate for one in served}) == 1


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tls\.crt: No such file"):
        await FileCertificates(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt").current()


def test_the_admission_configuration_is_read_and_followed(tmp_path: Path) -> None:
    path = tmp_path / "admission.conf"
    path.write_text(
        "resourceGroups:\n- resourceGroup: g\n  object: {key: namespace, value: [ns]}\n  schedulerName: a\n"
    )
    file = GroupsFile(path)
    options = ChainOptions(resource_groups=file.first())
    assert options.resource_groups is not None
    assert options.resource_groups[0].matches("ns", {})
    assert file.newer(options) is None
    path.write_text("resourceGroups: 5")
    assert file.newer(options) is None  # wrong: the old one stays
    path.write_text("resourceGroups: []")
    newer = file.newer(options)
    assert newer is not None
    assert newer.resource_groups == ()


def test_all_problems_of_the_admission_configuration_come_at_once() -> None:
    text = "resourceGroups: [{object: {}}, {resourceGroup: g, object: {key: label}, affinity: '{', tolerations: 5}]"
    with pytest.raises(InvalidInput) as caught:
        read_groups(text, "a.conf")
    assert [problem.where for problem in caught.value.problems] == [
        "a.conf: resourceGroups[0]",
        "a.conf: resourceGroups[1].object.key",
        "a.conf: resourceGroups[1].affinity",
        "a.conf: resourceGroups[1].tolerations",
    ]
    for member, bad in (("labels", "[a]"), ("tolerations", "[{}, 5]"), ("object", "{key: namespace, value: ns}")):
        group = {"resourceGroup": "g", "object": "{key: namespace}", member: bad}
        with pytest.raises(InvalidInput) as caught:
            read_groups(f"resourceGroups: [{{{', '.join(f'{key}: {text}' for key, text in group.items())}}}]", "a.conf")
        [problem] = caught.value.problems
        assert problem.where.startswith(f"a.conf: resourceGroups[0].{member}")
