"""RuntimeClasses of pods: adds a class's overhead and scheduling constraints to pods that name it.

Source: ``plugin/pkg/admission/runtimeclass`` of Kubernetes 1.36.
"""

from __future__ import annotations

from strato.admission.request import AdmissionReader, AdmissionRequest, Json
from strato.api import catalog
from strato.api.quantity import parse
from strato.api.status import forbidden
from strato.errors import Forbidden


def apply(request: AdmissionRequest, spec: Json, reader: AdmissionReader) -> None:
    """Write overhead, node selector and tolerations of its class into a new pod's spec, in place.

    Raises:
        Forbidden: There is no such class, or the pod contradicts it.
    """
    name, found = spec.get("runtimeClassName"), None
    if name:
        found = reader.get(catalog.RUNTIMECLASS, "", name)
        if found is None:
            raise _rejected(request, f'RuntimeClass "{name}" not found')
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if spec.get("overhead"):
        if not overhead:
            raise _rejected(request, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
        if _amounts(overhead) != _amounts(spec["overhead"]):
            raise _rejected(request, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = (found or {}).get("scheduling")
    if scheduling:
        _schedule(request, spec, scheduling)


def _rejected(request: AdmissionRequest, text: str) -> Forbidden:
    return forbidden(request.kind, request.name, f"pod rejected: {text}")


def _amounts(resources: Json) -> dict[str, int]:
    return {name: parse(amount).nanos for name, amount in resources.items()}


def _schedule(request: AdmissionRequest, spec: Json, scheduling: Json) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.setdefault(key, value) != value:
            text = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = "
            raise forbidden(request.kind, request.name, f"conflict: {text}{selector[key]}")
    if selector:
        spec["nodeSelector"] = selector
    added = scheduling.get("tolerations")
    if added:
        spec["tolerations"] = merge_tolerations([*(spec.get("tolerations") or ()), *added])


def merge_tolerations(tolerations: list[Json]) -> list[Json]:
    """Return the tolerations without those that others cover."""
    merged: list[Json] = []
    for index, one in enumerate(tolerations):
        if not any(_covers(other, one) for other in (*merged, *tolerations[index + 1 :])):
            merged.append(one)
    return merged


def _covers(wide: Json, one: Json) -> bool:
    """Whether a toleration tolerates all that another one does."""
    if wide == one:
        return True
    key, effect, exists = wide.get("key"), wide.get("effect"), wide.get("operator") == "Exists"
    if one.get("key") != key and (key or not exists):
        return False
    if effect and one.get("effect") != effect:
        return False
    seconds = wide.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None:
        asked = one.get("tolerationSeconds")
        if asked is None or asked > seconds:
            return False
    return exists or (one.get("operator") != "Exists" and one.get("value") == wide.get("value"))
