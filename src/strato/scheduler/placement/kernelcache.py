"""Loads machine code from Numba's cache without initialising Numba's compiler.

Before Numba looks into its cache it initialises everything a compilation could need: 75 more modules and their
registries, 0.25 s of CPU time and 11 MB, of which cached code needs nothing. A compilation initialises the same by
itself, so skipping it is safe where the cache is empty.
"""

from __future__ import annotations

import logging
from typing import Any

from numba.core.runtime.nrt import rtsys

from strato.machinecode import CodeCache

_log = logging.getLogger(__name__)


class _FoundCode(CodeCache):
    """Numba's cache of a function, read without initialising the compiler."""

    number = ""
    """Which kernel of how many it is, for the log: ``1 of 3``."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for these argument types; None when the cache has none."""
        rtsys.initialize(target_context)  # the code calls functions of Numba's run-time system
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]  # Numba has few types
        if found is None:
            _log.info("compiling the scheduler's kernels, once per machine and version: %s", self.number)
        return found


def only_load(*kernels: Any) -> None:
    """Have kernels, each declared with `jit`, read their caches by `_FoundCode` from now on."""
    if not all(hasattr(CodeCache, name) for name in ("_load_overload", "_guard_against_spurious_io_errors")):
        return  # another release of Numba, whose cache has no such methods
    for number, kernel in enumerate(kernels, start=1):
        if type(getattr(kernel, "_cache", None)) is CodeCache:  # without NUMBA_DISABLE_JIT, and not done before
            found = _FoundCode(kernel.py_func)
            found.number = f"{number} of {len(kernels)}"
            kernel._cache = found  # noqa: SLF001  # as `Dispatcher.enable_caching` does
