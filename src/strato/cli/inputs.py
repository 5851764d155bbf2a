"""What people give on a command line, checked before it is used: names and text files."""

from __future__ import annotations

import re
from pathlib import Path

import click

from strato.errors import UsageError


class NameType(click.ParamType[str]):
    """The name of an object: never empty, so that a script's empty variable means no collection."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        text = str(value)
        if not text or "/" in text:
            self.fail(f"{text!r} is no name of an object; give it without a namespace, for example train", param, ctx)
        return text


class LabelType(click.ParamType[str]):
    """A name that is a DNS label: of a namespace to be made."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        text = str(value)
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
            self.fail(f"{text!r} is no name of a namespace: lower-case letters, digits and '-', at most 63", param, ctx)
        return text


NAME = NameType()
LABEL = LabelType()


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UsageError: It cannot be read, or is no text.
    """
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
        ) from error
