"""Views of events.k8s.io/v1."""

from __future__ import annotations

from strato.api.core.config import EventSeries, EventSource
from strato.api.meta import Object
from strato.api.shapes import ObjectReference


class Event(Object, frozen=True, kw_only=True):
    """An event of the newer group; the same stored object as ``v1.Event`` under other names."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource = EventSource()
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int = 0
