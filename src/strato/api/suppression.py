"""The annotation in which the node agent records containers with a temporarily lowered CPU limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from strato.decoding import UNDECODABLE

SUPPRESSED_CONTAINERS: Final = "strato.io/suppressed"
"""Annotation of a pod: a JSON object with an entry per such container."""
_MOST_CHARACTERS: Final = 64 << 10

Entry = TypeVar("Entry")


def suppression_entries(annotations: Mapping[str, str] | None, type_: type[Entry]) -> dict[str, Entry]:
    """Return the entries of the annotation by container; empty if it is missing or invalid.

    Args:
        annotations: Annotations of a pod, whose author may have written anything into them.
        type_: Type as which each entry is decoded.
    """
    text = (annotations or {}).get(SUPPRESSED_CONTAINERS, "")
    if not text or len(text) > _MOST_CHARACTERS:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, type_])  # type: ignore[valid-type]  # a type made as it runs
    except UNDECODABLE:
        return {}
