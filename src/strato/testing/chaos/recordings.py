"""`Recordings`: the logs of a run's schedulers, and the check that replays make the same decisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from strato.clock import Clock
from strato.scheduler.cache.journal import Journal
from strato.sim.recording.frames import BadLog
from strato.sim.recording.log import open_log
from strato.sim.recording.recorder import LogRecorder
from strato.sim.recording.replay import ReplayDifference, ReplayTally, replay
from strato.sim.recording.segments import LogFiles


class Recordings:
    """The logs of a run, one for each incarnation of a scheduler.

    Args:
        folder: An existing folder for them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recorders: dict[Path, LogRecorder] = {}

    def begin(self, name: str, clock: Clock) -> Journal:
        """Return the log for a scheduler that starts; names are unique."""
        path = self._folder / f"{name}.recorded"
        recorder = self._recorders[path] = LogRecorder(LogFiles(path), clock)
        return recorder

    def problems(self) -> Iterator[str]:
        """Close the logs, replay them, and return the differences."""
        for path, recorder in self._recorders.items():
            if recorder.failure:
                yield f"{path.stem}: recording has ended: {recorder.failure}"
            recorder.close()
            try:
                log = open_log(path)
            except BadLog:
                continue  # the scheduler was killed before it wrote anything
            tally = ReplayTally()
            differences = list(replay(log, tally=tally))
            if not tally.notes:  # with notes it may differ: the scheduler's own audit found its cache wrong
                yield from (f"{path.stem}: {_text(one)}" for one in differences)


def _text(difference: ReplayDifference) -> str:
    binds = [f"{b.pod} to {b.replayed or 'no node'} instead of {b.recorded or 'none'}" for b in difference.binds]
    evictions = [f"{one.pod} is{'' if one.replayed is not None else ' not'} evicted" for one in difference.evictions]
    return f"cycle {difference.cycle}: {', '.join([*binds, *evictions])}"
