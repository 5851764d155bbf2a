"""The webhook configurations: which requests a cluster sends to the webhook, and what happens if it does not answer.

Requests about Volcano's and Strato's kinds fail without an answer (``failurePolicy: Fail``, as in Volcano's chart).
Requests about pods and nodes are admitted without one, and only sent if a rule could change or refuse them. Updates
that change neither ``spec`` nor the annotations that rules read are not sent either, so that finalizers can be removed
while the webhook is down.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from strato.admission import queueacls, queueplacement
from strato.admission.pods import GATE, MAX_UNAVAILABLE, MIN_AVAILABLE
from strato.admission.queues import HIERARCHY, WEIGHTS
from strato.admission.recommendations import PATH as RECOMMENDED
from strato.admission.request import Operation
from strato.admission.webhook.services import SERVICES, WebhookService
from strato.api import catalog
from strato.api.amplification import RATIO, RAW
from strato.api.meta import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """Address at which the API server calls the webhook: a service of the cluster, or a URL."""

    namespace: str = ""
    service: str = ""
    port: int = 443
    url: str = ""
    """``https://host:port``, without a path; it wins over the service."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that the webhook's certificate must contain."""
        if self.url:
            host = self.url.split("://", 1)[-1].split("/", 1)[0]
            return (host.rpartition(":")[0].strip("[]") or host,)
        return tuple(f"{self.service}.{self.namespace}{end}" for end in (".svc", "", ".svc.cluster.local"))

    def client_config(self, path: str, ca_bundle: bytes) -> Json:
        """Return ``clientConfig`` of a webhook; without a bundle yet it is left out."""
        config: Json
        if self.url:
            config = {"url": self.url.rstrip("/") + path}
        else:
            config = {"service": {"namespace": self.namespace, "name": self.service, "path": path, "port": self.port}}
        if ca_bundle:
            config["caBundle"] = base64.b64encode(ca_bundle).decode()
        return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Options that decide which requests are sent to the webhook."""

    services: tuple[WebhookService, ...] = tuple(SERVICES.values())
    scheduler_names: tuple[str, ...] = ("volcano",)
    excluded_namespaces: tuple[str, ...] = ("kube-system", "volcano-system")
    part_namespaces: tuple[str, ...] = queueacls.PART_NAMESPACES
    """Namespaces of the cluster's own components; queues' access lists do not apply to their service accounts."""
    failure_policy: str = "Fail"
    """For Volcano's and Strato's kinds; pods are always admitted when the webhook does not answer."""
    resource_groups: bool = False
    """Whether there is an admission configuration; without one only pods that ask for the queue's gate are sent."""


def configurations(hooks: Hooks, endpoint: WebhookEndpoint, ca_bundle: bytes = b"") -> list[Json]:
    """Return one configuration per service, ready to be created."""
    return [_configuration(service, hooks, endpoint, ca_bundle) for service in hooks.services]


def _configuration(service: WebhookService, hooks: Hooks, endpoint: WebhookEndpoint, ca_bundle: bytes) -> Json:
    kind = service.kind
    webhook: Json = {
        "name": service.webhook,
        "clientConfig": endpoint.client_config(service.path, ca_bundle),
        "rules": [
            {
                "operations": [operation.value for operation in service.operations],
                "apiGroups": [kind.group],
                "apiVersions": [kind.version],
                "resources": [f"{kind.plural}/{service.subresource}" if service.subresource else kind.plural],
                "scope": "Namespaced" if kind.namespaced else "Cluster",
            }
            for kind in service.kinds
        ],
        "failurePolicy": "Ignore" if kind in (catalog.POD, catalog.NODE) else hooks.failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": service.timeout_seconds,
        "admissionReviewVersions": ["v1"],
    }
    if kind.namespaced and hooks.excluded_namespaces:
        excluded = {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": list(dict.fromkeys(hooks.excluded_namespaces)),
        }
        webhook["namespaceSelector"] = {"matchExpressions": [excluded]}
    conditions = _conditions(service, hooks)
    if conditions:
        webhook["matchConditions"] = [
            {"name": name, "expression": expression} for name, expression in conditions.items()
        ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration" if service.mutates else "ValidatingWebhookConfiguration",
        "metadata": {"name": service.configuration, "labels": {"app.kubernetes.io/part-of": "volcano"}},
        "webhooks": [webhook],
    }


def _conditions(service: WebhookService, hooks: Hooks) -> dict[str, str]:
    """Return CEL expressions that must all hold for a request to be sent."""
    if service.path in (queueacls.NOTE, queueacls.JUDGE, queueplacement.PATH):
        trusted = json.dumps(sorted(queueacls.trusted_groups(hooks.part_namespaces)))
        return {"is-a-users": f"!request.userInfo.groups.exists(group, group in {trusted})"}
    if service.path == "/pods/validate":
        names = json.dumps(list(hooks.scheduler_names), ensure_ascii=False)
        return {
            "scheduled-by-us": f"has(object.spec.schedulerName) && object.spec.schedulerName in {names}",
            "has-a-budget": "has(object.metadata.annotations) && "
            f"({_any_of((MIN_AVAILABLE, MAX_UNAVAILABLE), 'object')})",
        }
    if service.path == "/pods/mutate":
        return {} if hooks.resource_groups else {"asks-for-the-gate": f'{_annotation("object", GATE)} == "true"'}
    if service.path == RECOMMENDED:
        return {"is-managed": "has(object.metadata.ownerReferences)"}
    if service.path == "/podgroups/mutate":  # a namespace's queue only applies to groups that name none
        unnamed = "!has(object.spec) || !has(object.spec.queue)"
        return {"names-no-queue-of-its-own": f'{unnamed} || object.spec.queue == "default"'}
    if service.path == "/nodes/mutate":  # kubelets write every ten seconds
        annotated = f"has(object.metadata.annotations) && ({_any_of((RATIO, RAW), 'object')})"
        return {"is-amplified": annotated}
    if service.path == "/nodes/validate":
        metadata = ("annotations", "labels")
        stays = " && ".join(
            f"has(object.metadata.{one}) == has(oldObject.metadata.{one}) && "
            f"(!has(object.metadata.{one}) || object.metadata.{one} == oldObject.metadata.{one})"
            for one in metadata
        )
        return {"changes-what-is-judged": f'request.operation != "UPDATE" || !({stays})'}
    if Operation.UPDATE not in service.operations:
        return {}
    changed = "has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)"
    if service.kind is catalog.QUEUE:
        changed += "".join(f" || {_annotation('object', key)} != {_annotation('oldObject', key)}" for key in _HIERARCHY)
    return {"changes-what-is-judged": f'request.operation != "UPDATE" || {changed}'}


_HIERARCHY = (HIERARCHY, WEIGHTS)


def _annotation(place: str, key: str) -> str:
    has = f'has({place}.metadata.annotations) && "{key}" in {place}.metadata.annotations'
    return f'({has} ? {place}.metadata.annotations["{key}"] : "")'


def _any_of(keys: Sequence[str], place: str) -> str:
    return " || ".join(f'"{key}" in {place}.metadata.annotations' for key in keys)
