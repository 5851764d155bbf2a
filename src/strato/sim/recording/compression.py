"""Compresses with Zstandard if Python has it (standard library from 3.14 on, or backports.zstd), else with zlib."""

from __future__ import annotations

import functools
import importlib
import zlib
from types import ModuleType
from typing import Final

from strato.errors import UsageError

PLAIN: Final = 0
ZLIB: Final = 1
ZSTD: Final = 2
"""Methods of compression, as a frame's head stores them."""


class NoRoom(ValueError):
    """The uncompressed content has not the size that was announced."""


@functools.cache
def zstd() -> ModuleType | None:
    """Return the module for Zstandard, None if Python has none."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def compress(body: bytes) -> tuple[int, bytes]:
    """Return a method and the compressed body; the body itself with `PLAIN` if compression makes it no shorter."""
    module = zstd()
    method, packed = (ZSTD, module.compress(body)) if module is not None else (ZLIB, zlib.compress(body, 1))
    return (method, packed) if len(packed) < len(body) else (PLAIN, body)


def decompress(method: int, packed: bytes, size: int) -> bytes:
    """Return the uncompressed body, which must have ``size`` bytes; memory for at most one byte more is used.

    Raises:
        ValueError: The body is damaged, or has another size.
        UsageError: This Python has no Zstandard.
    """
    if method == PLAIN:
        body = packed
    elif method == ZLIB:
        body = _inflate(packed, size)
    elif method == ZSTD:
        body = _decompress_zstd(packed, size)
    else:
        raise ValueError(f"compressed by an unknown method {method}")
    if len(body) != size:
        raise NoRoom(f"holds {len(body)} bytes or more instead of {size}")
    return body


def _inflate(packed: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _decompress_zstd(packed: bytes, size: int) -> bytes:
    module = zstd()
    if module is None:
        raise UsageError("the log is compressed with Zstandard, which needs: pip install 'strato[zstd]'")
    try:
        body: bytes = module.ZstdDecompressor().decompress(packed, max_length=size + 1)
    except (module.ZstdError, EOFError) as error:
        raise ValueError(str(error)) from error
    return body
