"""The columns of kinds that extend a cluster: policies of admission, devices, storage drivers, aggregated APIs."""

from __future__ import annotations

from typing import Any

from strato.server.tables.columns import Cells, Obj, age, condition, joined, name, part, plain, selector, table_format

_UNSET = "<unset>"


def _policy(rules: str) -> Cells:
    """Return the cells of a policy whose spec has a list of such rules."""

    def cells(obj: Obj, now: float) -> list[Any]:
        param_kind = part(obj, "spec", "paramKind")
        named = f"{param_kind.get('apiVersion')}/{param_kind.get('kind')}" if param_kind else _UNSET
        return [name(obj), len(part(obj, "spec", rules) or ()), named, age(obj, now)]

    return cells


def _binding(obj: Obj, now: float) -> list[Any]:
    reference = part(obj, "spec", "paramRef") or {}
    parameters = _UNSET
    if reference.get("name"):
        parameters = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        parameters = selector(reference["selector"])
    return [name(obj), part(obj, "spec", "policyName") or "", parameters, age(obj, now)]


def _claim(obj: Obj, now: float) -> list[Any]:
    deleted = part(obj, "metadata", "deletionTimestamp") is not None
    states = ["deleted"] if deleted else []
    if part(obj, "status", "allocation") is not None:
        states.append("allocated")
        states += ["reserved"] if part(obj, "status", "reservedFor") else []
    elif not deleted:
        states.append("pending")
    return [name(obj), joined(states), age(obj, now)]


def _attachment(obj: Obj, now: float) -> list[Any]:
    spec = part(obj, "spec")
    return [
        name(obj),
        part(spec, "attacher") or "",
        part(spec, "source", "persistentVolumeName") or "",
        part(spec, "nodeName") or "",
        bool(part(obj, "status", "attached")),
        age(obj, now),
    ]


def _api_service(obj: Obj, now: float) -> list[Any]:
    service = part(obj, "spec", "service")
    available = condition(obj, "Available") or {"status": "Unknown"}
    status = str(available.get("status"))
    if status != "True" and available.get("reason"):
        status += f" ({available['reason']})"
    served_by = f"{service.get('namespace')}/{service.get('name')}" if service else "Local"
    return [name(obj), served_by, status, age(obj, now)]


_ADMISSION = "admissionregistration.k8s.io"
FORMATS = {
    f"validatingadmissionpolicies.{_ADMISSION}": table_format(
        "Name|#Validations|ParamKind|Age", _policy("validations")
    ),
    f"mutatingadmissionpolicies.{_ADMISSION}": table_format("Name|#Mutations|ParamKind|Age", _policy("mutations")),
    f"validatingadmissionpolicybindings.{_ADMISSION}": table_format("Name|PolicyName|ParamRef|Age", _binding),
    f"mutatingadmissionpolicybindings.{_ADMISSION}": table_format("Name|PolicyName|ParamRef|Age", _binding),
    "apiservices.apiregistration.k8s.io": table_format("Name|Service|Available|Age", _api_service),
    "deviceclasses.resource.k8s.io": table_format("Name|Age", plain()),
    "resourceclaims.resource.k8s.io": table_format("Name|State|Age", _claim),
    "resourceclaimtemplates.resource.k8s.io": table_format("Name|Age", plain()),
    "resourceslices.resource.k8s.io": table_format(
        "Name|Node|Driver|Pool|Age", plain(("spec", "nodeName"), ("spec", "driver"), ("spec", "pool", "name"))
    ),
    "volumeattachments.storage.k8s.io": table_format("Name|Attacher|PV|Node|?Attached|Age", _attachment),
    "volumeattributesclasses.storage.k8s.io": table_format("Name|DriverName|Age", plain(("driverName",))),
}
"""By ``plural.group``."""
