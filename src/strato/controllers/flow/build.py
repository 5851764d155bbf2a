"""The job of one step of a flow. Pure.

Source: volcano-controllers Part F, "Job content".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strato.api import catalog
from strato.api.volcano.flow import JobFlow
from strato.controllers.owners import controller_reference

CREATED_BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
CREATED_BY_FLOW: Final = "volcano.sh/createdByJobFlow"

FLOW_API_VERSION: Final = catalog.JOBFLOW.api_version
FLOW_KIND: Final = catalog.JOBFLOW.name


def step_job_name(flow: str, step: str) -> str:
    """Return the name of a step's job."""
    return f"{flow}-{step}"


def step_job(
    flow: JobFlow, step: str, template_spec: Mapping[str, Any], patch: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the job of a step: the JobTemplate's spec with the step's ``patch`` merged in."""
    meta = flow.metadata
    origin = {CREATED_BY_TEMPLATE: f"{meta.namespace}.{step}", CREATED_BY_FLOW: f"{meta.namespace}.{meta.name}"}
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": catalog.VCJOB.name,
        "metadata": {
            "name": step_job_name(meta.name, step),
            "namespace": meta.namespace,
            "labels": origin,
            "annotations": dict(origin),
            "ownerReferences": [controller_reference(FLOW_API_VERSION, FLOW_KIND, meta)],
        },
        "spec": merged(template_spec, patch or {}),
    }


def merged(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job spec with changes merged in: tasks and containers by name, other lists as a whole."""
    result = dict(spec)
    for name, change in patch.items():
        known = result.get(name)
        if change is None:
            result.pop(name, None)
        elif isinstance(change, dict):
            result[name] = merged(known if isinstance(known, dict) else {}, change)
        elif isinstance(known, list) and isinstance(change, list) and _are_named(known) and _are_named(change):
            result[name] = _merged_by_name(known, change)
        else:
            result[name] = change
    return result


def _are_named(items: Sequence[Any]) -> bool:
    return all(isinstance(item, dict) and item.get("name") for item in items)


def _merged_by_name(known: Sequence[dict[str, Any]], changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    by_name = {change["name"]: change for change in changes}
    kept = [merged(item, by_name.pop(item["name"], {})) for item in known]
    return [*kept, *by_name.values()]
