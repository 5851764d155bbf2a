"""Mutants: one small fault in one function, as text. What `tools/mutate.py` makes the tests find.

An operator is what programmers get wrong: a boundary, a negation, one of two siblings, the first or the last, zero,
what is returned when there is nothing, a statement whose only trace is an event or a count.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_EMPTY = {
    "bool": "False",
    "int": "0",
    "float": "0.0",
    "str": "''",
    "bytes": "b''",
    "list": "[]",
    "tuple": "()",
    "dict": "{}",
    "set": "set()",
    "frozenset": "frozenset()",
    "Sequence": "()",
    "Mapping": "{}",
    "Iterable": "()",
}
_COMPILED = {"njit", "_jit", "_inner", "_outer", "abstractmethod"}
_UNTESTED_FUNCTIONS = {"__repr__", "__str__"}
_LOGGERS = {"log", "_log", "logger", "_logger", "LOG", "_LOG", "warnings"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A replacement of bytes ``start`` to ``end`` of a file; ``nth`` tells equal ones in a function apart."""

    path: str
    function: str
    was: str
    now: str
    nth: int
    lines: tuple[int, int]
    start: int
    end: int
    text: str

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What names the mutant, whatever is edited elsewhere."""
        return (self.path, self.function, self.was, self.now, self.nth)

    def rank(self, seed: int) -> bytes:
        """Place in the order in which a seed draws mutants; edits elsewhere do not move it."""
        return hashlib.sha256(repr((seed, self.key)).encode()).digest()

    def applied(self, source: bytes) -> bytes:
        """Return the file with the fault in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of the functions of a file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for function, first, last, was, now, text in _Finder().found_in(ast.parse(source)):
        assert last.end_lineno is not None
        assert last.end_col_offset is not None
        found.append(
            Mutant(
                path,
                function,
                was,
                now,
                seen[function, was, now],
                (first.lineno, last.end_lineno),
                starts[first.lineno - 1] + first.col_offset,
                starts[last.end_lineno - 1] + last.end_col_offset,
                text,
            )
        )
        seen[function, was, now] += 1
    return found


_Node = ast.expr | ast.stmt
_Found = tuple[str, _Node, _Node, str, str, str]


class _Finder:
    """Walks a file; what is neither decided nor seen by a test (messages, annotations, compiled code) is left out."""

    def found_in(self, tree: ast.Module) -> Iterator[_Found]:
        yield from self._scope(tree.body, "")

    def _scope(self, body: list[ast.stmt], prefix: str) -> Iterator[_Found]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self._scope(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                marks = {
                    name.id if isinstance(name, ast.Name) else getattr(name, "attr", "")
                    for mark in node.decorator_list
                    for name in ast.walk(mark)
                }
                if not marks & _COMPILED and node.name not in _UNTESTED_FUNCTIONS:
                    yield from self._function(node, prefix + node.name)

    def _function(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[_Found]:
        returns = function.returns
        for first, last, text in self._statements(function.body, returns):
            was, now = _short(first, last), text.splitlines()[0] if text != "pass" else "pass"
            yield name, first, last, was, now, text

    def _statements(self, body: list[ast.stmt], returns: ast.expr | None) -> Iterator[tuple[_Node, _Node, str]]:
        for node in body:
            yield from self._statement(node, returns, alone=len(body) == 1)

    def _statement(
        self, node: ast.stmt, returns: ast.expr | None, *, alone: bool
    ) -> Iterator[tuple[_Node, _Node, str]]:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.ClassDef) or _is_message(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._statements(node.body, node.returns)
            return
        if isinstance(node, ast.Return) and node.value is not None:
            for text in _returned(node.value, returns):
                yield node, node, f"return {text}"
        if isinstance(node, ast.Continue | ast.Break | ast.Delete | ast.AugAssign) or _acts(node):
            yield node, node, "pass"
        if isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
            other = copy.deepcopy(node)
            other.op = _BINARY[type(node.op)]()
            yield node, node, ast.unparse(other)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None) or []
            if isinstance(node, ast.If) and field == "orelse" and block and not isinstance(block[0], ast.If):
                yield block[0], block[-1], "pass"
            yield from self._statements(block, returns)
        for handler in getattr(node, "handlers", []) + getattr(node, "cases", []):
            yield from self._statements(handler.body, returns)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr):
                    yield from self._expression(child)
                elif isinstance(child, ast.withitem):
                    yield from self._expression(child.context_expr)

    def _expression(self, node: ast.expr) -> Iterator[tuple[_Node, _Node, str]]:
        if isinstance(node, ast.JoinedStr):
            return
        for other in _variants(node):
            text = ast.unparse(other)
            yield node, node, text if isinstance(node, ast.Constant | ast.Name) else f"({text})"
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                for test in child.ifs:
                    yield test, test, "True"
                for part in (child.iter, *child.ifs):
                    yield from self._expression(part)
            elif isinstance(child, ast.keyword):
                if child.arg != "strict":  # of zip: asserts that lengths are equal
                    yield from self._expression(child.value)
            elif isinstance(child, ast.Lambda):
                yield from self._expression(child.body)
            elif isinstance(child, ast.expr):
                yield from self._expression(child)


