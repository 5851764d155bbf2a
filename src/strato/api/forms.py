"""Kinds that are another form of a stored kind: one object, read and written under two group versions.

Objects are stored in one form. They are converted to the other form when a client reads that one, and converted back
when a client writes it. All other rules (names, conflicts, watches, admission) are those of the stored kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from strato.api import autoscaling, catalog
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.api.status import invalid_value, required
from strato.errors import Cause

_EMPTY = (None, "", 0)


def _no_causes(_obj: Json, _old: Json | None) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class Form:
    """Another form of a stored kind."""

    kind: Kind
    """The kind that clients ask for."""
    stored: Kind
    show: Callable[[Json], Json]
    """Converts a stored object to this form; changes neither, but they share members."""
    read: Callable[[Json], Json]
    """Converts an object in this form to the stored form."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Field of selectors in this form → field of the stored form."""
    check: Callable[[Json, Json | None], list[Cause]] = _no_causes
    """Validates an object written in this form: gets its new and its previous state, both in the stored form."""


_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Member of a v1 Event → its name in events.k8s.io/v1."""
_STORED_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def _show_event(event: Json) -> Json:
    shown = {
        _EVENT_NAMES.get(name, name): value
        for name, value in event.items()
        if value or name not in ("reportingComponent", "reportingInstance")
    }
    return {**shown, "apiVersion": catalog.EVENTS_EVENT.api_version}


def _read_event(event: Json) -> Json:
    read = {_STORED_NAMES.get(name, name): value for name, value in event.items()}
    return {"involvedObject": {}, **read, "apiVersion": catalog.EVENT.api_version}


def _check_event(event: Json, old: Json | None) -> list[Cause]:
    """Check an event by the rules of events.k8s.io, which are stricter than those of v1.

    Source: ``pkg/apis/core/validation/events.go`` of Kubernetes 1.36.
    """
    series = event.get("series")
    causes = _series_problems(series) if series and (old is None or series != old.get("series")) else []
    if old is not None:
        fixed = [name for name in event if name not in ("metadata", "series")]
        return causes + [
            invalid_value(_EVENT_NAMES.get(name, name), event[name], "field is immutable")
            for name in fixed
            if event[name] != old.get(name)
        ]
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(invalid_value("type", "", f"has invalid value: {event.get('type') or ''}"))
    causes += [
        invalid_value(name, "", "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count")
        if event.get(name) not in _EMPTY
    ]
    if any((event.get("source") or {}).values()):
        causes.append(invalid_value("source", "", "needs to be unset"))
    return causes


def _series_problems(series: Json) -> list[Cause]:
    causes = []
    if (series.get("count") or 0) < 2:
        causes.append(invalid_value("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(required("series.lastObservedTime"))
    return causes


_EVENT = Form(
    catalog.EVENTS_EVENT,
    catalog.EVENT,
    _show_event,
    _read_event,
    {
        **{
            f"regarding.{part}": f"involvedObject.{part}"
            for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reportingController": "reportingComponent",
        "reason": "reason",
        "type": "type",
    },
    _check_event,
)
_AUTOSCALER = Form(
    catalog.HORIZONTALPODAUTOSCALER_V1, catalog.HORIZONTALPODAUTOSCALER, autoscaling.show_v1, autoscaling.read_v1
)
FORMS: Mapping[Kind, Form] = {form.kind: form for form in (_EVENT, _AUTOSCALER)}
"""Kind that clients ask for → its form."""
