"""A small CEL: the part of the Common Expression Language that validation rules of CRDs use.

Supported: literals, ``self``-style names, field and index access, ``has()``, arithmetic, comparison, ``in``, logic
with CEL's error-tolerant ``||`` and ``&&``, the conditional operator, lists and maps, the macros ``all``, ``exists``,
``exists_one``, ``filter`` and ``map``, and the functions of ``_METHODS`` and ``_FUNCTIONS``; quantities and semantic
versions, which selectors of devices compare; optional values as they are given (`Optional`). Not supported: time and
duration types, URLs, IPs, ``format``, ``?.``, cost limits. An expression that needs
more is refused when compiled (`UnsupportedExpression`), never evaluated halfway.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from functools import total_ordering
from typing import Any

from strato.api.quantity import NANO, Quantity, parse
from strato.errors import StratoError

Env = Mapping[str, Any]
Program = Callable[[Env], Any]


class UnsupportedExpression(StratoError):
    """The expression is malformed or uses a part of CEL that is not here."""


class EvaluationError(StratoError):
    """The expression failed on this value: no such key, wrong type, division by zero."""


_TOKEN = re.compile(
    r"""\s*(?:(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>0x[0-9a-fA-F]+|\d+)u?
    |(?P<raw>r(?:'[^']*'|"[^"]*"))|(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<name>[A-Za-z_]\w*)|(?P<op>\|\||&&|[<>=!]=|[-+*/%!<>?:.,()\[\]{}]))""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_KEYWORDS = {"true": True, "false": False, "null": None}
_MACROS = ("all", "exists", "exists_one", "existsOne", "filter", "map")


def compile_expression(text: str) -> Program:
    """Compile to a function of the names in scope.

    Raises:
        UnsupportedExpression: Malformed, or beyond the supported part.
    """
    parser = _Parser(text)
    program = parser.conditional()
    if parser.peek() != ("end", ""):
        raise UnsupportedExpression(f"{text!r}: unexpected {parser.peek()[1]!r}")
    return program


class _Parser:
    """Recursive descent; each method returns a closure."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._scan(text))
        self._at = 0

    def _scan(self, text: str) -> list[tuple[str, str]]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise UnsupportedExpression(f"{text!r}: cannot read on from {text[at : at + 10]!r}")
            tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        return tokens

    def peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

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
            raise UnsupportedExpression(f"{self._text!r}: {operator!r} expected, not {self.peek()[1]!r}")

    def conditional(self) -> Program:
        test = self._or()
        if not self._take("?"):
            return test
        then = self._or()
        self._expect(":")
        other = self.conditional()
        return lambda env: then(env) if _truth(test(env)) else other(env)

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
            left = _binary(_RELATIONS[operator], left, self._sum())
        return left

    def _sum(self) -> Program:
        left = self._product()
        while operator := self._take("+", "-"):
            left = _binary(_plus if operator == "+" else _minus, left, self._product())
        return left

    def _product(self) -> Program:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = _binary(_PRODUCTS[operator], left, self._unary())
        return left

    def _unary(self) -> Program:
        if self._take("!"):
            inner = self._unary()
            return lambda env: not _truth(inner(env))
        if self._take("-"):
            inner = self._unary()
            return lambda env: _minus(0, inner(env))
        return self._member()

    def _member(self) -> Program:
        value = self._primary()
        while True:
            if self._take("."):
                name = self._name()
                value = self._call(value, name) if self._take("(") else _select(value, name)
            elif self._take("["):
                value = _binary(_index, value, self.conditional())
                self._expect("]")
            else:
                return value

    def _name(self) -> str:
        kind, text = self._next()
        if kind != "name":
            raise UnsupportedExpression(f"{self._text!r}: a name expected, not {text!r}")
        return _unescaped_name(text)

    def _call(self, target: Program, name: str) -> Program:
        if name in _MACROS:
            variable = self._name()
            self._expect(",")
            bodies = self._arguments()
            return _macro(name, target, variable, bodies)
        arguments = self._arguments()
        method = _METHODS.get(name)
        if method is None:
            raise UnsupportedExpression(f"{self._text!r}: function {name!r} is not supported")
        return lambda env: _guard(method, target(env), *[argument(env) for argument in arguments])

    def _arguments(self) -> list[Program]:
        arguments: list[Program] = []
        while not self._take(")"):
            arguments.append(self.conditional())
            if not self._take(","):
                self._expect(")")
                break
        return arguments

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
            items: list[Program] = []
            while not self._take("]"):
                items.append(self.conditional())
                if not self._take(","):
                    self._expect("]")
                    break
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
        return lambda env: {key(env): value(env) for key, value in entries}

    def _named(self, name: str) -> Program:
        if name in _KEYWORDS:
            constant = _KEYWORDS[name]
            return lambda _: constant
        if not self._take("("):
            return lambda env: _lookup(env, name)
        if name == "has":
            return self._has()
        function = _FUNCTIONS.get(name)
        if function is None:
            raise UnsupportedExpression(f"{self._text!r}: function {name!r} is not supported")
        arguments = self._arguments()
        return lambda env: _guard(function, *[argument(env) for argument in arguments])

    def _has(self) -> Program:
        start = self._at
        inner = self.conditional()
        self._expect(")")
        if self._at - start < 4 or self._tokens[self._at - 3][1] != ".":
            raise UnsupportedExpression(f"{self._text!r}: has() needs a field")
        return lambda env: _has(inner, env)


class _NoSuchKey(EvaluationError):
    """A field is not there; ``has`` turns exactly this into false."""


def _has(inner: Program, env: Env) -> bool:
    try:
        return inner(env) is not None
    except _NoSuchKey:
        return False


def _unescaped_name(name: str) -> str:
    return name.removeprefix("__").removesuffix("__") if name.startswith("__") and name.endswith("__") else name


def _literal(kind: str, text: str) -> Any:
    if kind == "int":
        return int(text, 0)
    if kind == "float":
        return float(text)
    if kind == "raw":
        return text[2:-1]
    if kind == "text":
        return _ESCAPE.sub(_unescape, text[1:-1])
    raise UnsupportedExpression(f"the expression ends too early, at {text!r}")


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if len(code) == 3 else _SIMPLE.get(code, code)


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise EvaluationError("no such overload: a condition is not a bool")


def _tolerant(left: Program, right: Program, decisive: bool) -> Program:
    """``||`` (decisive true) and ``&&`` (decisive false): one side that decides hides the other's error."""

    def evaluate(env: Env) -> bool:
        try:
            if _truth(left(env)) is decisive:
                return decisive
        except EvaluationError:
            if _truth(right(env)) is decisive:
                return decisive
            raise
        return _truth(right(env))

    return evaluate


def _binary(operation: Callable[[Any, Any], Any], left: Program, right: Program) -> Program:
    return lambda env: _guard(operation, left(env), right(env))


def _guard(operation: Callable[..., Any], *values: Any) -> Any:
    try:
        return operation(*values)
    except EvaluationError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError, AttributeError, re.error) as error:
        raise EvaluationError(str(error) or type(error).__name__) from error


def _lookup(env: Env, name: str) -> Any:
    if name not in env:
        raise EvaluationError(f"undeclared reference to '{name}'")
    return env[name]


def _select(value: Program, name: str) -> Program:
    def evaluate(env: Env) -> Any:
        target = value(env)
        if not isinstance(target, Mapping) or name not in target:
            raise _NoSuchKey(f"no such key: {name}")
        return target[name]

    return evaluate


def _index(target: Any, key: Any) -> Any:
    if isinstance(target, list) and (not isinstance(key, int) or not 0 <= key < len(target)):
        raise EvaluationError(f"index out of bounds: {key}")
    if isinstance(target, Mapping) and key not in target:
        raise _NoSuchKey(f"no such key: {key}")
    return target[key]


def _macro(name: str, target: Program, variable: str, bodies: list[Program]) -> Program:
    def scopes(env: Env) -> list[dict[str, Any]]:
        items = target(env)
        if not isinstance(items, list | Mapping):
            raise EvaluationError(f"no such overload: {name}() on {type(items).__name__}")
        return [{**env, variable: item} for item in items]

    body = bodies[0]
    if name == "all":
        return lambda env: all(_truth(body(scope)) for scope in scopes(env))
    if name == "exists":
        return lambda env: any(_truth(body(scope)) for scope in scopes(env))
    if name == "filter":
        return lambda env: [scope[variable] for scope in scopes(env) if _truth(body(scope))]
    if name == "map":
        last = bodies[-1]
        if len(bodies) == 1:
            return lambda env: [last(scope) for scope in scopes(env)]
        return lambda env: [last(scope) for scope in scopes(env) if _truth(body(scope))]
    return lambda env: sum(_truth(body(scope)) for scope in scopes(env)) == 1


def _plus(left: Any, right: Any) -> Any:
    return left + right


def _minus(left: Any, right: Any) -> Any:
    return left - right


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        return left / right
    quotient = abs(left) // abs(right)  # CEL rounds towards zero
    return quotient if (left < 0) == (right < 0) else -quotient


_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
}


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: a in b,
}


