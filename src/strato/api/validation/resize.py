"""Rules of changes of running pods through subresources: resizes in place, ephemeral containers.

Source: ``ValidatePodResize`` and ``ValidatePodEphemeralContainersUpdate`` of Kubernetes 1.36.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from strato.api.defaults.pod import dict_qos_class
from strato.api.meta import Json
from strato.api.pods import MIRROR
from strato.api.status import forbidden_field, invalid_value
from strato.api.validation.containers import RESIZABLE
from strato.api.validation.podspec import validate_pod_spec
from strato.errors import Cause

_SECTIONS = ("requests", "limits")
_ONLY = "only cpu and memory resources are mutable"


def validate_resize(pod: Json, old: Json) -> list[Cause]:
    """Check a change of a pod's resources: cpu and memory of its containers, and of the pod as a whole."""
    if MIRROR in (old["metadata"].get("annotations") or ()):
        return [forbidden_field("[]", "static pods cannot be resized")]
    spec, before = pod["spec"], old["spec"]
    causes: list[Cause] = []
    validate_pod_spec(spec, "spec", causes)
    if dict_qos_class(spec) != ((old.get("status") or {}).get("qosClass") or dict_qos_class(before)):
        quality = (pod.get("status") or {}).get("qosClass") or ""
        causes.append(invalid_value("spec", quality, "Pod QOS Class may not change as a result of resizing"))
    if not _can_be_resized(old):
        causes.append(forbidden_field("spec", "Pod running on node without support for resize"))
    masked = copy.deepcopy(spec)
    causes += _of_pod(masked, before)
    moved = _ordering("containers", spec, before) + _ordering("initContainers", spec, before)
    if moved:
        return causes + moved
    for member in ("initContainers", "containers"):
        for index, (new, was) in enumerate(zip(spec.get(member) or (), before.get(member) or (), strict=True)):
            place = f"spec.{member}[{index}].resources"
            causes += _removed(new.get("resources"), was.get("resources"), place, "resource")
    for member in ("containers", "initContainers"):
        for index, (new, was) in enumerate(zip(masked.get(member) or (), before.get(member) or (), strict=True)):
            is_sidecar = new.get("restartPolicy") == "Always"
            changed = new != was
            new["resources"] = _masked(new.get("resources"), was.get("resources"))
            place = f"spec.{member}[{index}]"
            if new != was and member == "containers":
                causes.append(forbidden_field("spec", _ONLY))
            elif new != was:
                text = "only cpu and memory resources for init or sidecar containers are mutable"
                causes.append(forbidden_field(place, text))
            policies = (new.get("resizePolicy") or ()) if changed and member == "initContainers" else ()
            if not is_sidecar and any(one.get("restartPolicy") == "RestartContainer" for one in policies):
                text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                causes.append(forbidden_field(place, text))
    if not causes and masked != before:
        causes.append(forbidden_field("spec", _ONLY))
    return causes


def validate_ephemeral_containers_update(pod: Json, old: Json) -> list[Cause]:
    """Check a change of a pod's ephemeral containers: they may be added, but existing ones may not change."""
    if MIRROR in (old["metadata"].get("annotations") or ()):
        return [forbidden_field("[]", "static pods do not support ephemeral containers")]
    causes: list[Cause] = []
    validate_pod_spec(pod["spec"], "spec", causes)
    field = "spec.ephemeralContainers"
    now = {one.get("name"): one for one in pod["spec"].get("ephemeralContainers") or ()}
    for was in old["spec"].get("ephemeralContainers") or ():
        name = was["name"]
        if name not in now:
            causes.append(forbidden_field(field, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif now[name] != was:
            causes.append(forbidden_field(field, f'existing ephemeral containers "{name}" may not be changed\n'))
    return causes


def _can_be_resized(old: Json) -> bool:
    """Return whether the pod's node supports resizes: then its status has the resources of running containers."""
    for status in (old.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _of_pod(masked: Json, before: Json) -> list[Cause]:
    """Check the pod-level resources, and reset in ``masked`` those members of them that may change."""
    new, was = masked.get("resources"), before.get("resources")
    if not any(one and any(one.get(section) for section in _SECTIONS) for one in (new, was)):
        return []
    if was is not None and new is None:
        return [forbidden_field("spec.resources", "pod-level resources cannot be removed")]
    causes = _removed(new, was, "spec.resources", "pod-level resource")
    kept = _masked(new, was)
    if kept or was is not None:
        masked["resources"] = kept
    else:
        del masked["resources"]
    if masked.get("resources") != was:
        causes.append(forbidden_field("spec", "only cpu and memory resources are mutable at pod-level"))
    return causes


def _ordering(member: str, spec: Json, before: Json) -> list[Cause]:
    new, old = ([one.get("name") for one in of.get(member) or ()] for of in (spec, before))
    if len(new) != len(old):
        return [forbidden_field(f"spec.{member}", f"{member} may not be added or removed on resize")]
    text = f"{member} may not be renamed or reordered on resize"
    return [
        forbidden_field(f"spec.{member}[{index}].name", text)
        for index, (name, was) in enumerate(zip(new, old, strict=True))
        if name != was
    ]


def _removed(new: Json | None, was: Json | None, field: str, what: str) -> list[Cause]:
    return [
        forbidden_field(f"{field}.{section}", f"{what} {section} cannot be removed")
        for section in _SECTIONS
        if _amounts(was, section).keys() - _amounts(new, section).keys()
    ]


def _masked(new: Json | None, was: Json | None) -> Json:
    """Return resources with the previous cpu and memory, so that any remaining difference is a forbidden change."""
    result = dict(was or {}) if new is None else {key: value for key, value in new.items() if key not in _SECTIONS}
    for section in _SECTIONS:
        amounts, old = _amounts(new, section), _amounts(was, section)
        kept = {name: amounts[name] for name in amounts if name not in RESIZABLE}
        kept |= {name: old[name] for name in RESIZABLE if name in old}
        if kept or section in (was or ()):
            result[section] = kept
    return result


def _amounts(resources: Json | None, section: str) -> Mapping[str, Any]:
    return (resources or {}).get(section) or {}
