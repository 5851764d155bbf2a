"""A batch script and the lines in it that are options: ``#SBATCH …`` and ``#STRATO …``. Pure."""

from __future__ import annotations

import base64
import re
import shlex
from dataclasses import dataclass
from typing import Final

from strato.errors import InvalidInput, Problem, UsageError

LARGEST_BYTES: Final = 900_000
"""Largest script that fits into a ConfigMap with its metadata."""
LONGEST_LINE: Final = 16_384
"""Longest line of options in characters: splitting it takes time quadratic in its longest word."""
MOST_DIRECTIVES: Final = 1000
"""Most lines of options: every one is parsed alone, so that messages name it."""
_DIRECTIVE = re.compile(r"#(SBATCH|STRATO)\s+(.*)")


@dataclass(frozen=True, slots=True)
class Directive:
    """One line of options."""

    line: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A script with its interpreter line, and its directives."""

    name: str
    """Name of its file, with which messages begin."""
    body: bytes
    directives: tuple[Directive, ...]

    @classmethod
    def read(cls, name: str, body: bytes) -> Script:
        """Find the options of a script: those before its first command.

        Raises:
            UsageError: The script cannot be run, or a line of options cannot be parsed.
        """
        if not body.startswith(b"#!"):
            raise UsageError(f"{name}: is no batch script: its first line must be #! and an interpreter, as #!/bin/sh")
        if b"\r\n" in body:
            raise UsageError(f"{name}: has DOS line breaks; convert it, for example with dos2unix")
        if len(body) > LARGEST_BYTES:
            raise UsageError(f"{name}: has more than {LARGEST_BYTES} bytes, all that a script may have")
        directives: list[Directive] = []
        problems: list[Problem] = []
        for number, line in enumerate(body.decode(errors="replace").split("\n"), 1):
            if line.strip() and not line.startswith("#"):
                break
            found = _DIRECTIVE.match(line)
            if found is None:
                continue
            if len(line) > LONGEST_LINE:
                problems.append(Problem(f"line {number}", f"has more than {LONGEST_LINE} characters"))
                continue
            try:
                directives.append(Directive(number, tuple(shlex.split(found[2], comments=True))))
            except ValueError as error:
                problems.append(Problem(f"line {number}", f"{error}: {line.strip()}"))
        if problems:
            raise InvalidInput(name, problems)
        if len(directives) > MOST_DIRECTIVES:
            raise UsageError(f"{name}: has {len(directives)} lines of options, at most {MOST_DIRECTIVES} may be")
        return cls(name, body, tuple(directives))

    def data(self) -> dict[str, dict[str, str]]:
        """Return the data of the ConfigMap that holds the script."""
        try:
            return {"data": {"script": self.body.decode()}}
        except UnicodeDecodeError:
            return {"binaryData": {"script": base64.b64encode(self.body).decode()}}


def wrapped(command: str) -> Script:
    """Return the script that runs one command, as ``--wrap`` has it."""
    return Script("wrap", f"#!/bin/sh\n{command}\n".encode(), ())
