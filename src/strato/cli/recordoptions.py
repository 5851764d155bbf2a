"""Options of a scheduler that records its state and decisions in a log; see `strato.sim.recording`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from strato.cli.optiongroups import option_group
from strato.cli.quantities import BYTES
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.clock import Clock
    from strato.sim.recording.anonymise import Anonymiser
    from strato.sim.recording.recorder import LogRecorder

KEY_VARIABLE = "STRATO_RECORD_KEY"
"""Environment variable with the secret by which names are hashed."""


class LogFile(click.Path):
    """The name of a log: never standard output, as a log is several files."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the name."""
        if str(value) == "-":
            self.fail("'-': a log is files, one after another, and not standard output; name one", param, ctx)
        return super().convert(value, param, ctx)


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and where the scheduler's log is written."""

    file: str = ""
    """Path of the log; empty records nothing."""
    anonymise: bool = False
    file_bytes: int = 256 << 20
    """Size in bytes after which another file of the log is begun."""
    keep: int = 0
    """How many files of the log are kept; 0 keeps all."""


def _read(*, record: Path | None, record_anonymised: bool, record_file_size: int, record_keep: int) -> RecordOptions:
    if record is None or record == Path():  # the chart passes an empty path to record nothing
        return RecordOptions()
    return RecordOptions(
        file=str(record.absolute()), anonymise=record_anonymised, file_bytes=record_file_size, keep=record_keep
    )


record_options = option_group(
    "record",
    _read,
    (
        click.option(
            "--record",
            type=LogFile(),
            default=None,
            metavar="LOG",
            help="Write what the scheduler knows and decides into a log, for 'sim replay'.",
        ),
        click.option(
            "--record-anonymised",
            is_flag=True,
            help=f"With names hashed, by the secret in {KEY_VARIABLE} or one that is forgotten.",
        ),
        click.option(
            "--record-file-size",
            type=BYTES,
            default="256Mi",
            show_default=True,
            help="After so much the log goes on in LOG.1, LOG.2 …",
        ),
        click.option(
            "--record-keep",
            type=click.IntRange(0),
            default=0,
            metavar="N",
            help="Keep so many files, the newest.  [default: all]",
        ),
    ),
)
"""Adds the options to a command, which takes them as ``record``."""


F = TypeVar("F", bound=Callable[..., Any])


def log_options(command: F) -> F:
    """Add the options by which a command takes the state from a recorded log: ``log_path`` and ``at``."""
    path = click.Path(path_type=Path, dir_okay=False)
    with_at = click.option(
        "--at", default=None, metavar="INSTANT", help="… as it was then: a date or +90s.  [default: its end]"
    )(command)
    return click.option("--log", "log_path", type=path, default=None, help="Take it from a recorded log …")(with_at)


def recorder_of(options: RecordOptions, clock: Clock) -> LogRecorder | None:
    """Return the log's recorder, None if none is wanted.

    Raises:
        UsageError: The log cannot be written.
    """
    if not options.file:
        return None
    from strato.sim.recording.recorder import LogRecorder
    from strato.sim.recording.segments import LogFiles

    check_keep(options.keep, "--record-keep")
    files = LogFiles(Path(options.file), file_bytes=options.file_bytes, keep=options.keep)
    return LogRecorder(files, clock, hiding=anonymiser() if options.anonymise else None)


def check_keep(keep: int, flag: str) -> None:
    """Refuse to keep only one file: a new file begins without the old one's history.

    Raises:
        UsageError: ``keep`` is 1.
    """
    if keep == 1:
        raise UsageError(f"{flag} 1: a new file needs the one before until it has a snapshot; keep 2 or more")


def anonymiser() -> Anonymiser:
    """Return the anonymiser of names, keyed by the secret in the environment if there is one."""
    from strato.sim.recording.anonymise import Anonymiser

    secret = os.environ.get(KEY_VARIABLE)
    return Anonymiser(secret.encode() if secret else None)


def recorded(recorder: LogRecorder | None, run: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return work that closes the log when it ends, so that the log is complete."""
    if recorder is None:
        return run

    async def wrapper() -> None:
        try:
            await run()
        finally:
            recorder.close()

    return wrapper
