"""Rules of pods: their spec on creation, and the changes that are allowed afterwards."""

from __future__ import annotations

from typing import Any

from strato.api.meta import Json
from strato.api.status import forbidden_field, invalid_value
from strato.api.validation.podspec import validate_pod_spec
from strato.api.validation.security import validate_seccomp_annotations
from strato.errors import Cause

_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_FREE = frozenset(
    {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates", "containers"}
    | {"initContainers"}
)
_GATED = frozenset({"nodeSelector", "affinity"})
"""Members that may be narrowed while the pod has scheduling gates."""


def validate_pod(pod: Json) -> list[Cause]:
    """Check a new pod after defaulting and admission."""
    causes: list[Cause] = []
    spec = pod.get("spec") or {}
    validate_pod_spec(spec, "spec", causes)
    if spec.get("ephemeralContainers"):
        causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        causes.append(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes


def validate_pod_annotations(pod: Json) -> list[Cause]:
    """Check the annotations of a new pod that are about its containers."""
    causes: list[Cause] = []
    annotations = pod["metadata"].get("annotations")
    if annotations:
        validate_seccomp_annotations(annotations, "metadata.annotations", causes)
    return causes


def validate_pod_update(pod: Json, old: Json) -> list[Cause]:
    """Check a change of a pod; an unchanged spec (every status write) costs one comparison."""
    new_spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    if new_spec is old_spec or new_spec == old_spec:
        return []
    causes: list[Cause] = []
    validate_pod_spec(new_spec, "spec", causes)
    for section in ("containers", "initContainers"):
        if len(new_spec.get(section) or ()) != len(old_spec.get(section) or ()):
            causes.append(forbidden_field(f"spec.{section}", "pod updates may not add or remove containers"))
            return causes
    deadline = new_spec.get("activeDeadlineSeconds")
    too_late = _deadline_causes(deadline, old_spec.get("activeDeadlineSeconds"))
    causes += too_late
    if too_late and deadline is not None:
        return causes  # a real server looks no further either
    causes += _toleration_causes(new_spec.get("tolerations") or [], old_spec.get("tolerations") or [])
    causes += _gate_causes(new_spec.get("schedulingGates") or [], old_spec.get("schedulingGates") or [])
    if not _same_but_free(new_spec, old_spec):
        causes.append(forbidden_field("spec", _FIXED))
    return causes


def _same_but_free(new_spec: Json, old_spec: Json) -> bool:
    """Whether two specs, with as many containers each, differ only in what may change."""
    free = _FREE | _GATED if old_spec.get("schedulingGates") else _FREE
    if any(new_spec.get(name) != old_spec.get(name) for name in (new_spec.keys() | old_spec.keys()) - free):
        return False
    grace, old_grace = (spec.get("terminationGracePeriodSeconds") for spec in (new_spec, old_spec))
    if grace != old_grace and not (grace == 1 and (old_grace or 0) < 0):
        return False
    return all(
        _same_but_images(new_spec.get(section) or (), old_spec.get(section) or ())
        for section in ("containers", "initContainers")
    )


def _same_but_images(new: Any, old: Any) -> bool:
    for mine, theirs in zip(new, old, strict=True):
        if mine != theirs and {**mine, "image": ""} != {**theirs, "image": ""}:
            return False
    return True


def _deadline_causes(new: int | None, old: int | None) -> list[Cause]:
    if new is not None and new < 0:
        return [invalid_value("spec.activeDeadlineSeconds", new, "must be between 0 and 2147483647, inclusive")]
    if new == old or (new is not None and (old is None or new < old)):
        return []
    if new is None:
        return [
            invalid_value("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
        ]
    return [invalid_value("spec.activeDeadlineSeconds", new, "must be less than or equal to previous value")]


def _toleration_causes(new: list[Json], old: list[Json]) -> list[Cause]:
    """Check that tolerations are only added, except that ``tolerationSeconds`` of an existing one may change."""
    bare = [{key: value for key, value in item.items() if key != "tolerationSeconds"} for item in new]
    for item in old:
        if item not in new and {key: value for key, value in item.items() if key != "tolerationSeconds"} not in bare:
            return [
                forbidden_field(
                    "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
                )
            ]
    return []


def _gate_causes(new: list[Json], old: list[Json]) -> list[Cause]:
    known = {gate.get("name") for gate in old}
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(new)
        if gate.get("name") not in known
    ]
