"""`write_world`: writes a log's state at an instant as files for ``strato schedule -f`` and ``explain -f``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from strato.errors import UsageError
from strato.scheduler.dryrun.states import render
from strato.sim.recording.log import Log
from strato.sim.recording.state import state_at


def write_world(log: Log, instant: float, folder: Path) -> Sequence[Path]:
    """Write the state at an instant.

    Args:
        log: The log.
        instant: Seconds since the epoch.
        folder: Made if it does not exist. A file of the same name in it is replaced.

    Returns:
        The files: the state with configuration and instant, in the form that ``strato schedule -f`` reads.

    Raises:
        UsageError: The log begins after the instant or is damaged, or the folder cannot be written.
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
