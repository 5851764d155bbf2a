"""No regular expression of the package takes more than linear time, whatever the text.

Python's engine goes back and tries again. Where two neighbours of a pattern can take the same characters, or a search
begins anew within what it has just looked through, the time grows with the square of the text or worse, and whoever
wrote the text decides how long that is. Each pattern is tried with long texts made out of its own characters: the
beginning of a match, then what the pattern repeats, again and again, then something that it refuses.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import pkgutil
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # the stubs hide it
from re import _parser  # type: ignore[attr-defined]  # the stubs hide it
from typing import Any, Final

import pytest

import strato

METHODS: Final = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
LONG: Final = 4_000
"""Characters of a text; what is quadratic takes some 20 ms of CPU for them and more, what is linear 0.2."""
MOST_SECONDS: Final = 0.005
MANY: Final = 200
"""Repetitions that count as without an end."""
GUARDED: Final = {
    ("strato.node.sandbox.environment", "_REFERENCE"): "what follows the last parenthesis is cut off before",
    ("strato.advice.roles", "_RUN_SUFFIX"): "names of objects have at most 253 characters",
}

Tree = Sequence[tuple[Any, Any]]
Use = tuple[str, str]
"""Module, and name or line."""


class _TooSlow(Exception):
    """A text is not done with after seconds."""


def _modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(strato.__path__, "strato."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                yield importlib.import_module(found.name)


def _values(value: object) -> Iterator[object]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _values(part)
    elif isinstance(value, dict):
        yield from _values([*value.keys(), *value.values()])
    else:
        yield value


def _compiled() -> dict[tuple[Any, int], dict[Use, set[str]]]:
    """Return patterns with flags, by whom they are held, and what is done with them."""
    found: dict[tuple[Any, int], dict[Use, set[str]]] = defaultdict(dict)
    calls = defaultdict(set)
    for path in Path(strato.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Attribute) and node.attr in METHODS):
                continue
            if isinstance(node.value, ast.Name | ast.Attribute):
                calls[node.value.id if isinstance(node.value, ast.Name) else node.value.attr].add(node.attr)
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).startswith("re.")
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in METHODS
                and isinstance(node.args[0], ast.Constant)
            ):
                text = node.args[0].value
                found[text, re.compile(text).flags][str(path), str(node.lineno)] = {node.func.attr}
    for module in _modules():
        for name, held in vars(module).items():
            for value in _values(held):
                bound = (
                    getattr(value, "__self__", None) if type(value).__name__ == "builtin_function_or_method" else None
                )
                if isinstance(bound, re.Pattern):
                    found[bound.pattern, bound.flags][module.__name__, name] = {value.__name__}  # type: ignore[attr-defined]  # a method has it
                elif isinstance(value, re.Pattern):
                    methods = calls[name] or {"match", "fullmatch", "search"}
                    found[value.pattern, value.flags][module.__name__, name] = methods
    return found


def _subtrees(code: Any, argument: Any) -> list[Tree]:
    if code is codes.BRANCH:
        return list(argument[1])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return [argument[2]]
    if code is codes.SUBPATTERN:
        return [argument[3]]
    return [argument] if code is codes.ATOMIC_GROUP else []


def _characters(code: Any, argument: Any) -> str:
    """Return examples of what one character of a pattern takes."""
    if code is codes.LITERAL:
        return chr(argument)
    candidates = "aA0 .-_/:,=()<>+e\"'\\\n"
    if code is codes.ANY:
        return "a0 "
    if code is codes.NOT_LITERAL:
        return "".join(char for char in candidates if ord(char) != argument)[:3]
    if code is codes.IN:
        ranges = [chr(end) for kind, ends in argument if kind is codes.RANGE for end in ends]
        literals = [chr(char) for kind, char in argument if kind is codes.LITERAL]
        accepts = re.compile(_class_text(argument), re.DOTALL).fullmatch
        return "".join(dict.fromkeys(char for char in [*literals, *ranges, *candidates] if accepts(char)))[:5]
    return ""


def _class_text(items: Tree) -> str:
    categories = {
        codes.CATEGORY_DIGIT: r"\d",
        codes.CATEGORY_NOT_DIGIT: r"\D",
        codes.CATEGORY_SPACE: r"\s",
        codes.CATEGORY_NOT_SPACE: r"\S",
        codes.CATEGORY_WORD: r"\w",
        codes.CATEGORY_NOT_WORD: r"\W",
    }
    inner = ""
    for kind, value in items:
        if kind is codes.NEGATE:
            inner += "^"
        elif kind is codes.LITERAL:
            inner += re.escape(chr(value))
        elif kind is codes.RANGE:
            inner += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        else:
            inner += categories[value]
    return f"[{inner}]"


def _example(tree: Tree) -> str:
    """Return a text that a pattern takes, as a rule."""
    text = ""
    for code, argument in tree:
        inner = _subtrees(code, argument)
        if not inner:
            text += _characters(code, argument)[:1]
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            text += _example(inner[0]) * min(max(argument[0], 1), MANY)
        else:
            text += _example(inner[0])
    return text


def _walk(tree: Tree, before: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield every part of a pattern with an example of what stands before it."""
    for code, argument in tree:
        yield before, code, argument
        for inner in _subtrees(code, argument):
            yield from _walk(inner, before)
        before += _example([(code, argument)])


