"""Applies namespaces' pod security policies to requests: refuses pods, warns about workloads and namespaces.

Source: Kubernetes' Pod Security Admission.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from strato.admission.podsecurity.checks import (
    APPARMOR_ANNOTATION,
    SECCOMP_CONTAINER_ANNOTATION,
    SECCOMP_POD_ANNOTATION,
    describe,
    violations,
)
from strato.admission.podsecurity.policy import PREFIX, NamespaceStandards, PodSecurityLevel, Standard, policy_of
from strato.admission.request import AdmissionReader, AdmissionRequest, Json, Operation
from strato.api import catalog
from strato.api.status import forbidden, invalid

_CHECKED_PODS = 3000
"""Most existing pods that are checked against a new policy of their namespace."""
_TEMPLATES = {catalog.CRONJOB: ("spec", "jobTemplate", "spec", "template"), catalog.PODTEMPLATE: ("template",)}
"""Paths of pod templates in workloads that do not have them at ``spec.template``."""


def validate_pod(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a pod that violates the standard its namespace enforces; warn about violations of the one it warns about.

    Raises:
        Forbidden: In Kubernetes' wording, with every violation.
    """
    policy, pod = _policy(request, reader), request.object
    assert pod is not None
    if policy.is_privileged or (request.old_object is not None and not _images_changed(pod, request.old_object)):
        return
    broken = _judge((policy.enforce, policy.audit, policy.warn), pod["metadata"], pod["spec"])
    request.audit_annotations[f"{PREFIX}enforce-policy"] = str(policy.enforce)
    _audit(request, policy, broken)
    if broken[policy.enforce]:
        text = f'violates PodSecurity "{policy.enforce}": {broken[policy.enforce]}'
        raise forbidden(request.kind, request.name, text)
    _warn(request, policy, broken)


def validate_workload(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Warn about a workload whose pods will violate the policy of its namespace. Changes and refuses nothing."""
    policy = _policy(request, reader)
    if not (policy.warn.level or policy.audit.level):
        return
    for template in _templates(request):
        broken = _judge((policy.audit, policy.warn), template.get("metadata") or {}, template.get("spec") or {})
        _audit(request, policy, broken)
        _warn(request, policy, broken)


def validate_namespace(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse labels that cannot be read; name the existing pods that break a stricter policy.

    Raises:
        Invalid: All problems of the labels at once.
    """
    assert request.object is not None
    policy, causes = policy_of(request.object["metadata"].get("labels"))
    before, causes_before = NamespaceStandards(), causes[:0]
    if request.old_object is not None:
        before, causes_before = policy_of(request.old_object["metadata"].get("labels"))
    if causes and causes != causes_before:
        raise invalid(catalog.NAMESPACE, request.name, causes)
    if request.operation != Operation.UPDATE or policy.enforce == before.enforce:
        return
    is_relaxed = policy.enforce.minor == before.enforce.minor and policy.enforce.level <= before.enforce.level
    if policy.enforce.level is not PodSecurityLevel.PRIVILEGED and not is_relaxed:
        request.warnings += _existing_violations(request.name, policy.enforce, reader)


def has_no_profile_annotations(request: AdmissionRequest) -> bool:
    """Return whether a pod has no annotations that the checks read, so that they depend on its spec alone."""
    assert request.object is not None
    annotations = request.object["metadata"].get("annotations")
    return not annotations or not any(
        key.startswith((APPARMOR_ANNOTATION, SECCOMP_CONTAINER_ANNOTATION)) or key == SECCOMP_POD_ANNOTATION
        for key in annotations
    )


def _policy(request: AdmissionRequest, reader: AdmissionReader) -> NamespaceStandards:
    namespace = reader.get(catalog.NAMESPACE, "", request.namespace)
    return policy_of(None if namespace is None else namespace["metadata"].get("labels"))[0]


def _images_changed(pod: Json, before: Json) -> bool:
    """Return whether an update of a pod changes anything that a check could read: containers, or their images."""
    members = ("initContainers", "containers", "ephemeralContainers")
    new, old = (
        [(member, c.get("name"), c.get("image")) for member in members for c in one["spec"].get(member) or ()]
        for one in (pod, before)
    )
    return new != old


def _templates(request: AdmissionRequest) -> Iterator[Json]:
    place: object = request.object
    if request.kind is catalog.VCJOB:
        assert request.object is not None
        yield from (task.get("template") or {} for task in request.object["spec"].get("tasks") or ())
        return
    for member in _TEMPLATES.get(request.kind, ("spec", "template")):
        place = place.get(member) if isinstance(place, dict) else None
    if isinstance(place, dict):
        yield place


def _judge(standards: Iterable[Standard], metadata: Json, spec: Json) -> dict[Standard, str]:
    """Return a pod's violations of each standard, as one line; modes with the same standard share the result."""
    return {standard: describe(violations(standard, metadata, spec)) for standard in set(standards)}


def _audit(request: AdmissionRequest, policy: NamespaceStandards, broken: Mapping[Standard, str]) -> None:
    if broken[policy.audit]:
        text = f'would violate PodSecurity "{policy.audit}": {broken[policy.audit]}'
        request.audit_annotations[f"{PREFIX}audit-violations"] = text


def _warn(request: AdmissionRequest, policy: NamespaceStandards, broken: Mapping[Standard, str]) -> None:
    if broken[policy.warn]:
        text = f'would violate PodSecurity "{policy.warn}": {broken[policy.warn]}'
        if text not in request.warnings:
            request.warnings.append(text)


def _existing_violations(namespace: str, standard: Standard, reader: AdmissionReader) -> list[str]:
    """Return warnings about the pods of a namespace, those with the same violations on one line."""
    pods = reader.list(catalog.POD, namespace)
    broken: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods[:_CHECKED_PODS]:
        found = violations(standard, pod["metadata"], pod["spec"])
        if found:
            broken[", ".join(violation.reason for violation in found)].append(pod["metadata"]["name"])
    warnings = []
    if len(pods) > _CHECKED_PODS:
        warnings.append(
            f"new PodSecurity enforce level only checked against the first {_CHECKED_PODS} of {len(pods)} existing pods"
        )
    if broken:
        warnings.append(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"'
        )
    return warnings + sorted(f"{_first_of(sorted(names))}: {reasons}" for reasons, names in broken.items())


def _first_of(names: list[str]) -> str:
    others = len(names) - 1
    return names[0] if not others else f"{names[0]} (and {others} other {'pod' if others == 1 else 'pods'})"
