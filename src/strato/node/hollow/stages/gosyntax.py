"""Parser of the part of Go templates that stages use; refuses any other syntax and names it. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from strato.errors import UsageError
from strato.node.hollow.stages.tokens import tokens

_LONGEST: Final = 256 << 10
_DEEPEST: Final = 64
_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\\n]|\\.)*\")|(?P<raw>`[^`]*`)|(?P<number>[+-]?\d+(?:\.\d+)?)"
    r"|(?P<field>(?:\.[A-Za-z_]\w*)+)|(?P<variable>\$\w*)|(?P<word>[A-Za-z_]\w*)|(?P<sign>:=|=|\||\(|\)|,|\.))",
)
_UNKNOWN_KEYWORDS: Final = frozenset({"define", "template", "block", "break", "continue"})


class BadTemplate(UsageError):
    """A template cannot be parsed, or uses unsupported syntax."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: object


@dataclass(frozen=True, slots=True)
class Path:
    """Members of the dot (``name`` is None), a variable or another operand."""

    of: Operand | None
    variable: str | None
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function by its name, with arguments."""

    function: str
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands; each takes the result of the one before as its last argument."""

    commands: tuple[Operand, ...]
    variables: tuple[str, ...] = ()
    """Variables that take its value; ``range`` may have two."""
    declares: bool = False
    """Whether the variables are new."""


Operand = Literal | Path | FunctionCall | Pipeline


@dataclass(slots=True)
class Text:
    """Text to be copied."""

    text: str


@dataclass(slots=True)
class Print:
    """``{{ pipeline }}``; prints nothing if it sets a variable."""

    pipeline: Pipeline


@dataclass(slots=True)
class Branch:
    """``if``, ``with`` or ``range``, up to its ``end``."""

    kind: str
    pipeline: Pipeline
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


Node = Text | Print | Branch


def parse_template(text: str, functions: Container[str]) -> list[Node]:
    """Read a template.

    Args:
        text: The template; spaces around it are dropped.
        functions: Names of the known functions.

    Raises:
        BadTemplate: It cannot be parsed, or uses unsupported syntax or functions.
    """
    if len(text) > _LONGEST:
        raise BadTemplate(f"a template of more than {_LONGEST} characters")
    root: list[Node] = []
    stack: list[tuple[Branch, bool]] = []
    current = root
    for piece, is_action in _pieces(text.strip()):
        if not is_action:
            current.append(Text(piece))
            continue
        keyword, _, rest = piece.partition(" ") if " " in piece else (piece, "", "")
        if keyword in _UNKNOWN_KEYWORDS:
            raise BadTemplate(f"{{{{ {piece} }}}}: {keyword} is not understood here")
        if keyword in ("if", "with", "range"):
            branch = Branch(keyword, _Parser(rest, functions, is_range=keyword == "range").pipeline())
            current.append(branch)
            stack.append((branch, False))
            current = branch.body
        elif keyword == "else":
            if not stack:
                raise BadTemplate("{{ else }} without an if, with or range")
            branch = stack[-1][0]
            current = branch.otherwise
            if rest.strip():
                inner_kind, _, condition = rest.strip().partition(" ")
                if inner_kind not in ("if", "with"):
                    raise BadTemplate(f"{{{{ {piece} }}}} is not understood")
                inner = Branch(inner_kind, _Parser(condition, functions).pipeline())
                current.append(inner)
                stack.append((inner, True))
                current = inner.body
        elif keyword == "end":
            if not stack:
                raise BadTemplate("{{ end }} without an if, with or range")
            while stack.pop()[1]:
                pass
            current = _open_body(stack, root)
        elif piece:
            current.append(Print(_Parser(piece, functions).pipeline()))
        if len(stack) > _DEEPEST:
            raise BadTemplate("nested too deeply")
    if stack:
        raise BadTemplate(f"{{{{ {stack[-1][0].kind} … }}}} without an end")
    return root


