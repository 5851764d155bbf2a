"""Annotations of pod groups with their predicted start: a `StartPublisher` writes them, the recorder reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strato.clock import parse_time

START: Final = "strato.dev/predicted-start"
"""Annotation of a waiting pod group: the instant at which it is expected to start."""
START_INTERVAL: Final = "strato.dev/predicted-start-interval"
"""Annotation with the interval in which the group starts in four of five cases: two instants with a slash between.
``..`` in place of the later one means that the interval has no upper bound."""


def prediction_of(annotations: Mapping[str, str]) -> tuple[float, float, float] | None:
    """Return predicted start, lower and upper bound (-1 for none), in seconds since the epoch; None without them."""
    low, _, high = annotations.get(START_INTERVAL, "").partition("/")
    try:
        return parse_time(annotations[START]), parse_time(low), -1.0 if high == ".." else parse_time(high)
    except (KeyError, ValueError):
        return None
