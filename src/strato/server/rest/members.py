"""A stored object as the bytes of its members: what a write does not touch is neither decoded nor encoded.

Bodies are stored as our encoder writes them, so that bytes can be told from their meaning: a quote inside a text is
escaped there, and a key between bare quotes can only be a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Members = dict[str, msgspec.Raw]


class Metadata(msgspec.Struct, gc=False):
    """What short writes ask of the metadata."""

    uid: str
    resourceVersion: str
    deletionTimestamp: Any = None


read_members: Callable[[bytes], Members] = msgspec.json.Decoder(Members).decode
read_metadata: Callable[[bytes | msgspec.Raw], Metadata] = msgspec.json.Decoder(Metadata).decode
read_object: Callable[[bytes | msgspec.Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode


def at_revision(metadata: msgspec.Raw, before: str, revision: int) -> msgspec.Raw | None:
    """Return the metadata with another resource version; None when a label or annotation has that key and value too."""
    raw, at = bytes(metadata), f'"resourceVersion":"{before}"'.encode()
    if raw.count(at) != 1:
        return None
    return msgspec.Raw(raw.replace(at, f'"resourceVersion":"{revision}"'.encode()))
