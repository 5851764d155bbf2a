"""`ConfigFile`: a configuration and the files it comes from, read again when one of them changes."""

from __future__ import annotations

from pathlib import Path

from strato.errors import InvalidInput
from strato.filestamps import FileStamp
from strato.scheduler.config import default_config, read_config, reread
from strato.scheduler.framework.options import Config


class ConfigFile:
    """Where a scheduler's configuration comes from.

    Args:
        source: The configuration, or the path of a file in Volcano's format; None means the built-in one.

    Attributes:
        path: The file; None if the configuration was given as an object or is the built-in one.
        config: The configuration in force.

    Raises:
        InvalidInput: The file is bad.
    """

    def __init__(self, source: Config | Path | str | None) -> None:
        self.path = Path(source) if isinstance(source, Path | str) else None
        self.config = source if isinstance(source, Config) else default_config()
        if self.path is not None:
            self.config = read_config(self.path)
        self._stamps = self._read_stamps(self.config)

    @property
    def may_change(self) -> bool:
        """Whether there is a file that may change."""
        return bool(self._stamps)

    def reread(self) -> Config | InvalidInput | None:
        """Return the configuration as the files are now, or its problems; None if no file has changed.

        May run in a thread, one call at a time.
        """
        stamps = self._read_stamps(self.config)
        if stamps == self._stamps or None in stamps.values():
            return None
        try:
            config = read_config(self.path) if self.path is not None else reread(self.config)
        except InvalidInput as error:
            self._stamps = stamps
            return error
        self._stamps = {file: stamps.get(file, stamp) for file, stamp in self._read_stamps(config).items()}
        return config

    def _read_stamps(self, config: Config) -> dict[Path, FileStamp | None]:
        """Return stamps that show whether the configuration file, or a file a plugin comes from, has changed."""
        files = config.files if self.path is None else (self.path, *config.files)
        return {file: FileStamp.of(file) for file in files}
