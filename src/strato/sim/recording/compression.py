"""Zstandard where there is one (the standard library from Python 3.14 on, or backports.zstd), zlib elsewhere."""

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
"""What a frame says it was compressed with."""


class NoRoom(ValueError):
    """More comes out than was announced."""


@functools.cache
def zstd() -> ModuleType | None:
    """Return the module, None where Python has none."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def compress(body: bytes) -> tuple[int, bytes]:
    """Return a method and the body compressed with it; as it is when that is no longer."""
    module = zstd()
    method, packed = (ZSTD, module.compress(body)) if module is not None else (ZLIB, zlib.compress(body, 1))
    return (method, packed) if len(packed) < len(body) else (PLAIN, body)


def decompress(method: int, packed: bytes, size: int) -> bytes:
    """Return what was compressed, which is said to have ``size`` bytes; never more memory than that is used.

    Raises:
        ValueError: It is damaged, or not what was said.
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
