"""Says which path of a command a container on the machine's root cannot see, for whoever wonders about its exit code.

Whether the machine has the path is not looked at: a pod must not learn what lies in somebody's home.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from strato.node.sandbox.rootfs import PRIVATE_DIRECTORIES
from strato.node.sandbox.volumes import Mount

_PATH = re.compile(rf"(?:^|(?<=[\s=:;&|(<>'\"]))({'|'.join(PRIVATE_DIRECTORIES)})/[^\s=:;&|()<>'\"$*?]+")
_NOT_FOUND = (126, 127)
"""What shells end with when a program cannot be run, or is not there."""


def hidden_path(argv: Sequence[str], mounts: Sequence[Mount]) -> str:
    """Return a sentence on the first path of a command that is in a private directory and in no mount; or nothing."""
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
    """Return what is said about the end of a container.

    Args:
        exit_code: Its own.
        error: Why it never started; empty if it did.
        written: What the container itself says.
        hidden: A sentence of `hidden_path`, or nothing.
    """
    if error:
        return f"{error}; {hidden}" if hidden else error
    return written or (hidden if exit_code in _NOT_FOUND else "")
