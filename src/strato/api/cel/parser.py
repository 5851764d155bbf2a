"""Parse the text of an expression to its syntax tree, by recursive descent."""

from __future__ import annotations

import re
from collections.abc import Container

from strato.api.cel.functions import FUNCTIONS, METHODS
from strato.api.cel.operators import whole
from strato.api.cel.syntax import (
    Binary,
    Call,
    Conditional,
    Expression,
    Has,
    Index,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
    children,
    path_of,
)
from strato.api.cel.values import EvaluationError, MalformedExpression, UnsupportedExpression

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
_OPTIONAL_MACROS = ("optMap", "optFlatMap")
_LONGEST = 100_000
"""Longest expression in characters, as in Kubernetes."""
_BEYOND = re.compile(r"""[bB][rR]?["']|\"{3}|'{3}|\d[uU]\b|`|//""")
"""Constructs of CEL that this parser does not support: an expression with one of them may still be valid CEL."""


def parse(text: str, types: Container[str] = ()) -> Expression:
    """Return the syntax tree of an expression.

    Args:
        text: The expression.
        types: Names of types of which the expression may make values, and whose member types it may name.

    Raises:
        MalformedExpression: The text is no CEL.
        UnsupportedExpression: The expression uses an unsupported part of CEL.
    """
    if len(text) > _LONGEST:
        raise UnsupportedExpression(f"{text[:40]!r}…: over {_LONGEST} characters")
    parser = _Parser(text, types)
    return Expression(parser.whole(), len(parser.tokens))


def selected_paths(text: str) -> frozenset[tuple[str, ...]]:
    """Return the fields that an expression names, each as a variable and the names below it.

    Raises:
        MalformedExpression: The text is no CEL.
        UnsupportedExpression: The expression uses an unsupported part of CEL.
    """
    found: set[tuple[str, ...]] = set()
    waiting: list[Node] = [parse(text).root]
    while waiting:
        node = waiting.pop()
        path = path_of(node)
        if path:
            found.add(path)
        if isinstance(node, Has):
            waiting.append(node.selected)
        else:
            waiting.extend(children(node))
    return frozenset(found)


