"""Files that commands write: checked when the command line is read, before any work, and replaced whole at its end."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from strato.errors import StateError


@dataclass(frozen=True, slots=True)
class OutputFile:
    """Where a command writes its result."""

    path: Path | None
    """Path of the file; None is standard output."""

    def __str__(self) -> str:
        return "standard output" if self.path is None else str(self.path)

    def write(self, data: bytes) -> None:
        """Write the data to a temporary file that then replaces the old one, whose content stays until then.

        Raises:
            StateError: It cannot be written any more.
        """
        if self.path is None:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
            return
        try:
            if self.path.exists() and not self.path.is_file():  # a pipe, a terminal, /dev/null
                self.path.write_bytes(data)
                return
            target = self.path.resolve()  # replace the link's target, not the link
            draft = target.with_name(f".{target.name}.new")
            try:
                draft.write_bytes(data)
                os.replace(draft, target)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"{self.path} cannot be written: {error.strerror}") from error


class OutputFileType(click.ParamType[OutputFile]):
    """A file to be written; ``-`` is standard output. A note tells the user that an existing file will be replaced."""

    name = "path"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> OutputFile:
        """Check that it can be written."""
        if isinstance(value, OutputFile):
            return value
        if str(value) == "-":
            return OutputFile(None)
        path = Path(str(value))
        problem = problem_with(path)
        if problem:
            self.fail(f"{path} cannot be written: {problem}", param, ctx)
        if path.is_file():
            click.echo(f"note: {path} exists and will be replaced", err=True)
        return OutputFile(path)


def problem_with(path: Path) -> str:
    """Return why a file cannot be written, or ""; leaves an existing file unchanged."""
    try:
        if path.is_dir():
            return "it is a directory; name a file in it"
        folder = path.resolve().parent
        if not folder.is_dir():
            return f"there is no directory {folder}"
        if path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        if not path.exists() or path.is_file():
            probe = folder / f".{path.name}.{os.getpid()}.probe"
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            probe.unlink()
    except (OSError, ValueError, RuntimeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


OUTPUT_FILE = OutputFileType()
