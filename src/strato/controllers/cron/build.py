"""Build the job that a cron job makes for one scheduled time. Pure.

Source: volcano-controllers Part G.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from strato.api.meta import ObjectMeta
from strato.controllers.cron import plan
from strato.controllers.cron.variants import CronVariant
from strato.controllers.owners import controller_reference


def job_of(
    variant: CronVariant, cron: ObjectMeta, template: Mapping[str, Any], at: float, zone: tzinfo
) -> dict[str, Any]:
    """Return the job that a cron job makes at an instant."""
    given, kind, owner = template.get("metadata") or {}, variant.job_kind, variant.cron_kind
    annotations = {**(given.get("annotations") or {}), variant.scheduled_annotation: _in_zone(at, zone)}
    metadata: dict[str, Any] = {
        "name": plan.job_name(cron.name, at),
        "namespace": cron.namespace,
        "annotations": annotations,
        "ownerReferences": [controller_reference(owner.api_version, owner.name, cron)],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    spec = template.get("spec") or {}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}


def _in_zone(at: float, zone: tzinfo) -> str:
    """Return an instant as RFC 3339 in a time zone."""
    return datetime.fromtimestamp(at, zone).isoformat().replace("+00:00", "Z")
