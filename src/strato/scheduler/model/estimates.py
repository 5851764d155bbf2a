"""The run times that pods and PodGroups state."""

from __future__ import annotations

import math
from typing import Final

from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup

EXPECTED: Final = "strato.dev/expected-seconds"
"""Annotation of pods or PodGroups: how long a pod will run, in seconds."""


def seconds_of(text: str) -> float | None:
    """Return the seconds in an annotation; None where it is no number, negative or infinite."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0.0 <= seconds < math.inf else None


def stated_seconds(pod: Pod, group: PodGroup | None) -> float | None:
    """Return the stated run time: by the pod's annotation, else its group's, else ``activeDeadlineSeconds``."""
    for meta in (pod.metadata, group.metadata if group is not None else None):
        text = meta.annotation(EXPECTED) if meta is not None else ""
        if text and (seconds := seconds_of(text)) is not None:
            return seconds
    deadline = pod.spec.active_deadline_seconds
    return None if deadline is None else float(deadline)
