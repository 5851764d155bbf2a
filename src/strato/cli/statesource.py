"""The source of the state on which a dry-run command decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from strato.errors import UsageError


@dataclass(frozen=True, slots=True)
class StateSource:
    """Manifests, a recorded log at an instant, or else the cluster as it is now; and the configuration to decide by.

    Raises:
        UsageError: The options do not go together.
    """

    paths: tuple[str, ...]
    config: Path | None
    """File of the configuration; None is the one that comes with the state."""
    log: Path | None = None
    at: str | None = None
    """The instant of the log; None is its end."""

    def __post_init__(self) -> None:
        if self.log is not None and self.paths:
            raise UsageError("-f and --log: the state comes from the one or the other")
        if self.log is None and self.at is not None:
            raise UsageError("--at INSTANT goes with --log LOG")

    @property
    def is_cluster(self) -> bool:
        """Whether the source is the cluster as it is now."""
        return not self.paths and self.log is None

    @property
    def base(self) -> Path:
        """Folder to which relative paths within the configuration refer."""
        return base_of(self.config)

    def text(self) -> str:
        """Return the command-line options that name the source."""
        parts = [f" -f {path}" for path in self.paths]
        parts += [f" --log {self.log}"] if self.log is not None else []
        parts += [f" --at {self.at}"] if self.at is not None else []
        return "".join(parts)


def base_of(config: Path | None) -> Path:
    """Return where paths within a configuration start."""
    return config.parent if config is not None else Path()
