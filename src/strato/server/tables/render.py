"""Put rows and columns together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from strato.api.kinds import Kind
from strato.server.tables import custom, extensions, others, pods, workloads
from strato.server.tables.columns import TableFormat

_FORMATS: dict[str, TableFormat] = {**pods.FORMATS, **workloads.FORMATS, **others.FORMATS, **extensions.FORMATS}
"""By ``plural.group`` (``pods``, ``jobs.batch``)."""


class Renderer:
    """Makes rows of the objects of one kind.

    Args:
        include_object: ``None``, ``Metadata`` (a PartialObjectMetadata per row) or ``Object``.
        now: The instant that ages are counted from.
        version: Of the table: v1, or v1beta1 for old clients.
    """

    def __init__(self, kind: Kind, include_object: str = "Metadata", *, now: float, version: str = "v1") -> None:
        self._format = _FORMATS.get(kind.resource) or custom.table_format(kind)
        self._include, self._now, self._version = include_object, now, f"meta.k8s.io/{version}"

    def head(self, list_meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return a Table without its rows.

        Args:
            list_meta: ``metadata`` of the list (or the object) the table stands for.
        """
        return {
            "kind": "Table",
            "apiVersion": self._version,
            "metadata": dict(list_meta),
            "columnDefinitions": self._format.definitions,
        }

    def row(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of a whole object, which is not mutated."""
        table_format = self._format
        row: dict[str, Any] = {"cells": table_format.cells(obj, self._now)}
        if table_format.conditions is not None:
            conditions = table_format.conditions(obj)
            if conditions:
                row["conditions"] = conditions
        if self._include == "Object":
            row["object"] = obj
        elif self._include == "None":
            row["object"] = None
        else:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": self._version,
                "metadata": obj.get("metadata") or {},
            }
        return row


def render(
    kind: Kind,
    objects: Iterable[Mapping[str, Any]],
    *,
    list_meta: Mapping[str, Any],
    include_object: str = "Metadata",
    now: float,
) -> dict[str, Any]:
    """Return a Table of the objects; the arguments are those of `Renderer`."""
    renderer = Renderer(kind, include_object, now=now)
    return {**renderer.head(list_meta), "rows": [renderer.row(obj) for obj in objects]}
