"""CEL expressions about one write: their variables, and limits of their cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from strato.admission import AdmissionRequest
from strato.api import cel
from strato.api.kinds import Kind
from strato.api.validation.admissionregistration import MUTATION_TYPES
from strato.api.wire import service_account
from strato.lru import memoised
from strato.server.dynamicadmission.equivalence import as_matched
from strato.server.dynamicadmission.matching import Json
from strato.server.dynamicadmission.sources import Permissions, World
from strato.server.flowcontrol import timeslice
from strato.server.flowcontrol.dispatch import Steps
from strato.server.flowcontrol.waiting import Costly
from strato.server.path import Attributes

T = TypeVar("T")
INLINE_UNITS = 20_000
"""Largest cost of expressions that are evaluated without yielding, about 2 ms; costlier ones run in slices."""


class Failed(Exception):
    """An expression cannot be compiled or evaluated; the message says which and why."""


def _program(text: str, types: Sequence[str] = ()) -> cel.Program | str:
    """Compile an expression; return the error's text if that fails."""
    try:
        return cel.compile_expression(text, types)
    except cel.UnsupportedExpression as error:
        return str(error)


@memoised(64 << 20, longest=100_000, entry_bytes=64 << 10)
def _compiled(text: str) -> cel.Program | str:
    return _program(text)


@memoised(16 << 20, longest=100_000, entry_bytes=64 << 10)
def _compiled_mutation(text: str) -> cel.Program | str:
    return _program(text, MUTATION_TYPES)


def evaluate(text: str, env: cel.Env, *, mutates: bool = False) -> Any:
    """Return the value of an expression; with ``mutates`` it can construct objects and JSON patches.

    Raises:
        Failed: It cannot be compiled or evaluated.
    """
    program = (_compiled_mutation if mutates else _compiled)(text)
    if isinstance(program, str):
        raise Failed(f"compilation failed: {program}")
    try:
        return program(env)
    except cel.CostExceeded:
        raise
    except cel.EvaluationError as error:
        raise Failed(f"expression '{text}' resulted in error: {error}") from error


class Variables(Mapping[str, Any]):
    """The ``variables`` of a policy; each is evaluated on first use, and may use those before it."""

    def __init__(self, written: Sequence[Mapping[str, Any]], env: Mapping[str, Any]) -> None:
        self._expressions = {one["name"]: str(one["expression"]) for one in written}
        self._env = {**env, "variables": self}
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            expression = self._expressions[name]
            self._values[name] = None  # a variable that refers to itself gets null
            try:
                self._values[name] = evaluate(expression, self._env)
            except Failed as error:
                del self._values[name]
                raise cel.EvaluationError(f"composited variable {name!r} fails to evaluate: {error}") from error
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._expressions)

    def __len__(self) -> int:
        return len(self._expressions)


def environment(
    request: AdmissionRequest, matched: Kind, world: World, namespace: Json | None, params: Json | None = None
) -> dict[str, Any]:
    """Return the variables of expressions about a write."""
    new, old = as_matched(world.registry, request, matched)
    return {
        "authorizer": _asking(request, world.authorizer),
        "object": new,
        "oldObject": old,
        "request": described(request, matched),
        "namespaceObject": namespace,
        "params": params,
    }


def _asking(request: AdmissionRequest, authorizer: Permissions | None) -> cel.AuthorizerVariable:
    """Return the variable ``authorizer`` of a write."""
    kind = request.kind
    requested = cel.Question(None, "", kind.group, kind.plural, request.subresource, request.namespace, request.name)

    def ask(question: cel.Question, verb: str) -> cel.AuthorizationDecision:
        user = request.user if question.account is None else service_account(*question.account)
        if authorizer is None or user is None:
            return cel.AuthorizationDecision(allowed=True)
        about = (verb, question.group, question.resource, question.subresource, question.namespace, question.name)
        asked = Attributes(*about, question.path, question.fields)
        return cel.AuthorizationDecision(authorizer.allows(user, asked), authorizer.reason(user, asked))

    return cel.AuthorizerVariable(ask, requested)


def described(request: AdmissionRequest, matched: Kind) -> Json:
    """Return the attributes of a write without its objects, for AdmissionReviews and for ``request`` in expressions."""
    kind, user = request.kind, request.user
    subject = request.object or request.old_object or {}
    named = _named(str(subject.get("apiVersion") or kind.api_version), str(subject.get("kind") or kind.name))
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    shown = named if named["kind"] != kind.name else _named(matched.api_version, matched.name)
    result: Json = {
        "kind": shown,
        "resource": {"group": matched.group, "version": matched.version, "resource": matched.plural},
        "requestKind": named,
        "requestResource": resource,
        "name": request.name,
        "operation": str(request.operation),
        "userInfo": {
            "username": user.name if user else "",
            "groups": list(user.groups) if user else [],
            **({"uid": user.uid} if user and user.uid else {}),
            **({"extra": {key: list(values) for key, values in user.extra}} if user and user.extra else {}),
        },
        "dryRun": request.dry_run,
    }
    if request.namespace:
        result["namespace"] = request.namespace
    if request.subresource:
        result["subResource"] = result["requestSubResource"] = request.subresource
    return result


def _named(api_version: str, name: str) -> Json:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": name}


def matches(conditions: Sequence[Mapping[str, Any]], env: cel.Env, *, fails_open: bool) -> bool:
    """Whether all ``matchConditions`` are true; one that is false decides, even if others cannot be evaluated.

    Raises:
        Failed: Some cannot be evaluated, none is false, and the failure policy is Fail.
    """
    failures = []
    for condition in conditions:
        try:
            if evaluate(condition["expression"], env) is not True:
                return False
        except (Failed, cel.CostExceeded) as error:
            failures.append(str(error))
    if failures and not fails_open:
        raise Failed("; ".join(failures))
    return not failures


def bounded(work: Callable[[], T]) -> Steps[T]:
    """Evaluate expressions: at once if that is cheap, otherwise in slices, up to the cost limit of one object."""
    with cel.budget(INLINE_UNITS) as meter:
        try:
            result = work()
        except (Failed, cel.CostExceeded):
            if meter.left >= 0:
                raise
    if meter.left >= 0:
        return result
    limited: T = yield Costly(lambda: _limited(work))
    return limited


def _limited(work: Callable[[], T]) -> T:
    computation = timeslice.current()
    with (
        nullcontext() if computation is None else computation.pausing_itself(),
        cel.budget(cel.OBJECT_LIMIT, None if computation is None else computation.pause),
    ):
        return work()
