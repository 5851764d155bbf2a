"""Parse command lines and print help as Go programs with cobra and pflag do, Volcano's among them.

A flag stands anywhere after its command and is written ``--flag value``, ``--flag=value``, ``-f value``, ``-fvalue`` or
``-f=value``; if it is repeated, the last one counts. Other words after a verb are ignored. A group without a verb shows
its help.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strato.units import duration_seconds

Values = Mapping[str, Any]

FLAG_ERROR = 1
"""Exit status after a command line that cannot be parsed."""


class FlagError(Exception):
    """A command line cannot be parsed; ``usage`` is the text to print before the message."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class HelpWanted(Exception):
    """The command line contains ``-h`` or ``--help``."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: its name, letter, type as help shows it, and default."""

    name: str
    short: str
    help: str
    type: str = "string"
    """``string``, ``int``, ``int32``, ``bool``, ``duration``, ``Level`` or ``moduleSpec``."""
    default: Any = ""

    @property
    def shown(self) -> str:
        """The flag as error messages name it."""
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"

    def head(self) -> str:
        """Return the beginning of the flag's line in the help: letter, name and type."""
        start = f"  -{self.short}, --{self.name}" if self.short else f"      --{self.name}"
        return start if self.type == "bool" else f"{start} {self.type}"

    def tail(self) -> str:
        """Return the description with the default, which is not shown when it is empty or zero."""
        if self.default in ("", 0, False):
            return self.help
        shown = json.dumps(self.default) if self.type == "string" else self.default
        return f"{self.help} (default {shown})"

    def read(self, text: str) -> Any:
        """Return the value that a text means.

        Raises:
            FlagError: The text is no value of the flag's type.
        """
        try:
            return _READERS[self.type](text)
        except ValueError as error:
            raise FlagError(f"invalid argument {_quoted(text)} for {_quoted(self.shown)} flag: {error}") from None


HELP = Flag("help", "h", "show this help", "bool", False)
LOGGING = (
    Flag("log-flush-frequency", "", "taken and ignored", "duration", "5s"),
    Flag("v", "v", "taken and ignored", "Level"),
    Flag("vmodule", "", "taken and ignored", "moduleSpec"),
)
"""Flags of klog, Go's logging library, which every program of Volcano's has."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program, a group or a verb."""

    name: str
    help: str = ""
    """One line of help in our words; scripts that parse help rely on names and flags only."""
    flags: tuple[Flag, ...] = ()
    run: Callable[[Values], None] | None = None
    """None for a group, which shows its help."""
    commands: tuple[Command, ...] = ()
    example: str = ""

    def find(self, name: str) -> Command | None:
        """Return the command below this one that has a name."""
        return next((command for command in self.commands if command.name == name), None)


Path = tuple[Command, ...]
"""A command preceded by its parents, the program first."""


