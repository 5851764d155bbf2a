"""`LocalVolumes`: directories of this machine that become volumes of claims."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalVolumes:
    """Where volumes are made, and how what pods left in one is removed."""

    directory: str
    remove: Callable[[str], object]

    def make(self, name: str) -> None:
        """Make the directory of a volume: whoever a pod runs as may write there, and nobody else gets so far."""
        os.makedirs(self.directory, mode=0o711, exist_ok=True)
        path = os.path.join(self.directory, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
