"""Explain exit codes of containers on the machine's root whose command names a path that is hidden from them.

The module does not check whether the path exists on the machine, because a pod must not learn which files there are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from strato.node.sandbox.rootfs import PRIVATE_DIRECTORIES
from strato.node.sandbox.volumes import Mount

_PATH = re.compile(rf"(?:^|(?<=[\s=:;&|(<>'\"]))({'|'.join(PRIVATE_DIRECTORIES)})/[^\s=:;&|()<>'\"$*?]+")
_NOT_FOUND = (126, 127)
"""Exit codes of shells when a program cannot be executed, or does not exist."""


def hidden_path(argv: Sequence[str], mounts: Sequence[Mount]) -> str:
    """Return a sentence about the first path of a command in a private directory and in no mount; else empty."""
    for word in argv:
        for found in _PATH.finditer(word):
            path = found[0].rstrip("/.,")
            if not any(f"{path}/".startswith(f"{mount.target.rstrip('/')}/") for mount in mounts):
                return (
                    f"{path}: a pod on this machine's root has a {found[1]} of its own and does not see the machine's;"
                    " lay it elsewhere, mount it with a hostPath volume, or use an image"
                )
    return ""


def end_message(exit_code: int, error: str, written: str, hidden: str) -> str:
    """Return the message about the end of a container.

    Args:
        exit_code: Exit code of the container.
        error: Why it never started; empty if it did.
        written: Termination message that the container wrote.
        hidden: The sentence of `hidden_path`, or empty.
    """
    if error:
        return f"{error}; {hidden}" if hidden else error
    return written or (hidden if exit_code in _NOT_FOUND else "")
