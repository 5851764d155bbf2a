"""Pod security admission: decisions as Kubernetes 1.36 made them of the same pods, and what requests are answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strato.admission.podsecurity.checks import describe, violations
from strato.admission.podsecurity.policy import policy_of
from strato.api.wire import Request, Response, User
from strato.clock import VirtualClock
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server

Json = dict[str, Any]

RECORDED: list[Json] = json.loads((Path(__file__).parent / "data" / "podsecurity.json").read_text())
"""Random labels and pods (`podsecurity_worlds`) with the answers of k8s.io/pod-security-admission v0.36.3."""

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
SAFE = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
WHY = (
    'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set '
    'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set '
    'securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set '
    'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


@pytest.mark.parametrize("case", RECORDED, ids=map(str, range(len(RECORDED))))
def test_decisions_are_those_of_kubernetes(case: Json) -> None:
    policy, causes = policy_of(case["labels"])
    assert sorted(f"{cause.field}: {cause.message}" for cause in causes) == sorted(case["errors"])
    pod = case["pod"]
    for mode in ("enforce", "audit", "warn"):
        standard = getattr(policy, mode)
        assert [str(standard), describe(violations(standard, pod["metadata"], pod["spec"]))] == case[mode], mode


async def ask(server: ApiServer, method: str, path: str, body: Json, media: str = "application/json") -> Response:
    user = User("admin", ("system:masters",))
    headers = {"content-type": media}
    return await server.handle(Request(method, path, {}, headers, json.dumps(body).encode(), user))


async def label(server: ApiServer, labels: Json) -> Response:
    body = {"metadata": {"labels": labels}}
    return await ask(server, "PATCH", "/api/v1/namespaces/default", body, "application/merge-patch+json")


def pod(name: str, security: Json | None = None, **metadata: Any) -> Json:
    container: Json = {"name": "c", "image": "x"}
    if security is not None:
        container["securityContext"] = security
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [container]},
    }


PODS = "/api/v1/namespaces/default/pods"


async def test_a_pod_that_breaks_the_enforced_standard_is_refused_in_kubernetes_words() -> None:
    server = in_memory_server(VirtualClock())
    assert (await label(server, RESTRICTED)).status == 200
    refused = await ask(server, "POST", PODS, pod("bad"))
    assert refused.status == 403
    status = json.loads(refused.body)
    assert status["message"] == f'pods "bad" is forbidden: {WHY}'
    assert (await ask(server, "POST", PODS, pod("good", SAFE))).status == 201


async def test_pods_alike_are_refused_once_the_namespace_is_restricted() -> None:
    """What is remembered of an admitted pod does not outlive the labels it was admitted under."""
    server = in_memory_server(VirtualClock())
    for number in range(5):
        assert (await ask(server, "POST", PODS, pod(f"before-{number}"))).status == 201
    await label(server, RESTRICTED)
    for number in range(5):
        assert (await ask(server, "POST", PODS, pod(f"after-{number}"))).status == 403
    await label(server, {"pod-security.kubernetes.io/enforce": None})
    assert (await ask(server, "POST", PODS, pod("again"))).status == 201


@pytest.mark.parametrize(
    "key",
    [
        "container.apparmor.security.beta.kubernetes.io/c",
        "seccomp.security.alpha.kubernetes.io/pod",
        "container.seccomp.security.alpha.kubernetes.io/c",
    ],
)
async def test_annotations_of_pods_alike_are_looked_at(key: str) -> None:
    server = in_memory_server(VirtualClock())
    mode = "pod-security.kubernetes.io/enforce"
    await label(server, {mode: "baseline", f"{mode}-version": "v1.18"})  # later ones know fields instead
    for number in range(5):
        assert (await ask(server, "POST", PODS, pod(f"p-{number}", annotations={"x": "y"}))).status == 201
    bad = {key: "unconfined"}
    assert (await ask(server, "POST", PODS, pod("bad", annotations=bad))).status == 403
    bad = {"x": "y", **bad}
    assert (await ask(server, "POST", PODS, pod("bad", annotations=bad))).status == 403


def workloads() -> list[tuple[str, Json]]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    selected = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return [
        ("/apis/apps/v1/namespaces/default/deployments", {"spec": selected}),
        ("/apis/apps/v1/namespaces/default/replicasets", {"spec": selected}),
        ("/apis/apps/v1/namespaces/default/daemonsets", {"spec": selected}),
        ("/apis/apps/v1/namespaces/default/statefulsets", {"spec": {**selected, "serviceName": "s"}}),
        ("/apis/batch/v1/namespaces/default/jobs", {"spec": {"template": once}}),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}},
        ),
        (
            "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs",
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "spec": {"tasks": [{"name": "a", "replicas": 1, "template": once}]},
            },
        ),
    ]


@pytest.mark.parametrize(("path", "body"), workloads(), ids=[path.removeprefix("/apis/") for path, _ in workloads()])
async def test_workloads_are_admitted_with_a_warning(path: str, body: Json) -> None:
    server = in_memory_server(VirtualClock())
    await label(server, RESTRICTED)
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    assert (await ask(server, "POST", "/apis/scheduling.volcano.sh/v1beta1/queues", queue)).status == 201
    made = await ask(server, "POST", path, {"metadata": {"name": "w"}, **body})
    assert made.status == 201, made.body
    assert WHY.removeprefix("violates").replace('"', '\\"') in made.headers["warning"]
    assert made.headers["warning"].startswith('299 - "would violate')


async def test_labels_that_cannot_be_read_are_refused_all_at_once() -> None:
    server = in_memory_server(VirtualClock())
    bad = {"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "2"}
    refused = await label(server, bad)
    assert refused.status == 422
    text = json.loads(refused.body)["message"]
    assert 'Invalid value: "strict": must be one of privileged, baseline, restricted' in text
    assert 'Invalid value: "2": must be "latest" or "v1.x"' in text


async def test_a_stricter_label_names_the_pods_that_break_it() -> None:
    server = in_memory_server(VirtualClock())
    for name in ("b", "a", "c"):
        await ask(server, "POST", PODS, pod(name))
    await ask(server, "POST", PODS, pod("safe", SAFE))
    answer = await label(server, RESTRICTED)
    assert answer.status == 200
    warnings = answer.headers["warning"].split("\n")
    assert len(warnings) == 2
    assert "existing pods in namespace" in warnings[0]
    assert "a (and 2 other pods): allowPrivilegeEscalation != false, unrestricted capabilities" in warnings[1]
    assert "warning" not in (await label(server, RESTRICTED)).headers
