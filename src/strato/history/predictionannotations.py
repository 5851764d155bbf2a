"""Predicted starts as annotations of pod groups: written by who predicts, read by who keeps how it fared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strato.clock import parse_time

START: Final = "strato.dev/predicted-start"
"""Annotation of a waiting pod group: the instant at which it is expected to start."""
START_INTERVAL: Final = "strato.dev/predicted-start-interval"
"""The instants between which it starts in four of five cases, with a slash between; ``..`` is an open end."""


def prediction_of(annotations: Mapping[str, str]) -> tuple[float, float, float] | None:
    """Return when a group is expected to start, and between when; -1 for an open end. None without a prediction."""
    low, _, high = annotations.get(START_INTERVAL, "").partition("/")
    try:
        return parse_time(annotations[START]), parse_time(low), -1.0 if high == ".." else parse_time(high)
    except (KeyError, ValueError):
        return None