def _matches(text: str, pattern: str) -> bool:
    return re.search(pattern, text) is not None


def quantity(number: str | float) -> Quantity:
    """Return a quantity as expressions compare it.

    Raises:
        InvalidQuantity: It is none.
    """
    return parse(number)


def _nanos(amount: Any) -> int:
    return amount.nanos if isinstance(amount, Quantity) else int(amount) * NANO


def _whole(amount: Quantity) -> int:
    if amount.nanos % NANO:
        raise EvaluationError("cannot convert value to integer")
    return amount.nanos // NANO


def _reads(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)


@total_ordering
class Version:
    """A semantic version; ordered as semver.org has it, build information ignored."""

    __slots__ = ("before", "numbers")

    def __init__(self, numbers: tuple[int, int, int], before: str) -> None:
        self.numbers = numbers
        self.before = before

    def _key(self) -> tuple[Any, ...]:
        parts = (
            tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in self.before.split("."))
            if self.before
            else ()
        )
        return self.numbers, not self.before, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key() == other._key()

    def __lt__(self, other: Version) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def semver(text: str, *, normalize: bool = False) -> Version:
    """Read a semantic version; ``normalize`` also takes ``v1.2`` and leading zeros.

    Raises:
        ValueError: It is none.
    """
    if normalize:
        main, dash, rest = text.removeprefix("v").partition("-")
        text = ".".join(str(int(part)) for part in [*main.split("."), "0", "0"][:3]) + dash + rest
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no semantic version")
    return Version((int(match[1]), int(match[2]), int(match[3])), match[4] or "")