def _hostile(pattern: str, flags: int) -> Iterator[str]:
    tree = _parser.parse(pattern, flags & ~re.DEBUG)
    parts = list(_walk(tree, ""))
    alphabet = sorted(set("".join(_characters(code, argument) for _, code, argument in parts)))[:20]
    repeated = [
        (before, _example(argument[2]))
        for before, code, argument in parts
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT) and argument[1] > MANY
    ]
    pumps = {
        *alphabet,
        *(before for before, _ in repeated),
        *(body for _, body in repeated),
        *(body + char for _, body in repeated for char in alphabet),
    }
    for before in {"", *(before for before, _ in repeated)}:
        for pump in pumps - {""}:
            for end in ("", "\0"):
                yield before + pump * (LONG // len(pump)) + end


def _seconds(pattern: re.Pattern[Any], method: str, text: str) -> float:
    subject = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    arguments = (subject[:0], subject) if method in ("sub", "subn") else (subject,)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
    begun = time.thread_time()
    try:
        found = getattr(pattern, method)(*arguments)
        if method == "finditer":
            list(found)
    except _TooSlow:
        return 1.0
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.thread_time() - begun


def _give_up(*_: object) -> None:
    raise _TooSlow


def slow_text(pattern: re.Pattern[Any], methods: set[str]) -> str:
    """Return a text for which a pattern takes long, shortened; "" when there is none. Of three tries all must."""
    before = signal.signal(signal.SIGVTALRM, _give_up)
    source = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    try:
        for text in _hostile(
            source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
        ):
            for method in methods:
                if all(_seconds(pattern, method, text) > MOST_SECONDS for _ in range(3)):
                    return f"{method}: {text[:60]!r}…{text[-10:]!r}"
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return ""


def test_no_pattern_takes_more_than_linear_time() -> None:
    patterns = _compiled()
    assert len(patterns) > 150
    found = {}
    for (text, flags), uses in patterns.items():
        methods = set().union(*(methods for use, methods in uses.items() if use not in GUARDED))
        if methods and (hostile := slow_text(re.compile(text, flags), methods)):
            found[text] = (next(iter(uses)), hostile)
    assert found == {}


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+b", "match"),
        (r"\d+\.?\d*", "fullmatch"),
        (r"(.*?)(\d+)", "fullmatch"),
        (r"(/\S+)\s+\(", "findall"),
        (r"[a-z]+;", "search"),
        (r"\$\(([^)]*)\)", "sub"),
        (r".+-.+-([0-9]{1,9})", "fullmatch"),
    ],
)
def test_patterns_that_go_back_are_found(pattern: str, method: str) -> None:
    assert slow_text(re.compile(pattern), {method}) != ""


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\d++(?:\.\d*+)?", "fullmatch"),
        (r"(?<!\S)(/\S+)\s+\(", "findall"),
        (r"(?<![a-z])[a-z]++;", "search"),
        (r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", "fullmatch"),
    ],
)
def test_patterns_that_do_not_go_back_pass(pattern: str, method: str) -> None:
    assert slow_text(re.compile(pattern), {method}) == ""
