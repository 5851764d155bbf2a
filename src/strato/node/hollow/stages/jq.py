"""The part of the jq language that stages use: paths, pipes, ``select``, comparisons and a few functions. Pure.

A query is compiled once into nested functions; each takes a JSON value and yields what jq would. The compiler refuses
unsupported syntax and names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, NoReturn

from strato.errors import UsageError, called
from strato.lru import memoised
from strato.node.hollow.stages.tokens import tokens

_LONGEST: Final = 2048
_DEEPEST: Final = 64
_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\")|(?P<number>\d+(?:\.\d+)?)|(?P<field>\.[A-Za-z_]\w*)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>//|==|!=|<=|>=|[.\[\]()|,<>?;]))",
    re.ASCII,
)
Filter = Callable[[Any], Iterator[Any]]


class BadQuery(UsageError):
    """A text is no query, or uses unsupported syntax."""


class QueryError(Exception):
    """A query met a value of the wrong type, at which jq stops with an error."""


class _Token(NamedTuple):
    kind: str
    text: str


@memoised(1 << 20, _LONGEST, entry_bytes=4000)
def compile_query(text: str) -> Filter:
    """Return a query as a function of a JSON value.

    Raises:
        BadQuery: It cannot be parsed, or uses unsupported syntax.
    """
    if len(text) > _LONGEST:
        raise BadQuery(f"a query of more than {_LONGEST} characters")
    parser = _Parser(text)
    found = parser.pipe()
    parser.expect_end()
    return found


def execute(query: Filter, value: object) -> list[Any] | None:
    """Return the values that a query yields, without nulls; None if it stops with an error."""
    try:
        return [one for one in query(value) if one is not None]
    except QueryError:
        return None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[_Token] = []
        self._at = 0
        self._depth = 0
        for match in tokens(_TOKEN, text, lambda rest: BadQuery(f"query {text!r}: {rest}")):
            self._tokens.append(_Token(str(match.lastgroup), match[str(match.lastgroup)]))

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            self._refuse()

    def pipe(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadQuery(f"query {self._text!r} is nested too deeply")
        found = self._comma()
        while self._take("|"):
            found = _piped(found, self._comma())
        self._depth -= 1
        return found

    def _comma(self) -> Filter:
        parts = [self._alternative()]
        while self._take(","):
            parts.append(self._alternative())
        return parts[0] if len(parts) == 1 else lambda value: (one for part in parts for one in part(value))

    def _alternative(self) -> Filter:
        found = self._or()
        return _otherwise(found, self._alternative()) if self._take("//") else found

    def _or(self) -> Filter:
        found = self._and()
        while self._take("or"):
            found = _joined(found, self._and(), decided_by=True)
        return found

    def _and(self) -> Filter:
        found = self._comparison()
        while self._take("and"):
            found = _joined(found, self._comparison(), decided_by=False)
        return found

    def _comparison(self) -> Filter:
        found = self._term()
        token = self._peek()
        if token is not None and token.text in _COMPARISONS:
            self._at += 1
            return _compared(found, self._term(), _COMPARISONS[token.text])
        return found

    def _term(self) -> Filter:
        found = self._primary()
        while True:
            token = self._peek()
            if token is None:
                return found
            if token.kind == "field":
                self._at += 1
                found = _piped(found, _member(token.text[1:]))
            elif token.text == "[":
                found = _piped(found, self._brackets())
            elif token.text == "." and self._next_is("["):
                self._at += 1
                found = _piped(found, self._brackets())
            elif token.text == "." and self._peek(1) is not None and self._tokens[self._at + 1].kind == "text":
                self._at += 2
                found = _piped(found, _member(json.loads(self._tokens[self._at - 1].text)))
            elif token.text == "?":
                self._at += 1
                found = _tried(found)
            else:
                return found

    def _primary(self) -> Filter:
        token = self._peek()
        if token is None:
            raise BadQuery(f"query {self._text!r} ends where a value is expected")
        self._at += 1
        if token.kind == "field":
            return _member(token.text[1:])
        if token.kind == "text":
            return _constant(json.loads(token.text))
        if token.kind == "number":
            return _constant(float(token.text) if "." in token.text else int(token.text))
        if token.kind == "word":
            return self._word(token.text)
        if token.text == ".":
            following = self._peek()
            if following is not None and following.text == "[":
                return self._brackets()
            if following is not None and following.kind == "text":
                self._at += 1
                return _member(json.loads(following.text))
            return lambda value: iter((value,))
        if token.text != "(":
            self._at -= 1
            self._refuse()
        found = self.pipe()
        self._require(")")
        return found

    def _brackets(self) -> Filter:
        self._require("[")
        if self._take("]"):
            return _each
        index = self.pipe()
        self._require("]")
        return _indexed(index)

    def _word(self, name: str) -> Filter:
        if name in _WORDS:
            return _constant(_WORDS[name])
        arguments: list[Filter] = []
        if self._take("("):
            arguments.append(self.pipe())
            while self._take(";"):
                arguments.append(self.pipe())
            self._require(")")
        make = _FUNCTIONS.get((name, len(arguments)))
        if make is None:
            known = ", ".join(sorted({one for one, _ in _FUNCTIONS}))
            raise BadQuery(f"query {self._text!r}: {name}/{len(arguments)} is not understood here; known: {known}")
        return make(*arguments)

    def _peek(self, ahead: int = 0) -> _Token | None:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def _next_is(self, text: str) -> bool:
        token = self._peek(1)
        return token is not None and token.kind == "sign" and token.text == text

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token is None or token.text != text or token.kind == "text":
            return False
        self._at += 1
        return True

    def _require(self, text: str) -> None:
        if not self._take(text):
            self._refuse(f", {text!r} is expected")

    def _refuse(self, hint: str = "") -> NoReturn:
        token = self._peek()
        what = f"{token.text!r} is not understood" if token is not None else "it ends too soon"
        raise BadQuery(f"query {self._text!r}: {what}{hint}")


def _constant(value: object) -> Filter:
    return lambda _: iter((value,))


def _piped(first: Filter, second: Filter) -> Filter:
    return lambda value: (result for between in first(value) for result in second(between))


def _member(name: str) -> Filter:
    def member(value: Any) -> Iterator[Any]:
        if value is None:
            yield None
        elif isinstance(value, dict):
            yield value.get(name)
        else:
            raise QueryError(f"{called(value)} has no member {name}")

    return member


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    if isinstance(value, list):
        return iter(value)
    raise QueryError(f"cannot go over {called(value)}")


def _indexed(index: Filter) -> Filter:
    def indexed(value: Any) -> Iterator[Any]:
        for key in index(value):
            if value is None:
                yield None
            elif isinstance(value, dict) and isinstance(key, str):
                yield value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool):
                yield value[key] if -len(value) <= key < len(value) else None
            else:
                raise QueryError(f"cannot index {called(value)}")

    return indexed


def _tried(found: Filter) -> Filter:
    def tried(value: Any) -> Iterator[Any]:
        try:
            yield from found(value)
        except QueryError:
            return

    return tried


def _otherwise(first: Filter, second: Filter) -> Filter:
    def either(value: Any) -> Iterator[Any]:
        try:
            good = [one for one in first(value) if is_true(one)]
        except QueryError:
            good = []
        return iter(good) if good else second(value)

    return either


def _joined(first: Filter, second: Filter, *, decided_by: bool) -> Filter:
    def joined(value: Any) -> Iterator[Any]:
        for one in first(value):
            if is_true(one) is decided_by:
                yield decided_by
            else:
                yield from (is_true(other) for other in second(value))

    return joined


def _compared(first: Filter, second: Filter, holds: Callable[[Any, Any], bool]) -> Filter:
    return lambda value: (holds(one, other) for other in second(value) for one in first(value))


def is_true(value: object) -> bool:
    """Return whether a value is true in jq: all are but null and false."""
    return value is not None and value is not False


def _order(value: Any) -> tuple[int, Any]:
    """Return a sort key for jq's order of values: null, false, true, numbers, strings; not lists and objects."""
    if value is None or isinstance(value, bool):
        return (0, -1) if value is None else (1, int(value))
    if isinstance(value, int | float):
        return 2, value
    if isinstance(value, str):
        return 3, value
    raise QueryError(f"cannot order {called(value)}")


