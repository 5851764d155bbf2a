"""Mounts that keep this Python visible to containers on the machine's root."""

from __future__ import annotations

import os
import sys
from collections.abc import Set as AbstractSet

from strato.node.sandbox.rootfs import PRIVATE_DIRECTORIES
from strato.node.sandbox.volumes import Mount


def interpreter_mounts(taken: AbstractSet[str] = frozenset()) -> list[Mount]:
    """Return mounts that keep this Python visible on the machine's root if it lies below a private directory.

    ``PATH`` of such containers begins with this Python's programs, so a virtual environment in ``/tmp`` must not be
    hidden by the container's own ``/tmp``.
    """
    found: list[str] = []
    for path in dict.fromkeys((sys.prefix, sys.base_prefix, *_packages())):
        if not f"{path}/".startswith(tuple(f"{private}/" for private in PRIVATE_DIRECTORIES)):
            continue
        if _is_deep(path):
            found.append(path)
        else:
            found += [part for name in _OF_A_PREFIX if os.path.exists(part := os.path.join(path, name))]
    return [Mount(path, path, read_only=True, programs=True) for path in found if path not in taken]


_OF_A_PREFIX = ("bin", "lib", "lib64", "pyvenv.cfg")
"""The entries that belong to Python in an installation whose prefix is a home directory."""


def _packages() -> list[str]:
    """Return the directory of this package, if it runs from a checkout."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return (
        [] if source.startswith((sys.prefix + os.sep, sys.base_prefix + os.sep)) else [os.path.join(source, "strato")]
    )


def _is_deep(path: str) -> bool:
    """Return whether a directory is deep enough not to be a home directory, which holds more than Python."""
    parts = path.strip("/").split("/")
    return len(parts) > (2 if parts[0] == "home" else 1)
