"""Mounts that keep this Python visible to containers on the machine's root."""

from __future__ import annotations

import os
import sys
from collections.abc import Set as AbstractSet

from strato.node.sandbox.rootfs import PRIVATE_DIRECTORIES
from strato.node.sandbox.volumes import Mount


def interpreter_mounts(taken: AbstractSet[str] = frozenset()) -> list[Mount]:
    """Return mounts that keep this Python visible on the machine's root where it lies below a private directory.

    ``PATH`` on the machine's root begins with this Python's programs, so a virtual environment in ``/tmp`` must not
    vanish behind the container's own ``/tmp``.
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
"""What of an installation in somebody's home directory is Python's."""


def _packages() -> list[str]:
    """Return where this package lies, if that is a checkout."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return (
        [] if source.startswith((sys.prefix + os.sep, sys.base_prefix + os.sep)) else [os.path.join(source, "strato")]
    )


def _is_deep(path: str) -> bool:
    """Tell whether a directory is nobody's home, which holds more than Python."""
    parts = path.strip("/").split("/")
    return len(parts) > (2 if parts[0] == "home" else 1)
