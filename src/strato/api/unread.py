"""Views of kinds of which components read only the metadata as a typed view; they read the rest as JSON, if at all."""

from __future__ import annotations

from strato.api.meta import Object


class APIService(Object, frozen=True, kw_only=True):
    """A group version, and the service that serves it."""


class ClusterRole(Object, frozen=True, kw_only=True):
    """Permissions in the cluster."""


class ClusterRoleBinding(Object, frozen=True, kw_only=True):
    """Grants a cluster role everywhere."""


class Event(Object, frozen=True, kw_only=True):
    """The same stored object as ``v1.Event`` with other member names; no component reads it in this form."""


class FlowSchema(Object, frozen=True, kw_only=True):
    """Which requests belong to which priority level."""


class HorizontalPodAutoscaler(Object, frozen=True, kw_only=True):
    """The same stored object as in autoscaling/v2; no component reads it in this form."""


class Ingress(Object, frozen=True, kw_only=True):
    """Rules for traffic from outside; stored for clients, without a controller here."""


class IngressClass(Object, frozen=True, kw_only=True):
    """A class of ingress controllers."""


class IPAddress(Object, frozen=True, kw_only=True):
    """A cluster IP that is in use, and the object that uses it; its name is the address."""


class LocalSubjectAccessReview(Object, frozen=True, kw_only=True):
    """May that user do this in this namespace."""


class MutatingAdmissionPolicy(Object, frozen=True, kw_only=True):
    """A policy in CEL that changes objects."""


class MutatingAdmissionPolicyBinding(Object, frozen=True, kw_only=True):
    """Where such a policy applies."""


class MutatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Webhooks that change objects."""


class NetworkPolicy(Object, frozen=True, kw_only=True):
    """Which pods may talk to which."""


class PriorityLevelConfiguration(Object, frozen=True, kw_only=True):
    """A share of the API server."""


class Role(Object, frozen=True, kw_only=True):
    """Permissions in a namespace."""


class RoleBinding(Object, frozen=True, kw_only=True):
    """Grants a role in a namespace."""


class RuntimeClass(Object, frozen=True, kw_only=True):
    """Overhead and node selection of pods of a runtime; admission reads it as JSON."""


class SelfSubjectAccessReview(Object, frozen=True, kw_only=True):
    """May I do this."""


class SelfSubjectReview(Object, frozen=True, kw_only=True):
    """Who am I."""


class SelfSubjectRulesReview(Object, frozen=True, kw_only=True):
    """What may I do."""


class ServiceCIDR(Object, frozen=True, kw_only=True):
    """Ranges that cluster IPs are given out from."""


class SubjectAccessReview(Object, frozen=True, kw_only=True):
    """May that user do this."""


class TokenReview(Object, frozen=True, kw_only=True):
    """Whose token is this."""


class ValidatingAdmissionPolicy(Object, frozen=True, kw_only=True):
    """A policy in CEL."""


class ValidatingAdmissionPolicyBinding(Object, frozen=True, kw_only=True):
    """Where a policy applies."""


class ValidatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Webhooks that judge objects."""


class VolumeAttributesClass(Object, frozen=True, kw_only=True):
    """Parameters with which a driver changes volumes; stored for clients, without a controller here."""