class Optional:
    """A value that may not be there, as rules see ``oldSelf`` when they ask for it to be optional."""

    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        """None when there is none."""

    def value(self) -> Any:
        """Return the value.

        Raises:
            EvaluationError: There is none.
        """
        if self.inner is None:
            raise EvaluationError("optional.none() dereference")
        return self.inner


def _position(items: Any, wanted: Any) -> int:
    if isinstance(items, str):
        return items.find(wanted)
    return next((at for at, item in enumerate(items) if _equal(item, wanted)), -1)


def _last_position(items: Any, wanted: Any) -> int:
    if isinstance(items, str):
        return items.rfind(wanted)
    return next((at for at in range(len(items) - 1, -1, -1) if _equal(items[at], wanted)), -1)


_METHODS: dict[str, Callable[..., Any]] = {
    "size": len,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "matches": _matches,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "trim": str.strip,
    "split": lambda text, separator: text.split(separator),
    "join": lambda items, separator="": separator.join(items),
    "replace": lambda text, old, new: text.replace(old, new),
    "indexOf": _position,
    "lastIndexOf": _last_position,
    "hasValue": lambda optional: optional.inner is not None,
    "value": lambda optional: optional.value(),
    "orValue": lambda optional, other: other if optional.inner is None else optional.inner,
    "substring": lambda text, start, end=None: text[start:end],
    "isSorted": lambda items: all(a <= b for a, b in itertools.pairwise(items)),
    "sum": sum,
    "min": min,
    "max": max,
    "compareTo": lambda left, right: (left > right) - (left < right),
    "isGreaterThan": lambda left, right: left > right,
    "isLessThan": lambda left, right: left < right,
    "isInteger": lambda amount: amount.nanos % NANO == 0,
    "asInteger": lambda amount: _whole(amount),
    "asApproximateFloat": lambda amount: amount.nanos / NANO,
    "sign": lambda amount: (amount.nanos > 0) - (amount.nanos < 0),
    "add": lambda left, right: Quantity(left.nanos + _nanos(right)),
    "sub": lambda left, right: Quantity(left.nanos - _nanos(right)),
    "major": lambda version: version.numbers[0],
    "minor": lambda version: version.numbers[1],
    "patch": lambda version: version.numbers[2],
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "int": int,
    "double": float,
    "string": lambda value: str(value).lower() if isinstance(value, bool) else str(value),
    "bool": lambda value: value if isinstance(value, bool) else value == "true",
    "dyn": lambda value: value,
    "quantity": lambda text: quantity(text),
    "isQuantity": lambda text: _reads(quantity, text),
    "semver": lambda text, normalize=False: semver(text, normalize=normalize),
    "isSemver": lambda text, normalize=False: _reads(lambda given: semver(given, normalize=normalize), text),
    "matches": _matches,
}