def _equal(one: object, other: object) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and one == other


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda one, other: not _equal(one, other),
    "<": lambda one, other: _order(one) < _order(other),
    "<=": lambda one, other: _order(one) <= _order(other),
    ">": lambda one, other: _order(one) > _order(other),
    ">=": lambda one, other: _order(one) >= _order(other),
}
_WORDS: Final = {"true": True, "false": False, "null": None}


def _of_value(function: Callable[[Any], Any]) -> Callable[[], Filter]:
    return lambda: lambda value: iter((function(value),))


def _with_text(function: Callable[[str, str], Any]) -> Callable[[Filter], Filter]:
    def make(argument: Filter) -> Filter:
        def apply(value: Any) -> Iterator[Any]:
            for text in argument(value):
                if not isinstance(value, str) or not isinstance(text, str):
                    raise QueryError("texts are expected")
                yield function(value, text)

        return apply

    return make


def _select(condition: Filter) -> Filter:
    return lambda value: (value for one in condition(value) if is_true(one))


def _map(function: Filter) -> Filter:
    return lambda value: iter(([result for one in _each(value) for result in function(one)],))


def _first(function: Filter) -> Filter:
    def first(value: Any) -> Iterator[Any]:
        for one in function(value):
            yield one
            return

    return first


def _quantified(quantifier: Callable[[Iterable[bool]], bool]) -> Callable[[Filter], Filter]:
    def make(condition: Filter) -> Filter:
        return lambda value: iter((quantifier(is_true(one) for item in _each(value) for one in condition(item)),))

    return make


