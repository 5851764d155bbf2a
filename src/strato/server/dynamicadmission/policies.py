"""ValidatingAdmissionPolicies: what they decide about one write. Pure but for reading parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api import cel
from strato.api.kinds import Kind
from strato.api.selectors import from_label_selector
from strato.api.shapes import LabelSelector
from strato.errors import ApiError, Cause
from strato.server.dynamicadmission.conditions import Failed, Variables, environment, evaluate, matches
from strato.server.dynamicadmission.matching import Json
from strato.server.dynamicadmission.sources import Binding, Policy, World

_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_MESSAGE_BYTES = 5 * 1024
"""The longest message that an expression may make."""
_ANNOTATION_CHARACTERS = 10 * 1024
_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"
_ANNOTATIONS_MAX = 64


class Denial(NamedTuple):
    """Why a validation does not hold."""

    message: str
    reason: str = "Invalid"
    number: int = 0
    """Of the expression, from 0."""


class Decided(NamedTuple):
    """What one policy says of a write."""

    denial: ApiError | None
    warnings: list[str]
    annotations: dict[str, str]


def decide(
    policy: Policy, request: AdmissionRequest, world: World, others: Sequence[Kind], namespace: Json | None
) -> Decided:
    """Evaluate a policy for each of its bindings that takes the write, and each of their parameters."""
    decided = Decided(None, [], {})
    matched = policy.scope.covered(request.kind, str(request.operation), request.subresource, others, request.name)
    if matched is None or not policy.scope.selects(request, namespace):
        return decided
    published: dict[str, dict[str, None]] = {}
    for binding in policy.bindings:
        if not _is_bound(binding, request, others, namespace):
            continue
        try:
            params = list(_params(policy, binding, request, world))
        except Failed as error:
            if not policy.fails_open:
                decided = _denied(decided, policy, binding, request, Denial(f"failed to configure binding: {error}"))
            continue
        for one in params:
            env = environment(request, matched, namespace, one)
            decided = _evaluated(decided, policy, binding, request, env, published)
    for key, values in list(published.items())[:_ANNOTATIONS_MAX]:
        decided.annotations[f"{policy.name}/{key}"] = ", ".join(values)[:_ANNOTATION_CHARACTERS]
    return decided


def _is_bound(binding: Binding, request: AdmissionRequest, others: Sequence[Kind], namespace: Json | None) -> bool:
    scope, operation = binding.scope, str(request.operation)
    matched = scope.covered(request.kind, operation, request.subresource, others, request.name)
    return matched is not None and scope.selects(request, namespace)


def _evaluated(
    decided: Decided,
    policy: Policy,
    binding: Binding,
    request: AdmissionRequest,
    env: dict[str, Any],
    published: dict[str, dict[str, None]],
) -> Decided:
    """Return the decision with what a binding says under certain parameters."""
    spec = policy.spec
    env["variables"] = Variables(spec.get("variables") or (), env)
    try:
        if not matches(spec.get("matchConditions") or (), env, fails_open=policy.fails_open):
            return decided
    except Failed as error:
        return _applied(decided, policy, binding, request, Denial(str(error)))
    for index, validation in enumerate(spec.get("validations") or ()):
        denial = _validated(validation, index, env, fails_open=policy.fails_open)
        if denial is not None:
            decided = _applied(decided, policy, binding, request, denial)
    for annotation in spec.get("auditAnnotations") or ():
        try:
            value = evaluate(annotation["valueExpression"], env)
            if value is not None and not isinstance(value, str):
                raise Failed(f"valueExpression '{annotation['valueExpression']}' is neither text nor null")
            if value and value.strip():
                published.setdefault(annotation["key"], {})[value.strip()[:_ANNOTATION_CHARACTERS]] = None
        except (Failed, cel.CostExceeded) as error:
            if not policy.fails_open:
                decided = _denied(decided, policy, binding, request, Denial(str(error)))
    return decided


def _validated(validation: Mapping[str, Any], index: int, env: cel.Env, *, fails_open: bool) -> Denial | None:
    try:
        if evaluate(validation["expression"], env) is True:
            return None
    except (Failed, cel.CostExceeded) as error:
        return None if fails_open else Denial(str(error), number=index)
    return Denial(_message(validation, env), validation.get("reason") or "Invalid", index)


def _message(validation: Mapping[str, Any], env: cel.Env) -> str:
    expression = validation.get("messageExpression")
    if expression:
        try:
            made = evaluate(expression, env)
        except (Failed, cel.CostExceeded):
            made = None  # as in Kubernetes: the plain message is the fallback
        if isinstance(made, str) and (made := made.strip()) and "\n" not in made and len(made) <= _MESSAGE_BYTES:
            return made
    plain = str(validation.get("message") or "").strip()
    return plain or f"failed expression: {validation['expression'].strip()}"


def _applied(decided: Decided, policy: Policy, binding: Binding, request: AdmissionRequest, denial: Denial) -> Decided:
    """Do what a binding says is to be done about a validation that does not hold."""
    actions = binding.spec.get("validationActions") or ()
    if "Deny" in actions:
        decided = _denied(decided, policy, binding, request, denial)
    if "Warn" in actions:
        decided.warnings.append(
            f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}': "
            f"{denial.message}"
        )
    if "Audit" in actions:
        failure = {
            "message": denial.message,
            "policy": policy.name,
            "binding": binding.name,
            "expressionIndex": denial.number,
            "validationActions": list(actions),
        }
        decided.annotations.setdefault(_FAILURE_KEY, msgspec.json.encode([failure]).decode())
    return decided


def _denied(decided: Decided, policy: Policy, binding: Binding, request: AdmissionRequest, denial: Denial) -> Decided:
    """Return the decision with a denial; of several the first counts."""
    if decided.denial is not None:
        return decided
    text = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied request: {denial.message}"
    kind, reason = request.kind, denial.reason
    error = ApiError(
        f'{kind.resource} "{request.name}" is forbidden: {text}',
        reason=reason,
        code=_CODES.get(reason, 422),
        causes=[Cause("", text)],
        details={"name": request.name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural},
    )
    return decided._replace(denial=error)


def _params(policy: Policy, binding: Binding, request: AdmissionRequest, world: World) -> Iterator[Json | None]:
    """Yield the parameters to evaluate with: None where there are to be none.

    Raises:
        Failed: They cannot be found, or there have to be some.
    """
    wanted, ref = policy.spec.get("paramKind"), binding.spec.get("paramRef")
    if not wanted or not ref:
        yield None
        return
    kind = find_kind(world, wanted)
    if kind is None:
        raise Failed(f"paramKind kind `{wanted.get('apiVersion')}, Kind={wanted.get('kind')}` not known")
    namespace = ref.get("namespace") or ""
    if not kind.namespaced and namespace:
        raise Failed("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if kind.namespaced:
        namespace = namespace or request.namespace
        if not namespace:
            raise Failed("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    found: list[Json] = []
    if ref.get("name"):
        one = world.get(kind, namespace, ref["name"])
        found = [one] if one is not None else []
    elif ref.get("selector") is not None:
        selector = from_label_selector(msgspec.convert(ref["selector"], LabelSelector))
        found = [one for one in world.list(kind, namespace) if selector.matches(one["metadata"].get("labels"))]
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise Failed("no params found for policy binding with `Deny` parameterNotFoundAction")
    yield from found


def find_kind(world: World, wanted: Mapping[str, Any]) -> Kind | None:
    """Return the kind that an ``apiVersion`` and a ``kind`` name, where it is served."""
    named = wanted.get("apiVersion"), wanted.get("kind")
    return next((kind for kind in world.registry.kinds() if (kind.api_version, kind.name) == named), None)
