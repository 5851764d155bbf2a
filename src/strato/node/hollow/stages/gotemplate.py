"""Renderer of the part of Go templates that stages use: from a parsed template and an object to text. Pure.

Values are JSON's. A number of the object keeps its original text (`Number`), as in kwok.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from strato.node.hollow.stages.gosyntax import (
    BadTemplate,
    Branch,
    FunctionCall,
    Literal,
    Node,
    Operand,
    Path,
    Pipeline,
    Print,
    Text,
    parse_template,
)

_MOST_CHARACTERS: Final = 4 << 20
"""Longest text that a template may render; a longer one is an attack."""
_MOST_STEPS: Final = 200_000
Functions = Mapping[str, Callable[..., Any]]


class Number(str):
    """The text of a number in an object."""

    __slots__ = ()


class TemplateFailed(Exception):
    """A template met a value that it cannot work with."""


class GoTemplate:
    """A parsed template.

    Args:
        text: The template's text in the stage.
        functions: Name → function, in addition to `FUNCTIONS`, which every template has.

    Raises:
        BadTemplate: It cannot be parsed, or uses unsupported syntax or functions.
    """

    def __init__(self, text: str, functions: Functions) -> None:
        self._functions = {**FUNCTIONS, **functions}
        self._nodes = parse_template(text, {*self._functions, *_LAZY})

    def render(self, value: object, functions: Functions | None = None) -> str:
        """Return the text made of a JSON value.

        Args:
            value: The dot.
            functions: Functions that replace those with the same names.

        Raises:
            TemplateFailed: A function got an argument of the wrong type, or the text is too long.
        """
        run = _Run(self._functions if functions is None else {**self._functions, **functions}, value)
        run.all(self._nodes, value, {"$": value})
        return "".join(run.parts)


class _Run:
    def __init__(self, functions: Functions, root: object) -> None:
        self._functions = functions
        self.parts: list[str] = []
        self._characters = 0
        self._steps = 0

    def all(self, nodes: Sequence[Node], dot: Any, variables: dict[str, Any]) -> None:
        for node in nodes:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise TemplateFailed("the template takes too many steps")
            if isinstance(node, Text):
                self._write(node.text)
            elif isinstance(node, Print):
                value = self._assign(node.pipeline, dot, variables)
                if not node.pipeline.variables:
                    self._write(printed(value))
            elif node.kind == "range":
                self._range(node, dot, variables)
            else:
                self._branch(node, dot, variables)

    def _write(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > _MOST_CHARACTERS:
            raise TemplateFailed("the template makes too much text")
        self.parts.append(text)

    def _assign(self, pipeline: Pipeline, dot: Any, variables: dict[str, Any]) -> Any:
        value = self._value(pipeline, dot, variables)
        for name in pipeline.variables:
            if pipeline.declares:
                variables[name] = [value]
            else:
                self._cell(name, variables)[0] = value
        return value

    @staticmethod
    def _cell(name: str, variables: dict[str, Any]) -> list[Any]:
        cell = variables.get(name)
        if not isinstance(cell, list) or name == "$":
            raise TemplateFailed(f"variable {name} is not known")
        return cell

    def _branch(self, node: Branch, dot: Any, variables: dict[str, Any]) -> None:
        # a copy of the names, with shared cells: assignments inside are visible outside, declarations are not
        inner = dict(variables)
        value = self._assign(node.pipeline, dot, inner)
        if is_true(value):
            self.all(node.body, value if node.kind == "with" else dot, inner)
        else:
            self.all(node.otherwise, dot, inner)

    def _range(self, node: Branch, dot: Any, variables: dict[str, Any]) -> None:
        value = self._value(node.pipeline, dot, variables)
        if value is None or value == "":
            items: list[tuple[Any, Any]] = []
        elif isinstance(value, Mapping):
            items = sorted(value.items())
        elif isinstance(value, list | tuple):
            items = list(enumerate(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            items = [(one, one) for one in range(min(value, _MOST_STEPS))]
        else:
            raise TemplateFailed(f"range cannot go over {printed(value)[:40]}")
        if not items:
            self.all(node.otherwise, dot, dict(variables))
        for key, item in items:
            inner = dict(variables)
            names = node.pipeline.variables
            for name, one in zip(names, (key, item) if len(names) == 2 else (item,), strict=False):
                inner[name] = [one]
            self.all(node.body, item, inner)

    def _value(self, operand: Operand, dot: Any, variables: dict[str, Any]) -> Any:
        if isinstance(operand, Literal):
            return operand.value
        if isinstance(operand, Path):
            return self._path(operand, dot, variables)
        if isinstance(operand, FunctionCall):
            return self._call(operand, dot, variables, ())
        value = self._value(operand.commands[0], dot, variables)
        for command in operand.commands[1:]:
            assert isinstance(command, FunctionCall), "the parser lets nothing else come after |"
            value = self._call(command, dot, variables, (value,))
        return value

    def _path(self, path: Path, dot: Any, variables: dict[str, Any]) -> Any:
        if path.variable == "$":
            value = variables["$"]
        elif path.variable is not None:
            value = self._cell(path.variable, variables)[0]
        else:
            value = dot if path.of is None else self._value(path.of, dot, variables)
        for member in path.members:
            if value is None:
                return None
            if not isinstance(value, Mapping):
                raise TemplateFailed(f"{printed(value)[:40]} has no member {member}")
            value = value.get(member)
        return value

    def _call(self, call: FunctionCall, dot: Any, variables: dict[str, Any], more: tuple[Any, ...]) -> Any:
        if call.function in _LAZY:
            stops_at, value = _LAZY[call.function], None
            for argument in (*call.arguments, *map(Literal, more)):
                value = self._value(argument, dot, variables)
                if is_true(value) is stops_at:
                    return value
            return value
        arguments = [self._value(argument, dot, variables) for argument in call.arguments]
        try:
            return self._functions[call.function](*arguments, *more)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise TemplateFailed(f"function {call.function}: {error}") from error


def is_true(value: object) -> bool:
    """Return whether a value is true in Go templates: neither zero nor empty."""
    return bool(value)


def printed(value: object) -> str:
    """Return a value as Go prints it."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{printed(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(printed, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain(value: Any) -> Any:
    """Return a value with each `Number` converted to int or float."""
    if isinstance(value, Number):
        return json.loads(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _quote(value: object) -> str:
    """Return the result of kwok's Quote: JSON in quotation marks."""
    text = json.dumps(plain(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text if text.startswith('"') else json.dumps(text, ensure_ascii=False)


def _yaml(value: object, indent: int = 0) -> str:
    """Return a value as YAML in JSON's syntax, indented so that it can stand below a key."""
    text = json.dumps(plain(value), sort_keys=True, ensure_ascii=False)
    return "\n" + "  " * indent + text if indent > 0 else text


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if value is None:
            raise TypeError("index of nothing")
        if isinstance(value, Mapping):
            value = value.get(str(key))
        elif isinstance(value, list | tuple | str):
            place = int(key)
            if not 0 <= place < len(value):
                raise IndexError(f"index out of range: {place}")
            value = value[place]
        else:
            raise TypeError(f"cannot index {printed(value)[:40]}")
    return value


def _equal(first: object, *others: object) -> bool:
    if not others:
        raise TypeError("eq wants two values or more")
    return any(_comparable(first, other) for other in others)


def _comparable(one: Any, other: Any) -> bool:
    if isinstance(one, Number) or isinstance(other, Number):
        return str(one) == str(other)
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _compare(one: Any, other: Any) -> float:
    first, second = plain(one), plain(other)
    if isinstance(first, str) and isinstance(second, str):
        return (first > second) - (first < second)
    return float(first - second)


def _printf(form: str, *values: Any) -> str:
    parts, rest = [], list(values)
    pieces = form.split("%")
    parts.append(pieces[0])
    skips = False
    for piece in pieces[1:]:
        if skips:
            parts.append(piece)
            skips = False
        elif piece == "":
            parts.append("%")
            skips = True
        elif piece[0] in "svdq" and rest:
            value = rest.pop(0)
            parts.append((_quote(str(value)) if piece[0] == "q" else printed(value)) + piece[1:])
        else:
            raise ValueError(f"{form!r}: only %s, %v, %d, %q and %% are understood, each with its value")
    if rest:
        raise ValueError(f"{form!r} takes fewer values")
    return "".join(parts)


def _dict(*pairs: Any) -> dict[str, Any]:
    return {str(key): value for key, value in zip(pairs[::2], [*pairs[1::2], ""], strict=False)}


def _number(value: Any) -> Any:
    found = plain(value)
    return int(float(found)) if isinstance(found, str) else int(found or 0)


def _sum(*values: Any) -> int:
    return sum(map(_number, values))


def _replace(old: str, new: str, text: str) -> str:
    if len(text) * max(1, len(new)) > _MOST_CHARACTERS:
        raise ValueError("too much text")
    return text.replace(old, new)


_LAZY: Final = {"or": True, "and": False}
"""Functions that stop at the first argument with this truth value."""
FUNCTIONS: Final[Functions] = {
    "not": lambda value: not is_true(value),
    "eq": _equal,
    "ne": lambda one, other: not _comparable(one, other),
    "lt": lambda one, other: _compare(one, other) < 0,
    "le": lambda one, other: _compare(one, other) <= 0,
    "gt": lambda one, other: _compare(one, other) > 0,
    "ge": lambda one, other: _compare(one, other) >= 0,
    "index": _index,
    "len": lambda value: len(value),
    "print": lambda *values: "".join(map(printed, values)),
    "printf": _printf,
    "Quote": _quote,
    "YAML": _yaml,
    "dict": _dict,
    "list": lambda *values: list(values),
    "get": lambda value, key: value.get(key, ""),
    "hasKey": lambda value, key: key in value,
    "default": lambda otherwise, value=None: value if is_true(value) else otherwise,
    "empty": lambda value=None: not is_true(value),
    "coalesce": lambda *values: next((value for value in values if is_true(value)), None),
    "ternary": lambda yes, no, condition: yes if condition else no,
    "quote": lambda *values: " ".join(json.dumps(printed(value), ensure_ascii=False) for value in values),
    "squote": lambda *values: " ".join(f"'{printed(value)}'" for value in values),
    "upper": lambda text: str(text).upper(),
    "lower": lambda text: str(text).lower(),
    "trim": lambda text: str(text).strip(),
    "trimPrefix": lambda prefix, text: str(text).removeprefix(prefix),
    "trimSuffix": lambda suffix, text: str(text).removesuffix(suffix),
    "hasPrefix": lambda prefix, text: str(text).startswith(prefix),
    "hasSuffix": lambda suffix, text: str(text).endswith(suffix),
    "contains": lambda part, text: part in text,
    "replace": _replace,
    "join": lambda sign, values: str(sign).join(map(printed, values)),
    "toString": printed,
    "toJson": lambda value: json.dumps(plain(value), separators=(",", ":"), sort_keys=True),
    "int": _number,
    "add": _sum,
    "sub": lambda one, other: _number(one) - _number(other),
    "mul": lambda one, other: _number(one) * _number(other),
    "max": lambda *values: max(map(_number, values)),
    "min": lambda *values: min(map(_number, values)),
}
"""The functions of every template: Go's own, those of kwok that need no node, and common ones of sprig."""
__all__ = [
    "FUNCTIONS",
    "BadTemplate",
    "Functions",
    "GoTemplate",
    "Number",
    "TemplateFailed",
    "is_true",
    "plain",
    "printed",
]
