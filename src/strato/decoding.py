"""The errors that msgspec raises for input that cannot be decoded."""

from __future__ import annotations

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All errors of msgspec for JSON and MessagePack that is broken, of other types, no UTF-8, or nested too deeply.

``msgspec.DecodeError`` alone does not suffice: text that is no UTF-8 inside a well-formed document raises a
``UnicodeDecodeError``, and a few thousand nested brackets raise a ``RecursionError``.
"""
