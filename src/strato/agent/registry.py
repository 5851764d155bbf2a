"""Find handlers: built-in ones, those of installed packages, and those in files of a directory, reloaded on change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from strato import thirdparty
from strato.agent.handlers import Handler
from strato.agent.handlers.besteffort import BestEffort
from strato.agent.handlers.burst import Burst
from strato.agent.handlers.hotspots import Hotspots
from strato.agent.handlers.suppress import Suppress
from strato.filestamps import FileStamp
from strato.thirdparty import NotLoaded

GROUP: Final = "strato.agent.handlers"
BUILT_IN: Final[dict[str, type[Handler]]] = {one.name: one for one in (Suppress, Burst, Hotspots, BestEffort)}
"""Built-in handlers by name, in calling order."""
_MOST_BYTES: Final = 1 << 20


class HandlerRegistry:
    """Finds the class of a handler.

    Args:
        directory: Directory of files with handlers; None reads no files.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._loaded: dict[Path, tuple[FileStamp | None, list[type[Handler]]]] = {}
        """Stamp and handler classes of each file, by path."""

    def names(self) -> list[str]:
        """Return the names of handlers that need no file."""
        return [*BUILT_IN, *(name for name in sorted(thirdparty.entry_points(GROUP)) if name not in BUILT_IN)]

    def find(self, name: str, file: str = "") -> type[Handler]:
        """Return a handler's class.

        Raises:
            NotLoaded: There is no such handler, or its code cannot be used.
        """
        if file:
            return self._from_file(name, file)
        found = BUILT_IN.get(name) or thirdparty.installed(GROUP, name, Handler)
        if found is None:
            raise NotLoaded(f"no such handler; there are {', '.join(self.names())}, and those of files (file: NAME.py)")
        return found

    def has_changed(self) -> bool:
        """Return whether a loaded file has changed."""
        return any(FileStamp.of(path) != stamp for path, (stamp, _) in self._loaded.items())

    def _from_file(self, name: str, file: str) -> type[Handler]:
        if self._directory is None:
            raise NotLoaded("handlers of files need the agent's --handlers-dir")
        if os.path.basename(file) != file or not file.endswith(".py"):
            raise NotLoaded(f"{file!r} is not the name of a .py file in {self._directory}")
        path = self._directory / file
        stamp = FileStamp.of(path)
        if path not in self._loaded or self._loaded[path][0] != stamp:
            if stamp is not None and stamp.size_bytes > _MOST_BYTES:
                raise NotLoaded(f"{path} is longer than {_MOST_BYTES} bytes")
            self._loaded[path] = stamp, []
            self._loaded[path] = stamp, thirdparty.classes_of(path, Handler)
        for found in self._loaded[path][1]:
            if found.name == name:
                return found
        raise NotLoaded(f"{path} defines no handler called {name!r}")
