"""What an expression consists of, as the parser reads it: a tree of nodes that say nothing of values or costs."""

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
    """``target.name(variable, …)``: the bodies, of ``size`` tokens together, are evaluated with each item."""

    name: str
    target: Node
    variable: str
    bodies: tuple[Node, ...]
    size: int


class ListLiteral(NamedTuple):
    """``[…]``; items after ``?`` are optional values, which are left out where there is none."""

    items: tuple[tuple[Node, bool], ...]


class MapLiteral(NamedTuple):
    """``{…}``, or ``type{…}``, which is of a type and has fields."""

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
    """Their number, which is what it costs to evaluate each once."""


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes right below one."""
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
    """Return the variable and the fields below it that a node selects; empty where it is anything else."""
    names: list[str] = []
    while isinstance(node, Select) and not node.is_optional:
        names.append(node.name)
        node = node.target
    return (node.name, *reversed(names)) if isinstance(node, Name) else ()
