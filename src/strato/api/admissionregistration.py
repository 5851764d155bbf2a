"""Views of admissionregistration.k8s.io/v1."""

from __future__ import annotations

from strato.api.meta import Object, View
from strato.api.shapes import LabelSelector


class WebhookService(View, frozen=True, kw_only=True):
    """The service that answers."""

    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int = 443


class WebhookClientConfig(View, frozen=True, kw_only=True):
    """How to reach a webhook."""

    url: str = ""
    service: WebhookService | None = None
    ca_bundle: str = ""


class RuleWithOperations(View, frozen=True, kw_only=True):
    """Which requests are sent."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class Webhook(View, frozen=True, kw_only=True):
    """One webhook."""

    name: str = ""
    client_config: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str = ""
    timeout_seconds: int = 10
    admission_review_versions: tuple[str, ...] = ()
    reinvocation_policy: str = "Never"


class MutatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Webhooks that change objects."""

    webhooks: tuple[Webhook, ...] = ()


class ValidatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Webhooks that judge objects."""

    webhooks: tuple[Webhook, ...] = ()


class ValidatingAdmissionPolicy(Object, frozen=True, kw_only=True):
    """A policy in CEL; its body is read as JSON."""


class ValidatingAdmissionPolicyBinding(Object, frozen=True, kw_only=True):
    """Where a policy applies; its body is read as JSON."""
