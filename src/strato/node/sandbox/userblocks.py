"""Ranges of user ids for pods with a user namespace of their own: one block each, noted in the pod's directory."""

from __future__ import annotations

import contextlib
import os

BLOCK = 65536
_FIRST, _COUNT = 8192, 24576
"""Blocks from 536,870,912 on, above what people, services and ``/etc/subuid`` use, below 2**31."""


class UserBlocks:
    """Gives blocks to pods.

    Args:
        pods: Directory of the pods' directories, where what was given in a former life is found again.
    """

    def __init__(self, pods: str) -> None:
        self._pods = pods
        self._taken: dict[str, int] = {}

    def block(self, uid: str) -> int:
        """Return the first user of a pod's block, a new one at its first asking."""
        if uid not in self._taken:
            self._load()
        if uid not in self._taken:
            used = set(self._taken.values())
            number = next(n for n in range(_FIRST, _FIRST + _COUNT) if n * BLOCK not in used)
            self._taken[uid] = number * BLOCK
            with open(os.path.join(self._pods, uid, _NOTE), "w") as file:
                file.write(str(number * BLOCK))
        return self._taken[uid]

    def _load(self) -> None:
        """Read the notes of all pods; those of removed pods have gone with them."""
        found = {}
        for uid in os.listdir(self._pods):
            with contextlib.suppress(OSError, ValueError), open(os.path.join(self._pods, uid, _NOTE)) as file:
                found[uid] = int(file.read())
        self._taken = found


_NOTE = "users"
