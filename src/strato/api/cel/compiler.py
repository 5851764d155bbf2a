"""Compile the syntax tree of an expression to a function of the names in scope: each node becomes a closure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from strato.api.cel.cost import CALL_LIMIT, FREE, charge, close_meter, current_meter, open_meter
from strato.api.cel.functions import FUNCTIONS, METHODS
from strato.api.cel.operators import PLAINLY, PRODUCTS, RELATIONS, SUMS, found, index, negate, truth
from strato.api.cel.parser import parse
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
from strato.api.cel.values import (
    NONE,
    CelMessage,
    Env,
    EvaluationError,
    NoSuchKey,
    Optional,
    Program,
    no_overload,
    type_name,
)

_ERROR_UNITS = 10
"""Cost of continuing after an error."""
_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {**SUMS, **PRODUCTS}


def compile_expression(text: str, types: Container[str] = ()) -> Program:
    """Compile to a function of the names in scope.

    Args:
        text: The expression.
        types: Names of types of which the expression may make values (`CelMessage`), and whose members it may name.

    Raises:
        UnsupportedExpression: The expression is malformed, or uses an unsupported part of CEL.
    """
    expression = parse(text, types)
    try:
        program = _program(expression.root)
    except RecursionError:
        program = _too_deep
    size = expression.tokens

    def evaluate(env: Env) -> Any:
        meter, outer, token = open_meter(CALL_LIMIT, size)
        try:
            return program(env)
        except RecursionError:
            raise EvaluationError("nested too deeply") from None
        finally:
            close_meter(meter, outer, token)

    return evaluate


def _too_deep(_env: Env) -> Any:
    raise RecursionError


def _program(node: Node) -> Program:
    match node:
        case Literal(constant):
            return lambda _: constant
        case Name(name):
            return _variable(name)
        case Select(target, name, is_optional):
            return (_select_optional if is_optional else _select)(_program(target), name)
        case Index(target, key, is_optional):
            return _binary(found if is_optional else index, _program(target), _program(key))
        case Has(Select(target, name)):
            value = _program(target)
            return lambda env: _has(value(env), name)
        case Unary(operator, inner):
            value = _program(inner)
            return (lambda env: not truth(value(env))) if operator == "!" else (lambda env: negate(value(env)))
        case Binary(operator, left, right):
            return _operation(operator, _program(left), _program(right))
        case Conditional():
            test, then, other = map(_program, node)
            return lambda env: then(env) if truth(test(env)) else other(env)
        case Call(name, target, given):
            arguments = [_program(one) for one in (given if target is None else (target, *given))]
            function = FUNCTIONS[name] if target is None else METHODS[name]
            return lambda env: function(*[argument(env) for argument in arguments])
        case Macro(name, target, variable, bodies, size):
            programs = [_program(body) for body in bodies]
            if name in ("optMap", "optFlatMap"):
                return _optional_macro(name, _program(target), variable, programs[0])
            return _macro(name, _program(target), variable, programs, size)
        case ListLiteral(items):
            return _list([(_program(item), is_optional) for item, is_optional in items])
        case MapLiteral(entries, name):
            return _map([(_program(key), _program(value), optional) for key, value, optional in entries], name)


def _operation(operator: str, left: Program, right: Program) -> Program:
    if operator in ("||", "&&"):
        return _tolerant(left, right, operator == "||")
    if operator in _OPERATIONS:
        return _binary(_OPERATIONS[operator], left, right)
    return _relation(operator, left, right)


def _list(items: Sequence[tuple[Program, bool]]) -> Program:
    if not any(is_optional for _, is_optional in items):
        programs = [item for item, _ in items]
        return lambda env: [program(env) for program in programs]

    def evaluate(env: Env) -> list[Any]:
        made = ((item(env), is_optional) for item, is_optional in items)
        return [value for one, is_optional in made for value in (_given(one) if is_optional else (one,))]

    return evaluate


def _map(entries: Sequence[tuple[Program, Program, bool]], name: str) -> Program:
    def evaluate(env: Env) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value, is_optional in entries:
            one = value(env)
            for kept in _given(one) if is_optional else (one,):
                made[_key(key(env))] = kept
        return CelMessage(name, made) if name else made

    return evaluate


def _given(value: Any) -> tuple[Any, ...]:
    """Return the value of an optional as a tuple of one, empty if it has none."""
    if not isinstance(value, Optional):
        raise no_overload("?_", value)
    return () if value.inner is None else (value.inner,)


def _key(value: Any) -> Any:
    if type(value) in (str, int, bool):
        return value
    raise EvaluationError(f"unsupported key type: {type_name(value)}")


def _has(target: Any, name: str) -> bool:
    if isinstance(target, Optional):
        target = target.inner
    return isinstance(target, Mapping) and target.get(name) is not None


def _tolerant(left: Program, right: Program, decisive: bool) -> Program:
    """``||`` (decisive true) and ``&&`` (decisive false): a side with the decisive value hides the other's error."""

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
    """Compare two values; those of the same plain type, as nearly always, without further calls."""
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
        if target.__class__ is Optional:
            return found(target, name)
        raise NoSuchKey(f"no such key: {name}")

    return evaluate


def _select_optional(value: Program, name: str) -> Program:
    return lambda env: found(value(env), name)


def _optional_macro(name: str, target: Program, variable: str, body: Program) -> Program:
    def evaluate(env: Env) -> Optional:
        given = _given(target(env))
        if not given:
            return NONE
        made = body({**env, variable: given[0]})
        if name == "optMap":
            return Optional(made)
        if not isinstance(made, Optional):
            raise no_overload(name, made)
        return made

    return evaluate


def _macro(name: str, target: Program, variable: str, bodies: list[Program], size: int) -> Program:
    """Return a loop; ``size`` tokens are evaluated for each item."""

    def scopes(env: Env) -> Iterator[dict[str, Any]]:
        items = target(env)
        if not isinstance(items, list | Mapping):
            raise no_overload(name, items)
        scope = dict(env)  # one scope for all items, because each item is evaluated completely before the next
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
