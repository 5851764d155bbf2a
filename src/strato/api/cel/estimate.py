"""Estimate the greatest cost of an expression from its syntax and the declared sizes of values.

The numbers are those of cel-go and Kubernetes, by which a real API server decides which rules a definition may have.

Source: ``cel-go/checker/cost.go`` and ``k8s.io/apiserver/pkg/cel/library/cost.go``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from strato.api.cel.syntax import (
    Binary,
    Call,
    Conditional,
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
)

UNBOUNDED = (1 << 64) - 1
"""Size or cost without a bound."""
_TRAVERSAL, _PATTERN = 0.1, 0.25
"""Cost of a pass over a text per character, and of each character of a pattern per such unit."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The type of a value in a schema."""

    kind: str
    """``string``, ``list``, ``map``, ``object``, ``dyn``, or ``scalar`` for all types of a fixed size."""
    most: int = 0
    """Most characters, items or entries."""
    least_bytes: int = 1
    """Smallest size of the value as JSON."""
    element: Declared | None = None
    """Type of items or entries."""
    fields: Mapping[str, Declared] = field(default_factory=dict)


_KEY = Declared("string")


class _Value(NamedTuple):
    """What is known of the value of a node, and the cost of its evaluation."""

    cost: int
    kind: str = "scalar"
    size: int = 1
    declared: Declared | None = None
    """Type in the schema; None for a computed value."""
    element_size: int = UNBOUNDED
    """Size of the items of a computed list."""
    element_kind: str = "dyn"


Scope = Mapping[str, _Value]
_ROOT = "self"


def estimated_cost(node: Node, variables: Mapping[str, Declared]) -> int:
    """Return the greatest cost of an expression, at most `UNBOUNDED`."""
    return min(_value(node, {name: _of(declared, 1) for name, declared in variables.items()}).cost, UNBOUNDED)


def _of(declared: Declared | None, cost: int) -> _Value:
    """Return the value of a type in the schema."""
    if declared is None:
        return _Value(cost, "dyn", UNBOUNDED)
    return _Value(cost, declared.kind, declared.most, declared)


def _times(size: int, factor: float) -> int:
    return UNBOUNDED if size * factor >= UNBOUNDED else math.ceil(size * factor)


def _value(node: Node, scope: Scope) -> _Value:
    match node:
        case Literal(value):
            is_text = isinstance(value, str)
            return _Value(0, "string" if is_text else "scalar", len(value) if isinstance(value, str) else 1)
        case Name(name):
            return scope.get(name, _Value(1, "dyn", UNBOUNDED))
        case Has(Select(target, _)):
            return _Value(_value(target, scope).cost)
        case Select(target, name):
            of = _value(target, scope)
            inner = of.declared and (of.declared.element if of.declared.kind == "map" else of.declared.fields.get(name))
            return _of(inner, of.cost + (of.kind in ("map", "object")))
        case Index(target, key):
            of, at = _value(target, scope), _value(key, scope)
            cost = of.cost + at.cost + 1
            if of.declared is not None:
                return _of(of.declared.element, cost)
            return _Value(cost, of.element_kind, of.element_size, scope[_ROOT].declared)
        case Unary(_, inner_node):
            return _Value(_value(inner_node, scope).cost + 1)
        case Binary(operator, left, right):
            return _binary(operator, _value(left, scope), _value(right, scope))
        case Conditional():
            test, one, other = (_value(part, scope) for part in node)
            larger = one if one.size >= other.size else other
            return larger._replace(cost=test.cost + max(one.cost, other.cost), declared=None)
        case ListLiteral(items):
            made = [_value(item, scope) for item, _ in items]
            size, kinds = max((one.size for one in made), default=0), {one.kind for one in made}
            cost, kind = 10 + sum(one.cost for one in made), kinds.pop() if len(kinds) == 1 else "dyn"
            return _Value(cost, "list", len(made), None, size, kind)
        case MapLiteral(entries, type_name):
            parts = [_value(part, scope) for key, value, _ in entries for part in (key, value)]
            return _Value((40 if type_name else 30) + sum(one.cost for one in parts), "map", len(entries))
        case Macro():
            return _macro(node, scope)
        case Call(name, receiver, arguments):
            of_target = None if receiver is None else _value(receiver, scope)
            given = [_value(one, scope) for one in arguments]
            cost, size, kind = _call(name, of_target, given)
            spent = sum(one.cost for one in given) + (0 if of_target is None else of_target.cost)
            return _Value(cost + spent, kind, size)


def _binary(operator: str, left: _Value, right: _Value) -> _Value:
    spent = left.cost + right.cost
    kinds = {left.kind, right.kind}
    if operator in ("||", "&&"):
        return _Value(spent)
    if operator == "in":
        return _Value(spent + (right.size if right.kind in ("list", "dyn") else 1))
    if operator in ("==", "!=") or (operator in ("<", "<=", ">", ">=") and kinds & {"string", "dyn"}):
        return _Value(spent + _times(min(left.size, right.size), _TRAVERSAL))
    if operator == "+" and kinds & {"string", "dyn"}:
        size = min(left.size + right.size, UNBOUNDED)
        return _Value(spent + _times(size, _TRAVERSAL), "string", size)
    if operator == "+" and "list" in kinds:
        size = min(left.size + right.size, UNBOUNDED)
        return _Value(spent + 1, "list", size, None, max(left.element_size, right.element_size), left.element_kind)
    return _Value(spent + 1)


_STEPS: Mapping[str, tuple[int, int]] = {
    "all": (3, 1),
    "exists": (4, 1),
    "exists_one": (2, 2),
    "existsOne": (2, 2),
    "filter": (13, 11),
    "map": (12, 11),
}
"""Macro → cost per item besides the bodies, and cost of the loop besides its items, by the macros' expansions."""