def _has(argument: Filter) -> Filter:
    def has(value: Any) -> Iterator[Any]:
        for key in argument(value):
            if isinstance(value, dict):
                yield key in value
            elif isinstance(value, list) and isinstance(key, int):
                yield 0 <= key < len(value)
            else:
                raise QueryError(f"{called(value)} has no keys")

    return has


def _length(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, bool):
        raise QueryError("bool has no length")
    return abs(value) if isinstance(value, int | float) else len(value)


def _keys(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(value)
    if isinstance(value, list):
        return list(range(len(value)))
    raise QueryError(f"{called(value)} has no keys")


def _number(value: Any) -> Any:
    try:
        return value if isinstance(value, int | float) else json.loads(value)
    except (TypeError, ValueError) as error:
        raise QueryError(f"{value!r} is no number") from error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _type(value: Any) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


_FUNCTIONS: Final[dict[tuple[str, int], Callable[..., Filter]]] = {
    ("select", 1): _select,
    ("map", 1): _map,
    ("first", 1): _first,
    ("any", 1): _quantified(any),
    ("all", 1): _quantified(all),
    ("has", 1): _has,
    ("startswith", 1): _with_text(str.startswith),
    ("endswith", 1): _with_text(str.endswith),
    ("empty", 0): lambda: lambda _: iter(()),
    ("not", 0): _of_value(lambda value: not is_true(value)),
    ("length", 0): _of_value(_length),
    ("keys", 0): _of_value(_keys),
    ("tonumber", 0): _of_value(_number),
    ("tostring", 0): _of_value(_text),
    ("type", 0): _of_value(_type),
    ("any", 0): _of_value(lambda value: any(map(is_true, _each(value)))),
    ("all", 0): _of_value(lambda value: all(map(is_true, _each(value)))),
    ("first", 0): lambda: _indexed(_constant(0)),
    ("last", 0): lambda: _indexed(_constant(-1)),
}
"""(name, number of arguments) → maker of the filter."""
