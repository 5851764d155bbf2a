"""From the text of an expression to a function of the names in scope: recursive descent, each step gives a closure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from strato.api.cel.cost import CALL_LIMIT, FREE, charge, close_meter, current_meter, open_meter
from strato.api.cel.functions import FUNCTIONS, METHODS
from strato.api.cel.operators import PLAINLY, PRODUCTS, RELATIONS, SUMS, index, negate, truth, whole
from strato.api.cel.values import (
    Env,
    EvaluationError,
    MalformedExpression,
    NoSuchKey,
    Program,
    UnsupportedExpression,
    no_overload,
    type_name,
)

_TOKEN = re.compile(
    r"""\s*(?:(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>0x[0-9a-fA-F]+|\d+)
    |(?P<raw>r(?:'[^']*'|"[^"]*"))|(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<name>[A-Za-z_]\w*)|(?P<op>\|\||&&|[<>=!]=|[-+*/%!<>?:.,()\[\]{}]))""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_KEYWORDS = {"true": True, "false": False, "null": None}
_MACROS = ("all", "exists", "exists_one", "existsOne", "filter", "map")


_ERROR_UNITS = 10
"""What it costs to go on after an error."""
_LONGEST = 100_000
"""Characters of an expression, as in Kubernetes."""


def compile_expression(text: str) -> Program:
    """Compile to a function of the names in scope.

    Raises:
        UnsupportedExpression: Malformed, or beyond the supported part.
    """
    if len(text) > _LONGEST:
        raise UnsupportedExpression(f"{text[:40]!r}…: over {_LONGEST} characters")
    parser = _Parser(text)
    program = parser.whole()
    size = len(parser.tokens)

    def evaluate(env: Env) -> Any:
        meter, outer, token = open_meter(CALL_LIMIT, size)
        try:
            return program(env)
        except RecursionError:
            raise EvaluationError("nested too deeply") from None
        finally:
            close_meter(meter, outer, token)

    return evaluate


def selected_paths(text: str) -> frozenset[tuple[str, ...]]:
    """Return the fields an expression names, each as the variable it begins at and the names below.

    Raises:
        MalformedExpression: It is no CEL.
        UnsupportedExpression: Beyond the supported part.
    """
    if len(text) > _LONGEST:
        raise UnsupportedExpression(f"{text[:40]!r}…: over {_LONGEST} characters")
    parser = _Parser(text)
    parser.whole()
    return frozenset(parser.paths.values())


_BEYOND = re.compile(r"""\?\s*[.\[]|[.\[{]\s*\?|[bB][rR]?["']|\"{3}|'{3}|\d[uU]\b|`|//""")
"""Constructs of CEL that are not read here: what cannot be read because of them may be right."""


class _Parser:
    """Recursive descent; each method returns a closure."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens = list(self._scan(text))
        self._at = 0
        self._fields: dict[Program, tuple[Program, str]] = {}
        self.paths: dict[Program, tuple[str, ...]] = {}
        """What programs that only select fields of a variable select: its name and theirs."""

    def whole(self) -> Program:
        """Return the program of all tokens."""
        try:
            program = self.conditional()
        except RecursionError:
            raise UnsupportedExpression(f"{self._text[:40]!r}…: nested too deeply") from None
        if self.peek() != ("end", ""):
            raise self._malformed(f"unexpected {self.peek()[1]!r}")
        return program

    def _malformed(self, problem: str) -> UnsupportedExpression:
        kind = UnsupportedExpression if _BEYOND.search(self._text) else MalformedExpression
        return kind(f"{self._text!r}: {problem}")

    def _scan(self, text: str) -> list[tuple[str, str]]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise self._malformed(f"cannot read on from {text[at : at + 10]!r}")
            tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        return tokens

    def peek(self) -> tuple[str, str]:
        return self.tokens[self._at] if self._at < len(self.tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self.peek()
        self._at += 1
        return token

    def _take(self, *operators: str) -> str:
        kind, text = self.peek()
        if (kind == "op" and text in operators) or (kind == "name" and text == "in" and "in" in operators):
            self._at += 1
            return text
        return ""

    def _expect(self, operator: str) -> None:
        if not self._take(operator):
            raise self._malformed(f"{operator!r} expected, not {self.peek()[1]!r}")

    def conditional(self) -> Program:
        test = self._or()
        if not self._take("?"):
            return test
        then = self._or()
        self._expect(":")
        other = self.conditional()
        return lambda env: then(env) if truth(test(env)) else other(env)

    def _or(self) -> Program:
        left = self._and()
        while self._take("||"):
            left = _tolerant(left, self._and(), True)
        return left

    def _and(self) -> Program:
        left = self._relation()
        while self._take("&&"):
            left = _tolerant(left, self._relation(), False)
        return left

    def _relation(self) -> Program:
        left = self._sum()
        while operator := self._take("==", "!=", "<", "<=", ">", ">=", "in"):
            left = _relation(operator, left, self._sum())
        return left

    def _sum(self) -> Program:
        left = self._product()
        while operator := self._take("+", "-"):
            left = _binary(SUMS[operator], left, self._product())
        return left

    def _product(self) -> Program:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = _binary(PRODUCTS[operator], left, self._unary())
        return left

    def _unary(self) -> Program:
        if self._take("!"):
            inner = self._unary()
            return lambda env: not truth(inner(env))
        if self._take("-"):
            inner = self._unary()
            return lambda env: negate(inner(env))
        return self._member()

    def _member(self) -> Program:
        value = self._primary()
        while True:
            if self._take("."):
                name = self._name()
                value = self._call(value, name) if self._take("(") else self._field(value, name)
            elif self._take("["):
                value = _binary(index, value, self.conditional())
                self._expect("]")
            else:
                return value

    def _field(self, target: Program, name: str) -> Program:
        program = _select(target, name)
        self._fields[program] = target, name
        if target in self.paths:
            self.paths[program] = (*self.paths[target], name)
        return program

    def _name(self) -> str:
        kind, text = self._next()
        if kind != "name" or text in _KEYWORDS or text == "in":
            raise UnsupportedExpression(f"{self._text!r}: a name expected, not {text!r}")
        return _unescaped_name(text)

    def _call(self, target: Program, name: str) -> Program:
        if name in _MACROS:
            variable = self._name()
            self._expect(",")
            begin = self._at
            bodies = self._items(")")
            if len(bodies) != 1 and not (name == "map" and len(bodies) == 2):
                raise UnsupportedExpression(f"{self._text!r}: {name}() takes a variable and an expression")
            return _macro(name, target, variable, bodies, self._at - begin)
        arguments = self._items(")")
        method = METHODS.get(name)
        if method is None:
            raise UnsupportedExpression(f"{self._text!r}: function {name!r} is not supported")
        return lambda env: method(target(env), *[argument(env) for argument in arguments])

    def _items(self, end: str) -> list[Program]:
        items: list[Program] = []
        while not self._take(end):
            items.append(self.conditional())
            if not self._take(","):
                self._expect(end)
                break
        return items

    def _primary(self) -> Program:
        kind, text = self._next()
        if kind == "op":
            return self._bracketed(text)
        if kind == "name":
            return self._named(text)
        constant = _literal(kind, text)
        return lambda _: constant

    def _bracketed(self, text: str) -> Program:
        if text == "(":
            inner = self.conditional()
            self._expect(")")
            return inner
        if text == "[":
            items = self._items("]")
            return lambda env: [item(env) for item in items]
        if text == "{":
            return self._map_literal()
        raise UnsupportedExpression(f"{self._text!r}: unexpected {text!r}")

    def _map_literal(self) -> Program:
        entries: list[tuple[Program, Program]] = []
        while not self._take("}"):
            key = self.conditional()
            self._expect(":")
            entries.append((key, self.conditional()))
            if not self._take(","):
                self._expect("}")
                break
        return lambda env: {_key(key(env)): value(env) for key, value in entries}

    def _named(self, name: str) -> Program:
        if name in _KEYWORDS:
            constant = _KEYWORDS[name]
            return lambda _: constant
        following = [text for _, text in self.tokens[self._at : self._at + 3]]
        if following[:1] == ["."] and following[2:] == ["("] and f"{name}.{following[1]}" in FUNCTIONS:
            name = f"{name}.{following[1]}"
            self._at += 2
        if not self._take("("):
            variable = _variable(name)
            self.paths[variable] = (name,)
            return variable
        if name == "has":
            return self._has()
        function = FUNCTIONS.get(name)
        if function is None:
            raise UnsupportedExpression(f"{self._text!r}: function {name!r} is not supported")
        arguments = self._items(")")
        return lambda env: function(*[argument(env) for argument in arguments])

    def _has(self) -> Program:
        selection = self._fields.get(self.conditional())
        self._expect(")")
        if selection is None:
            raise UnsupportedExpression(f"{self._text!r}: has() needs a field")
        target, name = selection
        return lambda env: _has(target(env), name)


def _key(value: Any) -> Any:
    if type(value) in (str, int, bool):
        return value
    raise EvaluationError(f"unsupported key type: {type_name(value)}")


def _has(target: Any, name: str) -> bool:
    return isinstance(target, Mapping) and target.get(name) is not None


def _unescaped_name(name: str) -> str:
    return name.removeprefix("__").removesuffix("__") if name.startswith("__") and name.endswith("__") else name


def _literal(kind: str, text: str) -> Any:
    if kind == "int":
        return _number(text)
    if kind == "float":
        return float(text)
    if kind == "raw":
        return text[2:-1]
    if kind == "text":
        return _ESCAPE.sub(_unescape, text[1:-1])
    raise UnsupportedExpression(f"the expression ends too early, at {text!r}")


def _number(text: str) -> int:
    try:
        return whole(int(text, 0) if text.startswith("0x") else int(text))
    except EvaluationError as error:
        raise UnsupportedExpression(f"{text}: {error}") from error


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if len(code) == 3 else _SIMPLE.get(code, code)


def _tolerant(left: Program, right: Program, decisive: bool) -> Program:
    """``||`` (decisive true) and ``&&`` (decisive false): one side that decides hides the other's error."""

    def evaluate(env: Env) -> bool:
        try:
            value = left(env)
            if value is decisive or truth(value) is decisive:
                return decisive
        except EvaluationError:
            charge(_ERROR_UNITS)
            if truth(right(env)) is decisive:
                return decisive
            raise
        value = right(env)
        return decisive if value is decisive else truth(value)

    return evaluate


def _binary(operation: Callable[[Any, Any], Any], left: Program, right: Program) -> Program:
    return lambda env: operation(left(env), right(env))


def _relation(operator: str, left: Program, right: Program) -> Program:
    """Compare; what is of one plain kind, as nearly always, without calls."""
    operation, plainly = RELATIONS[operator], PLAINLY.get(operator)
    if plainly is None:
        return _binary(operation, left, right)

    def evaluate(env: Env) -> Any:
        one, other = left(env), right(env)
        kind = one.__class__
        if kind is other.__class__ and (kind is int or (kind is str and len(one) <= FREE)):
            return plainly(one, other)
        return operation(one, other)

    return evaluate


def _variable(name: str) -> Program:
    def evaluate(env: Env) -> Any:
        if name in env:
            return env[name]
        raise EvaluationError(f"undeclared reference to '{name}'")

    return evaluate


def _select(value: Program, name: str) -> Program:
    def evaluate(env: Env) -> Any:
        target = value(env)
        if (target.__class__ is dict or isinstance(target, Mapping)) and name in target:
            return target[name]
        raise NoSuchKey(f"no such key: {name}")

    return evaluate


def _macro(name: str, target: Program, variable: str, bodies: list[Program], size: int) -> Program:
    """Return a loop; ``size`` tokens are evaluated for each item."""

    def scopes(env: Env) -> Iterator[dict[str, Any]]:
        items = target(env)
        if not isinstance(items, list | Mapping):
            raise no_overload(name, items)
        scope = dict(env)  # one for all: whatever is made of an item is made before the next
        meter = current_meter()
        for item in items:
            meter.left -= size
            if meter.left < meter.floor:
                meter.reached()
            scope[variable] = item
            yield scope

    body = bodies[0]
    if name in ("all", "exists"):
        return _quantifier(body, scopes, name == "exists")
    if name == "filter":
        return lambda env: [scope[variable] for scope in scopes(env) if truth(body(scope))]
    if name == "map":
        last = bodies[-1]
        if len(bodies) == 1:
            return lambda env: [last(scope) for scope in scopes(env)]
        return lambda env: [last(scope) for scope in scopes(env) if truth(body(scope))]
    return lambda env: sum(truth(body(scope)) for scope in scopes(env)) == 1


def _quantifier(body: Program, scopes: Callable[[Env], Iterator[Env]], decisive: bool) -> Program:
    """``exists`` (decisive true) and ``all`` (decisive false): tolerant like ``||`` and ``&&``."""

    def evaluate(env: Env) -> bool:
        failed: EvaluationError | None = None
        for scope in scopes(env):
            try:
                value = body(scope)
                if value is decisive or truth(value) is decisive:
                    return decisive
            except EvaluationError as error:
                charge(_ERROR_UNITS)
                failed = error
        if failed is not None:
            raise failed
        return not decisive

    return evaluate