def resolve(program: Command, args: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the command that the arguments name, and the arguments left for its flags.

    Raises:
        FlagError: The program has no such command.
    """
    path: Path = (program,)
    rest = list(args)
    while True:
        named = _first_word(rest, path)
        below = path[-1].find(named[1]) if named else None
        if named is None or below is None:
            break
        del rest[named[0]]
        path = (*path, below)
    if named and len(path) == 1 and program.commands:
        raise FlagError(f'unknown command "{named[1]}" for "{program.name}"{_meant(named[1], program)}')
    return path, rest


def _first_word(args: Sequence[str], path: Path) -> tuple[int, str] | None:
    """Return the first word that is neither a flag nor a flag's value; unknown flags are assumed to have a value."""
    alone = {f"--{flag.name}" for flag in flags_of(path) if flag.type == "bool" and flag is not HELP}
    index = 0
    while index < len(args):
        word = args[index]
        if word == "--":
            return None
        takes_value = "=" not in word and (word.startswith("--") or (word.startswith("-") and len(word) == 2))
        if word and not word.startswith("-"):
            return index, word
        index += 2 if takes_value and word not in alone else 1
    return None


def _meant(word: str, program: Command) -> str:
    """Return cobra's suggestion ("Did you mean this?") of names similar to the one typed."""
    names = [command.name for command in program.commands if command.name != "help"]
    near = [name for name in names if _distance(word.lower(), name) <= 2 or name.startswith(word.lower())]
    lines = "".join(f"\t{name}\n" for name in near)
    return f"\n\nDid you mean this?\n{lines}" if near else ""


def _distance(left: str, right: str) -> int:
    """Return the Levenshtein distance, exact up to the 2 that count here."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row, above = [i], row
        for j, b in enumerate(right, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def flags_of(path: Path) -> list[Flag]:
    """Return every flag of a command, by name."""
    return sorted([*path[-1].flags, HELP, *LOGGING], key=lambda flag: flag.name)


def read_flags(path: Path, args: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's flags.

    Raises:
        FlagError: A flag is unknown, lacks its value, or has a value of another type.
        HelpWanted: Help was asked for.
    """
    flags = flags_of(path)
    long = {flag.name: flag for flag in flags}
    short = {flag.short: flag for flag in flags if flag.short}
    values = {flag.name: flag.default for flag in flags}
    words = iter(args)
    for word in words:
        if word == "--":
            break
        given = _long(word, words, long) if word.startswith("--") else _short(word, words, short)
        values.update({flag.name: flag.read(text) for flag, text in given})
        if values["help"]:
            raise HelpWanted
    return values


def _long(word: str, words: Iterator[str], flags: Mapping[str, Flag]) -> Iterator[tuple[Flag, str]]:
    name, equals, text = word[2:].partition("=")
    if not name or name.startswith("-"):
        raise FlagError(f"bad flag syntax: {word}")
    flag = flags.get(name.replace("_", "-"))
    if flag is None:
        raise FlagError(f"unknown flag: --{name}")
    if not equals:
        text = "true" if flag.type == "bool" else _value(words, f"flag needs an argument: --{name}")
    yield flag, text


def _short(word: str, words: Iterator[str], flags: Mapping[str, Flag]) -> Iterator[tuple[Flag, str]]:
    letters = word[1:] if word.startswith("-") else ""
    while letters:
        letter, rest = letters[0], letters[1:]
        flag = flags.get(letter)
        if flag is None:
            raise FlagError(f"unknown shorthand flag: '{letter}' in -{letters}")
        if len(rest) > 1 and rest.startswith("="):
            text, letters = rest[1:], ""
        elif flag.type == "bool":
            text, letters = "true", rest
        elif rest:
            text, letters = rest, ""
        else:
            text, letters = _value(words, f"flag needs an argument: '{letter}' in -{letters}"), ""
        yield flag, text


def _value(words: Iterator[str], missing: str) -> str:
    for word in words:
        return word
    raise FlagError(missing)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _whole_number(bits: int, base: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        problem = f"strconv.ParseInt: parsing {_quoted(text)}: "
        digits = re.sub(r"^([+-]?)0(?=[0-7]+$)", r"\g<1>0o", text) if not base else text
        try:
            number = int(digits, base or 0) if text.isascii() and text == text.strip() else None
        except ValueError:
            number = None
        if number is None or (base and "_" in text):
            raise ValueError(f"{problem}invalid syntax")
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{problem}value out of range")
        return number

    return read


def _truth(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError(f"strconv.ParseBool: parsing {_quoted(text)}: invalid syntax")


def _duration(text: str) -> str:
    try:
        duration_seconds(text)
    except ValueError:
        raise ValueError("parse error") from None
    return text


def _modules(text: str) -> str:
    if any(part and not re.fullmatch(r"[^=]+=[^=]+", part) for part in text.split(",")):
        raise ValueError("syntax error: expect comma-separated list of filename=N")
    return text


_READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "int": _whole_number(64, 0),
    "int32": _whole_number(32, 0),
    "bool": _truth,
    "duration": _duration,
    "Level": _whole_number(32, 10),
    "moduleSpec": _modules,
}


def help_text(path: Path) -> str:
    """Return the help of a command."""
    head = f"{path[-1].help}\n\n" if path[-1].help else ""
    return head + usage_text(path)


def usage_text(path: Path, help_flag: Flag | None = HELP) -> str:
    """Return the usage of a command with its flags, which is its help without the first line."""
    own = [*path[-1].flags, *([help_flag] if help_flag else [])]
    command, name = path[-1], " ".join(part.name for part in path)
    parts = [f"Usage:\n  {name} {'[command]' if command.commands else '[flags]'}\n"]
    if command.example:
        parts.append(f"Examples:\n{command.example}\n")
    if command.commands:
        width = max(11, *(len(below.name) for below in command.commands))
        lines = (f"  {below.name:{width}} {below.help}\n" for below in sorted(command.commands, key=lambda c: c.name))
        parts.append(f"Available Commands:\n{''.join(lines)}")
    if len(path) == 1:
        parts.append(f"Flags:\n{_flag_lines([*own, *LOGGING])}")
    else:
        parts.append(f"Flags:\n{_flag_lines(own)}")
        parts.append(f"Global Flags:\n{_flag_lines(LOGGING)}")
    if command.commands:
        parts.append(f'Use "{name} [command] --help" for more information about a command.\n')
    return "\n".join(parts)


def _flag_lines(flags: Sequence[Flag]) -> str:
    width = max(len(flag.head()) for flag in flags) + 3
    return "".join(f"{flag.head():{width}}{flag.tail()}\n" for flag in sorted(flags, key=lambda flag: flag.name))
