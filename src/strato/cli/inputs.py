"""Types of command-line parameters that check names, selectors and input files before they are used."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from strato.errors import UsageError


class NameType(click.ParamType[str]):
    """The name of an object: never empty, since the path of an empty name is the whole collection's."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        text = str(value)
        if not text or "/" in text:
            self.fail(f"{text!r} is no name of an object; give it without a namespace, for example train", param, ctx)
        return text


class LabelType(click.ParamType[str]):
    """The name of a namespace to be created: a DNS label."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        text = str(value)
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
            self.fail(f"{text!r} is no name of a namespace: lower-case letters, digits and '-', at most 63", param, ctx)
        return text


class NewNameType(NameType):
    """The name of an object to be created: a lowercase RFC 1123 subdomain."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        text = super().convert(value, param, ctx)
        if problem := new_name_problem(text):
            self.fail(problem, param, ctx)
        return text


def new_name_problem(text: str) -> str:
    """Return why an object cannot be created with that name, "" when it can."""
    part = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
    if len(text) <= 253 and re.fullmatch(rf"{part}(\.{part})*", text):
        return ""
    return f"{text!r} is no name: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"


class SelectorType(click.ParamType[str]):
    """A label selector."""

    name = "selector"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        from strato.api.selectors import InvalidSelector, parse_selector

        text = str(value)
        try:
            parse_selector(text)
        except InvalidSelector as error:
            self.fail(f"{text!r}: {error}", param, ctx)
        return text


NAME = NameType()
NEW_NAME = NewNameType()
SELECTOR = SelectorType()
LABEL = LabelType()


STDIN = Path("/dev/stdin")


class InputFile(click.ParamType[Path]):
    """A file to be read; ``-`` is standard input."""

    name = "path"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return its path."""
        return STDIN if str(value) == "-" else Path(str(value))


FOLDER = click.Path(path_type=Path, file_okay=False)
"""A folder that exists or will be created; not a file."""
INPUT_FILE = InputFile()


def read_text(path: Path) -> str:
    """Return the text of a file, of standard input for ``-``.

    Raises:
        UsageError: The file cannot be read, or is not UTF-8.
    """
    is_stdin = path == STDIN or str(path) == "-"
    name = "standard input" if is_stdin else path
    try:
        return (sys.stdin.buffer.read() if is_stdin else path.read_bytes()).decode()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name}: is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
        ) from error


@contextmanager
def seekable(path: Path) -> Iterator[Path]:
    """Yield a seekable file: standard input is copied to a temporary file first."""
    if path != STDIN:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="strato-stdin-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)
