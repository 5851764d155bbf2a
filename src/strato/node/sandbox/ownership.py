"""Give a claimed volume to a pod's ``fsGroup``, as a kubelet does for volumes whose ownership it manages.

Pods may replace the files meanwhile. So each file is opened first and changed through its descriptor; no link is
followed, and no mount point below the volume is entered.

Source: Kubernetes' volume ownership (``SetVolumeOwnership``): bits, order and ``fsGroupChangePolicy``.
"""

from __future__ import annotations

import os
import stat

from strato.node import beneath
from strato.node.sandbox.environment import ConfigProblem

ON_ROOT_MISMATCH = "OnRootMismatch"
_MOST_LEVELS = 256
_READ, _WRITE, _ENTER = 0o440, 0o220, 0o110


def set_ownership(volume: str, group: int, policy: str = "", *, read_only: bool = False) -> int:
    """Make a group the owner of all files in a volume, with access to them; return how many files were checked.

    Args:
        volume: Path of the volume.
        group: Group of the files, also of those that are made in its directories later (set-group-id).
        policy: ``OnRootMismatch`` skips a volume whose root has the right group and mode; the root is changed last.
        read_only: Whether the group gets no write permission.

    Raises:
        ConfigProblem: The tree is too deep.
        OSError: The volume cannot be read.
    """
    bits = _READ if read_only else _READ | _WRITE
    with beneath.opened(volume) as top:
        if policy == ON_ROOT_MISMATCH and _is_right(top, group, bits | _ENTER):
            return 0
        return _walk(top, group, bits)


def _is_right(descriptor: int, group: int, bits: int) -> bool:
    found = os.fstat(descriptor)
    has_bits = found.st_mode & (bits | stat.S_ISGID) == bits | stat.S_ISGID
    return stat.S_ISDIR(found.st_mode) and found.st_gid == group and has_bits


def _walk(top: int, group: int, bits: int) -> int:
    """Change all files below a descriptor (O_PATH), and the descriptor's own file last."""
    levels = [(os.dup(top), _names(top))]
    count = 0
    try:
        while levels:
            directory, names = levels[-1]
            if not names:
                _give(directory, group, bits)
                os.close(levels.pop()[0])
                count += 1
                continue
            try:
                child = beneath.open_at(directory, names.pop(), os.O_PATH | os.O_NOFOLLOW, mounts=False)
            except OSError:  # removed meanwhile, or a mount point
                continue
            if len(levels) >= _MOST_LEVELS:
                os.close(child)
                raise ConfigProblem(f"a volume with fsGroup has directories more than {_MOST_LEVELS} levels deep")
            levels.append((child, []))
            levels[-1] = child, _names(child)
    finally:
        for directory, _ in levels:
            os.close(directory)
    return count


def _names(descriptor: int) -> list[str]:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        return []
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=descriptor)
    try:
        return os.listdir(directory)
    finally:
        os.close(directory)


def _give(descriptor: int, group: int, bits: int) -> None:
    path = f"/proc/self/fd/{descriptor}"  # leads to the opened file itself, even if that is a symbolic link
    mode = os.fstat(descriptor).st_mode
    os.chown(path, -1, group)
    if not stat.S_ISLNK(mode):
        more = bits | _ENTER | stat.S_ISGID if stat.S_ISDIR(mode) else bits
        os.chmod(path, stat.S_IMODE(mode) | more)