class _Parser:
    """Recursive descent; each method returns a node."""

    def __init__(self, text: str, types: Container[str]) -> None:
        self._text, self._types = text, types
        self.tokens = list(self._scan(text))
        self._at = 0

    def whole(self) -> Node:
        """Return the node of all tokens."""
        try:
            node = self.conditional()
        except RecursionError:
            raise UnsupportedExpression(f"{self._text[:40]!r}…: nested too deeply") from None
        if self.peek() != ("end", ""):
            raise self._malformed(f"unexpected {self.peek()[1]!r}")
        return node

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

    def conditional(self) -> Node:
        test = self._or()
        if not self._take("?"):
            return test
        then = self._or()
        self._expect(":")
        return Conditional(test, then, self.conditional())

    def _or(self) -> Node:
        left = self._and()
        while operator := self._take("||"):
            left = Binary(operator, left, self._and())
        return left

    def _and(self) -> Node:
        left = self._relation()
        while operator := self._take("&&"):
            left = Binary(operator, left, self._relation())
        return left

    def _relation(self) -> Node:
        left = self._sum()
        while operator := self._take("==", "!=", "<", "<=", ">", ">=", "in"):
            left = Binary(operator, left, self._sum())
        return left

    def _sum(self) -> Node:
        left = self._product()
        while operator := self._take("+", "-"):
            left = Binary(operator, left, self._product())
        return left

    def _product(self) -> Node:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = Binary(operator, left, self._unary())
        return left

    def _unary(self) -> Node:
        if operator := self._take("!", "-"):
            return Unary(operator, self._unary())
        return self._member()

    def _member(self) -> Node:
        value = self._primary()
        while True:
            if self._take("."):
                is_optional = bool(self._take("?"))
                name = self._name()
                is_call = not is_optional and self._take("(")
                value = self._call(value, name) if is_call else Select(value, name, is_optional)
            elif self._take("["):
                is_optional = bool(self._take("?"))
                value = Index(value, self.conditional(), is_optional)
                self._expect("]")
            elif self.peek() == ("op", "{") and (path := path_of(value)):
                self._next()
                value = self._message(path)
            else:
                return value

    def _name(self) -> str:
        kind, text = self._next()
        if kind != "name" or text in _KEYWORDS or text == "in":
            raise UnsupportedExpression(f"{self._text!r}: a name expected, not {text!r}")
        return _unescaped_name(text)

    def _call(self, target: Node, name: str) -> Node:
        if name in _MACROS or name in _OPTIONAL_MACROS:
            variable = self._name()
            self._expect(",")
            begin = self._at
            bodies = self._items(")")
            if len(bodies) != 1 and not (name == "map" and len(bodies) == 2):
                raise UnsupportedExpression(f"{self._text!r}: {name}() takes a variable and an expression")
            return Macro(name, target, variable, bodies, self._at - begin)
        arguments = self._items(")")
        if name not in METHODS:
            raise UnsupportedExpression(f"{self._text!r}: function {name!r} is not supported")
        return Call(name, target, arguments)

    def _items(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._take(end):
            items.append(self.conditional())
            if not self._take(","):
                self._expect(end)
                break
        return tuple(items)

    def _primary(self) -> Node:
        kind, text = self._next()
        if kind == "op":
            return self._bracketed(text)
        if kind == "name":
            return self._named(text)
        return Literal(_literal(kind, text))

    def _bracketed(self, text: str) -> Node:
        if text == "(":
            inner = self.conditional()
            self._expect(")")
            return inner
        if text == "[":
            items: list[tuple[Node, bool]] = []
            while not self._take("]"):
                is_optional = bool(self._take("?"))
                items.append((self.conditional(), is_optional))
                if not self._take(","):
                    self._expect("]")
                    break
            return ListLiteral(tuple(items))
        if text == "{":
            return self._map("")
        raise UnsupportedExpression(f"{self._text!r}: unexpected {text!r}")

    def _message(self, path: tuple[str, ...]) -> Node:
        if path[0] not in self._types:
            raise UnsupportedExpression(f"{self._text!r}: undeclared reference to '{'.'.join(path)}'")
        return self._map(".".join(path))

    def _map(self, type_name: str) -> Node:
        """Return the entries up to the closing brace; in a value of a type the keys are names."""
        entries: list[tuple[Node, Node, bool]] = []
        while not self._take("}"):
            is_optional = bool(self._take("?"))
            key = Literal(self._name()) if type_name else self.conditional()
            self._expect(":")
            entries.append((key, self.conditional(), is_optional))
            if not self._take(","):
                self._expect("}")
                break
        return MapLiteral(tuple(entries), type_name)

    def _named(self, name: str) -> Node:
        if name in _KEYWORDS:
            return Literal(_KEYWORDS[name])
        following = [text for _, text in self.tokens[self._at : self._at + 3]]
        if following[:1] == ["."] and following[2:] == ["("] and f"{name}.{following[1]}" in FUNCTIONS:
            name = f"{name}.{following[1]}"
            self._at += 2
        if not self._take("("):
            return Name(name)
        if name == "has":
            return self._has()
        if name not in FUNCTIONS:
            raise UnsupportedExpression(f"{self._text!r}: function {name!r} is not supported")
        return Call(name, None, self._items(")"))

    def _has(self) -> Node:
        selected = self.conditional()
        self._expect(")")
        if not isinstance(selected, Select):
            raise UnsupportedExpression(f"{self._text!r}: has() needs a field")
        return Has(selected)


def _unescaped_name(name: str) -> str:
    return name.removeprefix("__").removesuffix("__") if name.startswith("__") and name.endswith("__") else name


def _literal(kind: str, text: str) -> object:
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