def _variants(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the faults of one expression itself."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for other in _COMPARE[type(op)]:
                changed = copy.deepcopy(node)
                changed.ops[at] = other()
                yield changed
        for at, side in enumerate(node.comparators):
            if isinstance(side, ast.Tuple | ast.Set | ast.List) and len(side.elts) > 1:
                for left_out in range(len(side.elts)):
                    changed = copy.deepcopy(node)
                    changed.comparators[at].elts.pop(left_out)  # type: ignore[attr-defined]  # one of the three above
                    yield changed
            if isinstance(side, ast.Constant) and type(side.value) is int and side.value > 1:
                changed = copy.deepcopy(node)
                changed.comparators[at] = ast.Constant(side.value + 1)
                yield changed
    elif isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed
        for at in range(len(node.values)):
            rest = node.values[:at] + node.values[at + 1 :]
            yield ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif type(node.value) is int and node.value in (0, 1):
            yield ast.Constant(1 - node.value)
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY and not _is_text(node):
        changed = copy.deepcopy(node)
        changed.op = _BINARY[type(node.op)]()
        yield changed
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMES:
        changed = copy.deepcopy(node)
        changed.func = ast.Name(_NAMES[node.func.id], ast.Load())
        yield changed
    elif isinstance(node, ast.Subscript) and ast.unparse(node.slice) in ("0", "-1"):
        changed = copy.deepcopy(node)
        changed.slice = ast.parse("-1" if ast.unparse(node.slice) == "0" else "0", mode="eval").body
        yield changed


def _returned(value: ast.expr, returns: ast.expr | None) -> Iterator[str]:
    """Yield what a function may return instead, by its annotation."""
    told = ast.unparse(returns) if returns is not None else ""
    kinds = [part.split("[")[0].split(".")[-1].strip() for part in told.split(" | ")]
    if isinstance(value, ast.Constant | ast.Compare | ast.BoolOp):
        return
    if "None" in kinds and len(kinds) > 1:
        yield "None"
    elif kinds[0] in _EMPTY and ast.unparse(value) != _EMPTY[kinds[0]]:
        yield f"not ({ast.unparse(value)})" if kinds[0] == "bool" else _EMPTY[kinds[0]]


def _acts(node: ast.stmt) -> bool:
    """Say whether a statement is there for what it changes elsewhere."""
    if isinstance(node, ast.Expr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        return isinstance(value, ast.Call)
    return isinstance(node, ast.Assign) and all(isinstance(at, ast.Attribute | ast.Subscript) for at in node.targets)


def _is_message(node: ast.stmt) -> bool:
    """Say whether a statement is a docstring or writes to the log."""
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    func = node.value.func if isinstance(node.value, ast.Call) else None
    return isinstance(func, ast.Attribute) and ast.unparse(func.value).split(".")[-1] in _LOGGERS


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _short(first: ast.AST, last: ast.AST) -> str:
    text = " ".join(ast.unparse(first).split()) + ("" if first is last else " …")
    return text if len(text) <= 160 else text[:159] + "…"
