"""The nodes of an expression's syntax tree, without values or costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias


class Literal(NamedTuple):
    """A number, a text, true, false or null."""

    value: Any


class Name(NamedTuple):
    """A variable."""

    name: str


class Select(NamedTuple):
    """``target.name``, or ``target.?name``."""

    target: Node
    name: str
    is_optional: bool = False


class Index(NamedTuple):
    """``target[key]``, or ``target[?key]``."""

    target: Node
    key: Node
    is_optional: bool = False


class Has(NamedTuple):
    """``has(target.name)``."""

    selected: Select


class Call(NamedTuple):
    """``name(…)``, or ``target.name(…)``."""

    name: str
    target: Node | None
    arguments: tuple[Node, ...]


class Macro(NamedTuple):
    """``target.name(variable, …)``: the bodies, ``size`` tokens together, are evaluated for each item."""

    name: str
    target: Node
    variable: str
    bodies: tuple[Node, ...]
    size: int


class ListLiteral(NamedTuple):
    """``[…]``; items after ``?`` are optional values, and are left out if they have none."""

    items: tuple[tuple[Node, bool], ...]


class MapLiteral(NamedTuple):
    """``{…}``, or ``type{…}``, a value of a type, with fields instead of keys."""

    entries: tuple[tuple[Node, Node, bool], ...]
    type_name: str = ""


class Unary(NamedTuple):
    """``!inner`` or ``-inner``."""

    operator: str
    inner: Node


class Binary(NamedTuple):
    """``left operator right``, of any operator with two sides."""

    operator: str
    left: Node
    right: Node


class Conditional(NamedTuple):
    """``test ? then : other``."""

    test: Node
    then: Node
    other: Node


Node: TypeAlias = (
    Literal | Name | Select | Index | Has | Call | Macro | ListLiteral | MapLiteral | Unary | Binary | Conditional
)


class Expression(NamedTuple):
    """A whole expression."""

    root: Node
    tokens: int
    """Number of tokens, which is the cost of evaluating each once."""


def children(node: Node) -> Iterator[Node]:
    """Yield the child nodes of a node."""
    match node:
        case Select(target) | Has(Select(target)):
            yield target
        case Index(one, other) | Binary(_, one, other):
            yield one
            yield other
        case Call(_, target, arguments):
            if target is not None:
                yield target
            yield from arguments
        case Macro(_, target, _, bodies):
            yield target
            yield from bodies
        case ListLiteral(items):
            yield from (item for item, _ in items)
        case MapLiteral(entries):
            for key, value, _ in entries:
                yield key
                yield value
        case Unary(_, inner):
            yield inner
        case Conditional():
            yield from node


def path_of(node: Node) -> tuple[str, ...]:
    """Return the variable and the fields below it that a node selects; empty for any other node."""
    names: list[str] = []
    while isinstance(node, Select) and not node.is_optional:
        names.append(node.name)
        node = node.target
    return (node.name, *reversed(names)) if isinstance(node, Name) else ()
