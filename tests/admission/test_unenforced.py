"""What nothing comes of is said in the answer: served kinds and fields of pods are done by somebody, or warned of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec import inspect

from strato.admission import AdmissionRequest, Chain, ChainOptions, unenforced
from strato.admission.unenforced import FIELDS, KINDS, Each, Field, Tree
from strato.api import apps, batch, catalog
from strato.api.core import container, pod, volumes
from strato.api.kinds import Kind
from strato.api.meta import View
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from strato.server.schema import shapes
from tests.server.asking import MERGE, Client

DONE: Mapping[str, str] = {
    "server": "Binding ComponentStatus Namespace Event PodTemplate ServiceAccount CustomResourceDefinition APIService "
    "SelfSubjectReview TokenReview LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
    "SubjectAccessReview ClusterRole ClusterRoleBinding Role RoleBinding FlowSchema PriorityLevelConfiguration Lease "
    "MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding NodeMetrics PodMetrics "
    "ServiceCIDR IPAddress",
    "admission": "LimitRange ResourceQuota RuntimeClass",
    "controllers": "DaemonSet Deployment ReplicaSet ReplicationController StatefulSet CronJob Job "
    "ControllerRevision Endpoints EndpointSlice CertificateSigningRequest "
    "PodDisruptionBudget HorizontalPodAutoscaler Service Command JobFlow JobTemplate HyperNode "
    "TFJob PyTorchJob XGBoostJob PaddleJob JAXJob MPIJob TrainJob TrainingRuntime ClusterTrainingRuntime "
    "VerticalPodAutoscaler VerticalPodAutoscalerCheckpoint",
    "scheduler": "Queue PodGroup PriorityClass Node Numatopology NodeShard DeviceClass ResourceClaim ResourceSlice "
    "CSINode CSIStorageCapacity StorageClass PersistentVolume PersistentVolumeClaim",
    "nodes": "Pod ConfigMap Secret",
}
"""Who acts on the kinds that are not warned of."""


def test_every_served_kind_is_done_by_somebody_or_warned_of() -> None:
    done = {name for names in DONE.values() for name in names.split()}
    warned = {kind.name for kind in KINDS}
    served = {kind.name for kind in (*catalog.BUILTIN, *catalog.CUSTOM)}
    assert done | warned == served
    assert not done & warned


UNREAD: Mapping[str, tuple[type[View], Kind, str, str]] = {
    # a shape, the view that reads it, and where it is in which kind's tree
    "core.v1.PodSpec": (pod.PodSpec, catalog.POD, "spec", "serviceAccount"),
    "core.v1.Container": (container.Container, catalog.POD, "spec.containers", "stdinOnce"),
    "core.v1.Probe": (container.Probe, catalog.POD, "", ""),
    "core.v1.Lifecycle": (container.Lifecycle, catalog.POD, "spec.containers.lifecycle", ""),
    "core.v1.LifecycleHandler": (container.LifecycleHandler, catalog.POD, "spec.containers.lifecycle", ""),
    "core.v1.SecurityContext": (
        container.SecurityContext,
        catalog.POD,
        "spec.containers.securityContext",
        "windowsOptions",
    ),
    "core.v1.PodSecurityContext": (
        pod.PodSecurityContext,
        catalog.POD,
        "spec.securityContext",
        "windowsOptions seLinuxChangePolicy",
    ),
    "core.v1.VolumeMount": (volumes.VolumeMount, catalog.POD, "spec.containers.volumeMounts", ""),
    "core.v1.Volume": (volumes.Volume, catalog.POD, "spec.volumes", ""),
    "apps.v1.DeploymentSpec": (apps.DeploymentSpec, catalog.DEPLOYMENT, "spec", ""),
    "apps.v1.StatefulSetSpec": (apps.StatefulSetSpec, catalog.STATEFULSET, "spec", ""),
    "apps.v1.DaemonSetSpec": (apps.DaemonSetSpec, catalog.DAEMONSET, "spec", ""),
    "batch.v1.JobSpec": (batch.JobSpec, catalog.JOB, "spec", ""),
    "batch.v1.CronJobSpec": (batch.CronJobSpec, catalog.CRONJOB, "spec", ""),
    "core.v1.PersistentVolumeClaimSpec": (
        volumes.PersistentVolumeClaimSpec,
        catalog.PERSISTENTVOLUMECLAIM,
        "spec",
        "",
    ),
}  # fmt: skip -- a table
"""The last word: fields that are refused (windowsOptions: of Linux), the old name of another, or
that change nothing where there is nothing to change."""


@pytest.mark.parametrize("shape", UNREAD)
def test_every_field_that_nobody_reads_is_warned_of(shape: str) -> None:
    view, kind, path, fine = UNREAD[shape]
    known = shapes.load().types
    (name,) = (one for one in known if one.endswith(f".{shape}"))
    read = {field.encode_name for field in inspect.type_info(view).fields}  # type: ignore[attr-defined]  # it has it
    assert set(known[name]) - read - set(fine.split()) <= set(_tree(kind, path)), (
        "say it in unenforced.FIELDS, or read it"
    )


def _tree(kind: Kind, path: str) -> Tree:
    tree = FIELDS[kind]
    if not path:  # all of it is done
        return {}
    for word in path.split("."):
        below = tree[word]
        tree = below.tree if isinstance(below, Each) else below
    return tree


def _fields(tree: Tree, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Field]]:
    for key, below in tree.items():
        if isinstance(below, Field):
            yield (*path, key), below
        elif isinstance(below, Each):
            yield from _fields(below.tree, (*path, key, 0))
        else:
            yield from _fields(below, (*path, key))


SAMPLES: Mapping[str, tuple[Any, Any]] = {
    # a value that is warned of, and one that is not, where it is not just any value and none
    "mountPropagation": ("Bidirectional", "None"),
    "recursiveReadOnly": ("Enabled", "Disabled"),
    "os.name": ("windows", "linux"),
    "managedBy": ("kueue.x-k8s.io/multikueue", "kubernetes.io/job-controller"),
    "podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
    "progressDeadlineSeconds": (60, 600),
    "whenScaled": ("Delete", "Retain"),
    "spec.externalIPs": (["192.0.2.1"], []),
    "spec.type": ("LoadBalancer", "NodePort"),
    "provisioner": ("csi.example.com", "kubernetes.io/no-provisioner"),
    "unhealthyPodEvictionPolicy": ("AlwaysAllow", "IfHealthyBudget"),
    "type": ("kubernetes.io/service-account-token", "Opaque"),
    "strategy": ("Webhook", "None"),
}
CASES = [(kind, path, field) for kind, tree in FIELDS.items() for path, field in _fields(tree)]


def _sample(kind: Kind, path: tuple[Any, ...]) -> tuple[Any, Any]:
    return SAMPLES.get(".".join(map(str, path[-2:])), SAMPLES.get(path[-1], ({"x": 1}, None)))


def _object(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    for word in reversed(path):
        value = [value] if word == 0 else {word: value}
    assert isinstance(value, dict)
    return {"metadata": {"name": "x"}, **value}


def _warnings(kind: Kind, obj: dict[str, Any], chain: Chain | None = None, **more: Any) -> list[str]:
    request = AdmissionRequest("CREATE", kind, "default", "x", obj, warnings=[], **more)
    unenforced.warn(request, None)  # type: ignore[arg-type]  # it reads nothing
    return request.warnings


@pytest.mark.parametrize(
    ("kind", "path", "field"), CASES, ids=[f"{kind.name} {'.'.join(map(str, path))}" for kind, path, _ in CASES]
)
def test_a_field_is_warned_of_by_its_path(kind: Kind, path: tuple[Any, ...], field: Field) -> None:
    warned, fine = _sample(kind, path)
    place = "".join(f"[{word}]" if word == 0 else f".{word}" for word in path)[1:]
    assert _warnings(kind, _object(path, warned)) == [f"{place}: stored, but {field.says}"]
    assert _warnings(kind, _object(path, fine)) == []
    assert _warnings(kind, _object(path, warned), subresource="status") == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_of_which_nothing_comes_is_warned_of(kind: Kind) -> None:
    assert _warnings(kind, {"metadata": {"name": "x"}}) == [f"{kind.name}: stored, but {KINDS[kind]}"]


def test_odd_shapes_are_passed_over_and_long_lists_cut_off() -> None:
    for spec in ([], {"containers": {}}, {"containers": [1, None]}, {"securityContext": [3]}, {"volumes": "x"}):
        assert _warnings(catalog.POD, {"metadata": {}, "spec": spec}) == []
    mounts = [{"mountPropagation": "Bidirectional"} for _ in range(1, 40)]
    found = _warnings(catalog.POD, {"metadata": {}, "spec": {"containers": [{"volumeMounts": mounts}]}})
    assert (len(found), found[-1]) == (13, "and 27 more of these")


def test_behind_a_webhook_nothing_is_said() -> None:
    """There it is a real cluster."""
    chain = Chain(ChainOptions(built_in_plugins=False))
    assert not chain.has_rules(catalog.NETWORKPOLICY, "CREATE")
    assert Chain().has_rules(catalog.NETWORKPOLICY, "UPDATE")


def _header(answer: Any) -> str:
    assert answer.status < 300, answer.body
    return str((answer.headers or {}).get("warning", ""))


async def test_the_server_says_it_in_a_header_however_it_got_there() -> None:
    client = Client(in_memory_server(VirtualClock()))
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    body = {"metadata": {"name": "p"}, "spec": {"podSelector": {}}}
    text = '299 - "NetworkPolicy: stored, but nothing enforces it on this cluster: pods reach one another"'
    assert _header(await client.send("POST", policies, body)) == text
    assert _header(await client.send("PATCH", f"{policies}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE)) == text
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "x"}], "securityContext": {"seLinuxOptions": {"level": "s0"}}}
    for number in range(4):  # from the third on equal pods come from the cache
        plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}
        assert "spec.securityContext.seLinuxOptions: stored, but" in _header(await client.send("POST", pods, plain))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    for number in range(4):
        owned = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"o{number}", "ownerReferences": [owner]},
            "spec": spec,
        }
        assert _header(await client.send("POST", pods, owned)) == ""
    late = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late"}, "spec": spec}
    assert "spec.securityContext.seLinuxOptions: stored, but" in _header(await client.send("POST", pods, late))
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": spec}}]},
    }
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    await client.ask("POST", "/apis/scheduling.volcano.sh/v1beta1/queues", queue | {"spec": {"weight": 1}})
    jobs = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
    for name in ("j1", "j2", "j3"):
        said = _header(await client.send("POST", jobs, json.loads(json.dumps(job | {"metadata": {"name": name}}))))
        assert "spec.tasks[0].template.spec.securityContext.seLinuxOptions" in said
