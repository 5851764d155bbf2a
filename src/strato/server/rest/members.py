"""An object as the bytes of its members."""

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
