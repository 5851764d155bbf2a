"""`jit`: Numba's ``njit`` with a cache of machine code that may be damaged or of another version of this software.

Numba unpickles the index of a cache before it looks whether the index is of the present source. If a file is cut short,
or names a class that an upgrade has renamed, that fails with whatever `pickle` raises, and so would every start until
somebody deletes the file. Here such a cache counts as empty: the function is compiled again and the file overwritten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


class _CodeFile(IndexDataCacheFile):
    """The files of one function: an index, and machine code for each combination of argument types."""

    def load(self, key: Any) -> Any:
        """Return the code for a key; None if there is none that can be read."""
        try:
            return super().load(key)  # type: ignore[no-untyped-call]  # Numba has few types
        except Exception as error:
            self._warn(error)
            return None

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]  # the same
        except Exception as error:
            self._warn(error)
            return {}

    def _warn(self, error: Exception) -> None:
        _log.warning("compiled code cannot be used and is made again: file=%s: %s", self._index_path, error)


class CodeCache(FunctionCache):
    """The cache of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]  # the same
        self._cache_file = _CodeFile(  # type: ignore[no-untyped-call]  # the same
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )


def jit(**options: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a function on its first call, or reads its code from the cache.

    Args:
        **options: Options of ``numba.njit``. Functions release the interpreter lock.
    """
    compile_later = njit(cache=True, nogil=True, **options)

    def decorate(function: F) -> F:
        kernel: F = compile_later(function)
        if hasattr(kernel, "_cache"):  # without NUMBA_DISABLE_JIT
            kernel._cache = CodeCache(function)  # noqa: SLF001  # as `Dispatcher.enable_caching` does
        return kernel

    return decorate
