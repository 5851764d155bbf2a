"""Evaluate ValidatingAdmissionPolicies for one write. Pure but for reading parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api import cel
from strato.api.kinds import Kind
from strato.errors import ApiError, Cause
from strato.server.dynamicadmission.bindings import invocations
from strato.server.dynamicadmission.conditions import Failed, Variables, environment, evaluate, matches
from strato.server.dynamicadmission.matching import Json
from strato.server.dynamicadmission.sources import AdmissionPolicy, PolicyBinding, World

_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_MESSAGE_BYTES = 5 * 1024
"""Longest message that a ``messageExpression`` may return."""
_ANNOTATION_CHARACTERS = 10 * 1024
_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"
_ANNOTATIONS_MAX = 64


class Denial(NamedTuple):
    """A validation that is false or cannot be evaluated, with its message."""

    message: str
    reason: str = "Invalid"
    number: int = 0
    """Index of the validation, from 0."""


class Decided(NamedTuple):
    """The decision of one policy about a write."""

    denial: ApiError | None
    warnings: list[str]
    annotations: dict[str, str]


def decide(
    policy: AdmissionPolicy, request: AdmissionRequest, world: World, others: Sequence[Kind], namespace: Json | None
) -> Decided:
    """Evaluate a policy for each binding that matches the write, and for each of the binding's parameter objects."""
    decided = Decided(None, [], {})
    published: dict[str, dict[str, None]] = {}
    for binding, matched, params in invocations(policy, request, world, others, namespace):
        if isinstance(params, Failed):
            if not policy.fails_open:
                decided = _denied(decided, policy, binding, request, Denial(f"failed to configure binding: {params}"))
            continue
        env = environment(request, matched, world, namespace, params)
        decided = _evaluated(decided, policy, binding, request, env, published)
    for key, values in list(published.items())[:_ANNOTATIONS_MAX]:
        decided.annotations[f"{policy.name}/{key}"] = ", ".join(values)[:_ANNOTATION_CHARACTERS]
    return decided


def _evaluated(
    decided: Decided,
    policy: AdmissionPolicy,
    binding: PolicyBinding,
    request: AdmissionRequest,
    env: dict[str, Any],
    published: dict[str, dict[str, None]],
) -> Decided:
    """Return the decision extended by the evaluation for one binding and parameter object."""
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
            made = None  # the plain message is used instead, as in Kubernetes
        if isinstance(made, str) and (made := made.strip()) and "\n" not in made and len(made) <= _MESSAGE_BYTES:
            return made
    plain = str(validation.get("message") or "").strip()
    return plain or f"failed expression: {validation['expression'].strip()}"


def _applied(
    decided: Decided, policy: AdmissionPolicy, binding: PolicyBinding, request: AdmissionRequest, denial: Denial
) -> Decided:
    """Return the decision after the binding's ``validationActions`` for a failed validation."""
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


def _denied(
    decided: Decided, policy: AdmissionPolicy, binding: PolicyBinding, request: AdmissionRequest, denial: Denial
) -> Decided:
    """Return the decision with a denial, unless it has an earlier one."""
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
