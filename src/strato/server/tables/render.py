"""Put rows and columns together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from strato.api.kinds import Kind
from strato.server.tables import custom, others, pods, workloads
from strato.server.tables.columns import Layout

_LAYOUTS: dict[str, Layout] = {**pods.LAYOUTS, **workloads.LAYOUTS, **others.LAYOUTS}
"""By ``plural.group`` (``pods``, ``jobs.batch``)."""


def render(
    kind: Kind,
    objects: Iterable[Mapping[str, Any]],
    *,
    list_meta: Mapping[str, Any],
    include_object: str = "Metadata",
    now: float,
) -> dict[str, Any]:
    """Return a Table of the objects.

    Args:
        kind: The kind of all objects.
        objects: Whole objects; not mutated.
        list_meta: ``metadata`` of the list (or the object) the table stands for.
        include_object: ``None``, ``Metadata`` (a PartialObjectMetadata per row) or ``Object``.
        now: The instant that ages are counted from.
    """
    layout = _LAYOUTS.get(kind.resource) or custom.layout(kind)
    rows = []
    for obj in objects:
        row: dict[str, Any] = {"cells": layout.cells(obj, now)}
        if layout.conditions is not None:
            conditions = layout.conditions(obj)
            if conditions:
                row["conditions"] = conditions
        if include_object == "Object":
            row["object"] = obj
        elif include_object == "None":
            row["object"] = None
        else:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj.get("metadata") or {},
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(list_meta),
        "columnDefinitions": layout.definitions,
        "rows": rows,
    }
