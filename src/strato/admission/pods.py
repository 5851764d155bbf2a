"""Pod admission (spec volcano-api 19)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strato.admission.request import AdmissionReader, AdmissionRequest, Denied, Json
from strato.api import yamltext

WEBHOOK = "validatepod.volcano.sh"
GATE = "scheduling.volcano.sh/queue-allocation-gate"
GROUP_ANNOTATION = "volcano.sh/resource-group"
MIN_AVAILABLE = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
BUDGETS = frozenset((MIN_AVAILABLE, MAX_UNAVAILABLE))

_PERCENT = re.compile(r"[1-9][0-9]?%")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """One entry of the admission configuration."""

    resource_group: str
    object_key: str = ""
    """``namespace``, ``annotation`` or empty; anything else never matches."""
    object_values: tuple[str, ...] = ()
    scheduler_name: str = ""
    tolerations: tuple[Mapping[str, object], ...] = ()
    labels: Mapping[str, str] | None = None
    affinity: str = ""
    """An affinity as JSON text."""

    def matches(self, namespace: str, annotations: Mapping[str, str]) -> bool:
        """Whether the group applies to a pod."""
        if self.object_key == "namespace":
            return namespace in self.object_values
        if self.object_key not in ("", "annotation"):
            return False
        if not self.object_key and annotations.get(GROUP_ANNOTATION) == self.resource_group:
            return True
        wanted = _merged(self.object_values)
        return any(annotations.get(key) == value for key, value in wanted.items())


def _merged(texts: Sequence[str]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for text in texts:
        try:
            loaded = yamltext.load(text)
        except yamltext.InvalidYaml:  # an invalid text selects nothing, as in Volcano
            continue
        if isinstance(loaded, dict):
            merged.update({str(key): str(value) for key, value in loaded.items()})
    return merged


def queue_gate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Add the queue-admission gate to a new pod that asks for it; the scheduler removes it when the queue has room."""
    if needs_no_gate(request):
        return
    assert request.object is not None
    present = request.object["spec"].setdefault("schedulingGates", [])
    if all(gate.get("name") != GATE for gate in present):
        present.append({"name": GATE})


def needs_no_gate(request: AdmissionRequest) -> bool:
    """Whether a pod does not ask for the gate."""
    assert request.object is not None
    annotations = request.object["metadata"].get("annotations")
    return not annotations or annotations.get(GATE) != "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroups:
    """Applies the first resource group of the admission configuration that matches a pod."""

    groups: tuple[ResourceGroup, ...]

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Mutate one pod."""
        pod = request.object
        assert pod is not None
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        for group in self.groups:
            if group.matches(request.namespace, annotations):
                _apply(group, pod["spec"])
                return


def _apply(group: ResourceGroup, spec: Json) -> None:
    if group.labels:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **group.labels}
    if group.affinity and not spec.get("affinity"):
        spec["affinity"] = json.loads(group.affinity)
    if group.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *(dict(item) for item in group.tolerations)]
    if group.scheduler_name:
        spec["schedulerName"] = group.scheduler_name


@dataclass(frozen=True, slots=True)
class PodValidation:
    """Checks the disruption budget annotations of pods with Volcano's scheduler names."""

    scheduler_names: tuple[str, ...]

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Check one pod."""
        pod = request.object
        assert pod is not None
        annotations = (pod.get("metadata") or {}).get("annotations")
        if not annotations or pod["spec"].get("schedulerName") not in self.scheduler_names:
            return
        found = [key for key in (MIN_AVAILABLE, MAX_UNAVAILABLE) if key in annotations]
        if not found:
            return
        problems = [problem for key in found if (problem := budget_problem(key, annotations[key]))]
        if len(found) > 1:
            problems.append(
                f"not allow configure multiple annotations <[{MIN_AVAILABLE} {MAX_UNAVAILABLE}]> at same time"
            )
        if problems:
            raise Denied(WEBHOOK, "; ".join(problems))


def budget_fits(request: AdmissionRequest) -> bool:
    """Whether a pod has no disruption budget annotation, or a single valid one."""
    assert request.object is not None
    annotations = request.object["metadata"].get("annotations")
    found = [key for key in (MIN_AVAILABLE, MAX_UNAVAILABLE) if key in annotations] if annotations else ()
    return not found or (len(found) == 1 and not budget_problem(found[0], annotations[found[0]]))


def budget_problem(key: str, value: str) -> str:
    """Return what is wrong with a budget annotation, or "": a positive integer, or 1 % to 99 %."""
    if value.endswith("%"):
        if _PERCENT.fullmatch(value) is None:
            return f'invalid value <"{value}"> for {key}, it must be a valid percentage which between 1% ~ 99%'
        return ""
    if not re.fullmatch(r"[+]?[0-9]+", value) or int(value) <= 0:
        return f'invalid value <"{value}"> for {key}, it must be a positive integer'
    return ""
