"""Time travel: the world of a log at an instant, as files for ``strato schedule -f`` and ``explain -f``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from strato.errors import UsageError
from strato.scheduler.dryrun.states import render
from strato.sim.recording.log import Log
from strato.sim.recording.state import state_at


def write_world(log: Log, instant: float, folder: Path) -> Sequence[Path]:
    """Write what was known at an instant.

    Args:
        log: The log.
        instant: Seconds since the epoch.
        folder: Made when it is not there. A file of the same name in it is replaced.

    Returns:
        The files: the state, with configuration and instant, which ``strato schedule -f`` takes as it is.

    Raises:
        UsageError: The log begins later, is damaged, or nothing can be written there.
    """
    state = state_at(log, instant)
    text = render(state.manifests(), state.header())
    path = folder / "state.json"
    config = folder / "scheduler.conf"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        config.write_text(state.config)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return [path, config]