def _open_body(stack: Sequence[tuple[Branch, bool]], root: list[Node]) -> list[Node]:
    if not stack:
        return root
    branch = stack[-1][0]
    return branch.otherwise if branch.otherwise else branch.body


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Split a template into text and actions; applies trim markers and drops comments."""
    pieces: list[tuple[str, bool]] = []
    place, trims = 0, False
    while True:
        start = text.find("{{", place)
        plain = text[place:] if start < 0 else text[place:start]
        if trims:
            plain = plain.lstrip(" \t\r\n")
        if start < 0:
            pieces.append((plain, False))
            return pieces
        end = _end_of_action(text, start + 2)
        action = text[start + 2 : end]
        if action[:2] in ("- ", "-\n", "-\t"):
            plain, action = plain.rstrip(" \t\r\n"), action[2:]
        trims = action[-2:] in (" -", "\n-", "\t-")
        action = (action[:-2] if trims else action).strip()
        pieces.append((plain, False))
        if not (action.startswith("/*") and action.endswith("*/")):
            pieces.append((" ".join(action.split("\n")), True))
        place = end + 2


def _end_of_action(text: str, start: int) -> int:
    """Return the position of the first ``}}`` outside of string literals."""
    if text[start:].lstrip("- \n\t").startswith("/*"):
        closed = text.find("*/", start)
        end = text.find("}}", closed) if closed >= 0 else -1
    else:
        place, end = start, -1
        while place < len(text):
            char = text[place]
            if char in '"`':
                place += 1
                while place < len(text) and text[place] != char:
                    place += 2 if char == '"' and text[place] == "\\" else 1
            elif text.startswith("}}", place):
                end = place
                break
            place += 1
    if end < 0:
        raise BadTemplate(f"{text[start - 2 : start + 30]!r}: an action without its end")
    return end


class _Parser:
    """Reads one action."""

    def __init__(self, text: str, functions: Container[str], *, is_range: bool = False) -> None:
        self._text, self._functions, self._is_range = text, functions, is_range
        self._tokens: list[tuple[str, str, bool]] = []
        """Kind, text, and whether there is space before it."""
        self._at = 0
        self._depth = 0
        for match in tokens(_TOKEN, text, lambda rest: BadTemplate(f"{{{{ {text.strip()} }}}}: {rest}")):
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind], match.start(kind) > match.start() or match.start() == 0))

    def pipeline(self) -> Pipeline:
        """Read a whole action."""
        variables, declares = self._assignment()
        found = self._pipeline()
        if self._at < len(self._tokens):
            self._refuse()
        return Pipeline(found.commands, variables, declares)

    def _assignment(self) -> tuple[tuple[str, ...], bool]:
        names, place = [], 0
        while place < len(self._tokens) and self._tokens[place][0] == "variable":
            names.append(self._tokens[place][1])
            place += 1
            sign = self._tokens[place][1] if place < len(self._tokens) else ""
            if sign in (":=", "="):
                if len(names) > (2 if self._is_range else 1):
                    self._refuse()
                self._at = place + 1
                return tuple(names), sign == ":="
            if sign != ",":
                break
            place += 1
        return (), False

    def _pipeline(self) -> Pipeline:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadTemplate(f"{{{{ {self._text} }}}} is nested too deeply")
        commands = [self._command()]
        while self._take("|"):
            commands.append(self._command())
        self._depth -= 1
        if any(not isinstance(command, FunctionCall) for command in commands[1:]):
            raise BadTemplate(f"{{{{ {self._text} }}}}: only functions can come after |")
        return Pipeline(tuple(commands))

    def _command(self) -> Operand:
        if self._kind() == "word" and self._tokens[self._at][1] not in ("true", "false", "nil"):
            name = self._tokens[self._at][1]
            if name not in self._functions:
                raise BadTemplate(f"{{{{ {self._text} }}}}: function {name} is not known to these nodes")
            self._at += 1
            arguments = []
            while self._at < len(self._tokens) and self._tokens[self._at][1] not in ("|", ")", ","):
                arguments.append(self._operand())
            return FunctionCall(name, tuple(arguments))
        found = self._operand()
        if self._at < len(self._tokens) and self._tokens[self._at][1] not in ("|", ")"):
            self._refuse()
        return found

    def _operand(self) -> Operand:
        if self._at >= len(self._tokens):
            raise BadTemplate(f"{{{{ {self._text} }}}} ends where a value is expected")
        kind, text, _ = self._tokens[self._at]
        self._at += 1
        if kind == "text":
            return Literal(_unquoted(text))
        if kind == "raw":
            return Literal(text[1:-1])
        if kind == "number":
            return Literal(float(text) if "." in text else int(text))
        if kind == "variable":
            return Path(None, text, self._members())
        if kind == "field":
            return Path(None, None, tuple(text[1:].split(".")))
        if kind == "word":
            if text in _CONSTANTS:
                return Literal(_CONSTANTS[text])
            self._at -= 1
            return FunctionCall(self._function(), ())
        if text == ".":
            return Path(None, None, ())
        if text != "(":
            self._at -= 1
            self._refuse()
        inner = self._pipeline()
        if not self._take(")"):
            self._refuse()
        members = self._members()
        return Path(inner, None, members) if members else inner

    def _function(self) -> str:
        name = self._tokens[self._at][1]
        if name not in self._functions:
            raise BadTemplate(f"{{{{ {self._text} }}}}: function {name} is not known to these nodes")
        self._at += 1
        return name

    def _members(self) -> tuple[str, ...]:
        """Take members that follow without a space."""
        if self._kind() != "field" or self._tokens[self._at][2]:
            return ()
        self._at += 1
        return tuple(self._tokens[self._at - 1][1][1:].split("."))

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self, text: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][:2] == ("sign", text):
            self._at += 1
            return True
        return False

    def _refuse(self) -> NoReturn:
        what = repr(self._tokens[self._at][1]) if self._at < len(self._tokens) else "its end"
        raise BadTemplate(f"{{{{ {self._text.strip()} }}}}: {what} is not understood")


_CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "nil": None}


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError) as error:
        raise BadTemplate(f"{text} is no text: {error}") from error
