"""`LocalVolumes`: directories of this machine that become volumes of claims."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalVolumes:
    """The directory in which volumes are made, and the function that removes a volume with its content."""

    directory: str
    remove: Callable[[str], object]

    def make(self, name: str) -> None:
        """Make the directory of a volume. Pods run as any user, so all may write; the parent keeps other users out."""
        os.makedirs(self.directory, mode=0o711, exist_ok=True)
        path = os.path.join(self.directory, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
