"""What it looks like when bytes or a text of others cannot be decoded."""

from __future__ import annotations

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that msgspec raises for JSON and MessagePack that is broken, of other types, no UTF-8, or nested too deeply.

``msgspec.DecodeError`` alone is not all of it: text that is no UTF-8 inside a well-formed document is a
``UnicodeDecodeError``, and a few thousand brackets are a ``RecursionError``.
"""