def _macro(node: Macro, scope: Scope) -> _Value:
    around = _value(node.target, scope)
    if node.name not in _STEPS:
        body = _value(node.bodies[0], {**scope, node.variable: around._replace(cost=1)})
        return _Value(around.cost + body.cost + 4, body.kind, body.size)
    if around.declared is not None:
        is_map = around.kind in ("map", "object")
        item = _of(_KEY if is_map else around.declared.element, 1)
    else:
        # items of a computed list have no type in the schema; cel-go's estimate takes the schema's root for it
        root = scope[_ROOT].declared
        item = _of(root, 1)._replace(kind=around.element_kind)
    bodies = [_value(body, {**scope, node.variable: item}) for body in node.bodies]
    step, rest = _STEPS[node.name]
    cost = around.cost + rest + around.size * (step + sum(body.cost for body in bodies))
    if node.name not in ("filter", "map"):
        return _Value(cost)
    made = bodies[-1] if node.name == "map" else item
    return _Value(cost, "list", around.size, None, made.size, made.kind)


_Answer = tuple[int, int, str]
"""The cost of a call, and the size and kind of its result."""


def _call(name: str, target: _Value | None, given: list[_Value]) -> _Answer:
    values = given if target is None else [target, *given]
    rule = _CALLS.get(name)
    if rule is not None and values:
        return rule(values)
    if name == "dyn":
        return 1, values[0].size if values else UNBOUNDED, "dyn"
    if name == "string" and values and values[0].kind == "dyn":  # the value may be bytes
        return _times(values[0].size, _TRAVERSAL), values[0].size, "string"
    if name in ("string", "value", "orValue", "or", "charAt"):
        return 1, UNBOUNDED, "dyn"
    return 1, 1, "scalar"


def _text(factor: float) -> Callable[[list[_Value]], _Answer]:
    """Return the rule of functions that read a whole text, and return one of the same length."""
    return lambda values: (_times(values[0].size, factor), values[0].size, "string")


def _parsed(factor: float) -> Callable[[list[_Value]], _Answer]:
    return lambda values: (_times(values[0].size, factor), UNBOUNDED, "dyn")


def _affix(values: list[_Value]) -> _Answer:
    return _times(values[-1].size, _TRAVERSAL), 1, "scalar"


def _contained(values: list[_Value]) -> _Answer:
    return _times(values[0].size, _TRAVERSAL) * _times(values[-1].size, _TRAVERSAL), 1, "scalar"


def _matched(values: list[_Value]) -> _Answer:
    looks = _times(min(values[0].size + 1, UNBOUNDED), _TRAVERSAL)
    return looks * _times(values[1].size if len(values) > 1 else UNBOUNDED, _PATTERN), 1, "scalar"


def _found(values: list[_Value]) -> _Answer:
    return _matched(values)[0], values[0].size, "dyn"


def _folded(values: list[_Value]) -> _Answer:
    of = values[0]
    if of.kind != "list":
        return _times(of.size, _TRAVERSAL), 1, "scalar"
    element = of.declared.element if of.declared is not None else None
    each = 1 + (_times(element.most, _TRAVERSAL) if element is not None and element.kind == "string" else 0)
    return of.size * each, 1, "scalar"


def _extreme(values: list[_Value]) -> _Answer:
    of = values[0]
    element = of.declared.element if of.declared is not None else None
    return _folded(values)[0], UNBOUNDED, of.element_kind if element is None else element.kind


def _within(rest: int) -> Callable[[list[_Value]], _Answer]:
    """Return the rule of comparing networks, which includes parsing an argument that is a text."""
    return lambda values: (
        rest + (_times(values[-1].size, _TRAVERSAL) if values[-1].kind in ("string", "dyn") else 0),
        1,
        "scalar",
    )


def _sets(factor: int) -> Callable[[list[_Value]], _Answer]:
    return lambda values: (1 + factor * values[0].size * values[-1].size, 1, "scalar")


def _replaced(values: list[_Value]) -> _Answer:
    size = values[0].size
    if len(values) < 3:
        return 1, UNBOUNDED, "string"
    # the replaced text may be empty, in which case the replacement is inserted around each character
    return _times(size, 2 * _TRAVERSAL), min((size + 1) * values[2].size + size, UNBOUNDED), "string"


def _split(values: list[_Value]) -> _Answer:
    return _times(values[0].size, 2 * _TRAVERSAL), values[0].size, "list"


def _joined(values: list[_Value]) -> _Answer:
    of = values[0]
    element = of.declared.element.most if of.declared is not None and of.declared.element else of.element_size
    size = of.size * element + (values[1].size * max(of.size - 1, 0) if len(values) > 1 else 0)
    return _times(size, _TRAVERSAL), min(size, UNBOUNDED), "string"


_CALLS: Mapping[str, Callable[[list[_Value]], _Answer]] = {
    **dict.fromkeys(("startsWith", "endsWith"), _affix),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "url", "jsonpatch.escapeKey"), _text(_TRAVERSAL)),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _parsed(_TRAVERSAL)
    ),
    **dict.fromkeys(("isSorted", "indexOf", "lastIndexOf"), _folded),
    **dict.fromkeys(("sum", "max", "min"), _extreme),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "sets.equivalent": _sets(2),
    "containsIP": _within(4),
    "containsCIDR": _within(7),
    **dict.fromkeys(("find", "findAll"), _found),
    "ip.isCanonical": _parsed(2 * _TRAVERSAL),
    "contains": _contained,
    "matches": _matched,
    "replace": _replaced,
    "split": _split,
    "join": _joined,
}
