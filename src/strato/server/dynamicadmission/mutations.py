"""Apply MutatingAdmissionPolicies to the object of one write. Pure but for reading parameters.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api import cel
from strato.api.kinds import Kind
from strato.clock import format_time
from strato.errors import ApiError, Cause, Unavailable
from strato.server.dynamicadmission.bindings import Invocation, invocations
from strato.server.dynamicadmission.conditions import Failed, Variables, environment, evaluate, matches
from strato.server.dynamicadmission.equivalence import converted
from strato.server.dynamicadmission.matching import Json
from strato.server.dynamicadmission.reinvocation import Reinvocation
from strato.server.dynamicadmission.sources import AdmissionPolicy, World
from strato.server.fieldmanager.merge import merge
from strato.server.fieldmanager.typed import Misfit, atomic_paths, check
from strato.server.fieldmanager.types import ABSENT
from strato.server.patch import PatchTestFailed, apply_json_patch

_MUTATION_UNITS, _BYTES_A_UNIT = 500, 2
"""Cost units charged for checking a changed object: 50 us, and 50 ns a byte."""
_PATCH_FIELDS = ("op", "path", "from", "value")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Mutated(NamedTuple):
    """The result of all policies for an object."""

    object: Json | None
    denials: tuple[str, ...]
    """Reasons to refuse the write; empty if it is not refused."""
    asked: tuple[tuple[str, str, str], ...]
    """The evaluated policies, bindings and parameters that ask to be evaluated again after later changes."""
    is_evaluated: bool
    """Whether any mutation was evaluated."""


class Mutations:
    """Evaluates policies.

    Args:
        check: Returns a changed object with its defaults, or raises an `ApiError`.
    """

    def __init__(self, world: World, check: Callable[[Json], Json]) -> None:
        self._world, self._check = world, check

    def evaluate(
        self,
        policies: Sequence[AdmissionPolicy],
        request: AdmissionRequest,
        others: Sequence[Kind],
        namespace: Json | None,
        reinvocation: Reinvocation,
    ) -> Mutated:
        """Apply policies to the object of a write, each to the result of the one before.

        Args:
            policies: The policies in order.
            request: The write; it is not changed.
            others: The other versions of the kind.
            namespace: The object's stored namespace.
            reinvocation: Which evaluations the second round skips; not changed here, as the result has what to add.

        Raises:
            ApiError: A changed object is no longer a valid object of its kind.
        """
        denials: list[str] = []
        asked: list[tuple[str, str, str]] = []
        evaluated = False
        subject = msgspec.structs.replace(request)
        for policy in policies:
            for invocation in invocations(policy, request, self._world, others, namespace):
                key = _key(policy, invocation)
                if reinvocation.skips(key):
                    continue
                failures: list[str] = []
                if isinstance(invocation.params, Failed):
                    failures.append(f"failed to configure binding: {invocation.params}")
                else:
                    evaluated = self._invoke(policy, invocation, subject, namespace, failures) or evaluated
                    if policy.spec.get("reinvocationPolicy") == "IfNeeded":
                        asked.append(key)
                if not policy.fails_open:
                    named = f"policy '{policy.name}' with binding '{invocation.binding.name}'"
                    denials += [f"{named} denied request: {failure}" for failure in failures]
        return Mutated(subject.object, tuple(denials), tuple(asked), evaluated)

    def _invoke(
        self,
        policy: AdmissionPolicy,
        invocation: Invocation,
        subject: AdmissionRequest,
        namespace: Json | None,
        failures: list[str],
    ) -> bool:
        """Apply the mutations of a policy to the object of ``subject``; return whether any was evaluated."""
        params = None if isinstance(invocation.params, Failed) else invocation.params
        spec, matched, registry = policy.spec, invocation.matched, self._world.registry
        evaluated = False

        def visible() -> dict[str, Any]:
            """Return the variables of expressions after the mutations so far."""
            env = environment(subject, matched, self._world, namespace, params)
            env["variables"] = Variables(spec.get("variables") or (), env)
            return env

        try:
            if not matches(spec.get("matchConditions") or (), visible(), fails_open=policy.fails_open):
                return False
        except Failed as error:
            failures.append(str(error))
            return False
        for mutation in spec.get("mutations") or ():
            if subject.object is None:
                break
            try:
                obj = converted(registry, subject.object, subject.kind, matched)
                made = _encode(self._mutated(mutation, visible(), obj, matched))
                cel.charge(_MUTATION_UNITS + len(made) // _BYTES_A_UNIT)
                subject.object = self._check(converted(registry, _decode(made), matched, subject.kind))
                evaluated = True
            except (Failed, cel.CostExceeded) as error:
                failures.append(str(error))
        return evaluated

    def _mutated(self, mutation: Mapping[str, Any], env: cel.Env, obj: Json, matched: Kind) -> Json:
        """Return a copy of an object after one mutation.

        Raises:
            Failed: The mutation cannot be evaluated or applied.
        """
        if mutation.get("patchType") == "JSONPatch":
            operations = evaluate((mutation.get("jsonPatch") or {}).get("expression") or "", env, mutates=True)
            return _patched(obj, operations)
        config = evaluate((mutation.get("applyConfiguration") or {}).get("expression") or "", env, mutates=True)
        return self._applied(obj, config, matched)

    def _applied(self, obj: Json, config: Any, matched: Kind) -> Json:
        if not isinstance(config, cel.CelMessage) or config.type_name != "Object":
            raise Failed(f"unsupported return type from ApplyConfiguration expression: {cel.type_name(config)}")
        _check_types(config)
        named = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
        applied = {**_json(config), **named}
        is_main = obj.get("kind") == matched.name
        kind = self._world.field_managers.type_of(matched, str(obj.get("apiVersion"))) if is_main else None
        if kind is None:
            raise Unavailable(
                f"Resource kind {named['apiVersion']}, Kind={named['kind']} not found. There can be a delay between "
                "when CustomResourceDefinitions are created and when they are available."
            )
        try:
            check(kind, applied, with_duplicates=False)
            atomic = ", ".join(atomic_paths(kind, applied))
            if atomic:
                raise Misfit(f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomic}")
            merged = merge(kind, obj, applied)
        except Misfit as error:
            raise Failed(f"error applying patch: {error}") from error
        return {} if merged is ABSENT else merged


def denial(request: AdmissionRequest, denials: Sequence[str]) -> ApiError:
    """Return the error of a write that policies refuse: its message is the first reason, its causes are all."""
    kind = request.kind
    return ApiError(
        denials[0],
        reason="Invalid",
        code=403,
        causes=[Cause("", text) for text in denials],
        details={"name": request.name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural},
    )


def _key(policy: AdmissionPolicy, invocation: Invocation) -> tuple[str, str, str]:
    params = invocation.params
    metadata = params["metadata"] if isinstance(params, dict) else {}
    return policy.name, invocation.binding.name, f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _patched(obj: Json, operations: Any) -> Json:
    if not isinstance(operations, list):
        raise Failed("type mismatch: JSONPatchType.expression should evaluate to array")
    patch = [_operation(one) for one in operations]
    try:
        # a copy: JSON patch works in place, and the object may share parts with the stored one
        patched = apply_json_patch(_decode(_encode(obj)), patch)
    except PatchTestFailed:
        return obj  # a JSON patch whose test fails is skipped without an error
    except ApiError as error:
        raise Failed(f"JSON Patch: {error}") from error
    if not isinstance(patched, dict):
        raise Failed("JSON Patch: the result is not an object")
    return patched


def _operation(value: Any) -> Json:
    if not isinstance(value, cel.CelMessage) or value.type_name != "JSONPatch":
        raise Failed(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of "
            f"{cel.type_name(value)}"
        )
    for name in value:
        if name not in _PATCH_FIELDS:
            raise Failed(f"unexpected JSONPatchType field: {name}")
        if name != "value" and not isinstance(value[name], str):
            raise Failed(f"unexpected type {cel.type_name(value[name])} for JSONPatchType '{name}' field")
    _check_types(value.get("value"))
    return {name: _json(inner) for name, inner in value.items()}


def _check_types(value: Any, path: str = "") -> None:
    """Check that each constructed object has the type name of the fields that lead to it (``Object.spec``).

    Raises:
        Failed: One has another type name.
    """
    if isinstance(value, cel.CelMessage):
        path = path or value.type_name
        if value.type_name != path:
            raise Failed(
                f'type mismatch: unexpected type name "{value.type_name}", expected "{path}", which matches field name '
                "path from root Object type"
            )
        for name, inner in value.items():
            _check_types(inner, f"{path}.{name}")
    elif isinstance(value, list | dict):
        for inner in value if isinstance(value, list) else value.values():
            _check_types(inner, path)


def _json(value: Any) -> Any:
    """Convert a value of an expression to JSON.

    Raises:
        Failed: The value has no form in JSON.
    """
    if isinstance(value, dict | list | str):
        cel.charge(len(value) // 4 if isinstance(value, str) else len(value))  # for each occurrence of a value
    if isinstance(value, dict):
        return {str(name): _json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_json(inner) for inner in value]
    if isinstance(value, datetime):
        return format_time(value.timestamp())
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise Failed(f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {cel.type_name(value)}")
