"""`Log`: reads a recorded log: its files, torn frames, and its entries from any frame on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strato.decoding import UNDECODABLE
from strato.errors import UsageError
from strato.sim.recording import entries as e
from strato.sim.recording import frames
from strato.sim.recording.frames import BEGINNING, SNAPSHOT, BadLog, Frame, Torn
from strato.sim.recording.segments import files_of


@dataclass(frozen=True, slots=True)
class Log:
    """A recorded log; made by `open_log`.

    Attributes:
        path: The first file.
        frames: The frames of all files, in order.
        torn: The torn frames that killed processes left at the end of files.
    """

    path: Path
    frames: Sequence[Frame]
    torn: Sequence[Torn]

    @property
    def begin(self) -> float:
        """The first instant of the log."""
        return self.frames[0].at

    @property
    def end(self) -> float:
        """The first instant of the last frame. The last entry is at most about a second later."""
        return self.frames[-1].at

    def entries(self, start: int = 0) -> Iterator[e.AnyEntry]:
        """Return the entries from the frame with an index on.

        Raises:
            BadLog: A frame is damaged.
        """
        for frame in self.frames[start:]:
            yield from entries_of(frame)

    def first(self) -> e.Began:
        """Return the first entry.

        Raises:
            BadLog: The log does not begin with a `Began`, or has a format that this program does not read.
        """
        began = next(self.entries(), None)
        if not isinstance(began, e.Began):
            raise BadLog(f"{self.path}: the log does not say how its recording began")
        if began.format != e.FORMAT:
            raise BadLog(
                f"{self.path}: format {began.format}, written by strato {began.strato}; this one reads {e.FORMAT}"
            )
        return began

    def start_for(self, instant: float) -> int:
        """Return the index of the last frame from which the state at an instant can be built.

        It holds the beginning of a recording, or that of a snapshot whose objects have all been written.

        Raises:
            UsageError: The log begins after the instant.
        """
        if instant < self.begin:
            raise UsageError(f"{self.path} begins at {self.begin:.3f}, after the instant {instant:.3f}")
        candidates = [n for n, f in enumerate(self.frames) if f.flags & (SNAPSHOT | BEGINNING) and f.at <= instant]
        for number in reversed(candidates):
            if self._is_whole(number, instant):
                return number
        return candidates[0]

    def _is_whole(self, number: int, instant: float) -> bool:
        """Whether the state at an instant can be built from the entries from a frame on."""
        snapshot = 0
        for entry in self.entries(number):
            match entry:
                case e.Began(continues=False):
                    return True
                case e.SnapshotBegan() if not snapshot:
                    snapshot = entry.number
                case e.SnapshotBegan():
                    return False
                case e.SnapshotEnded():
                    return entry.number == snapshot
                case e.Instant() if entry.at > instant and not snapshot:
                    return False
                case _:
                    pass
        return False


def open_log(path: Path) -> Log:
    """Open a log by reading the heads of its frames.

    Raises:
        BadLog: There is no such log, it is empty, or a head is damaged.
    """
    files = files_of(path)
    if not files:
        raise BadLog(f"{path}: there is no such log")
    found: list[Frame] = []
    torn: list[Torn] = []
    for file in files:
        for one in frames.scan(file):
            if isinstance(one, Torn):
                torn.append(one)
            else:
                found.append(one)
    if not found:
        raise BadLog(f"{path}: the log holds nothing yet")
    log = Log(path, found, torn)
    log.first()
    return log


def entries_of(frame: Frame) -> list[e.AnyEntry]:
    """Return the entries of a frame.

    Raises:
        BadLog: The frame is damaged.
    """
    try:
        return e.unpack(frames.read(frame))
    except UNDECODABLE as error:
        raise BadLog(f"{frame.path}: byte {frame.offset}: the frame holds no entries: {error}") from error
