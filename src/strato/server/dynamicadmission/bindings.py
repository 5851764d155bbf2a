"""Find the bindings of a policy that match a write, and the parameters with which each evaluates the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api.kinds import Kind
from strato.api.selectors import from_label_selector
from strato.api.shapes import LabelSelector
from strato.server.dynamicadmission.conditions import Failed
from strato.server.dynamicadmission.matching import Json
from strato.server.dynamicadmission.sources import AdmissionPolicy, PolicyBinding, World


class Invocation(NamedTuple):
    """One evaluation of a policy: a binding and a parameter object."""

    binding: PolicyBinding
    matched: Kind
    """The kind (perhaps another version of the written one) as which the policy matches the write."""
    params: Json | Failed | None
    """The parameter object, None if the policy has none, or the error of finding it."""


def invocations(
    policy: AdmissionPolicy, request: AdmissionRequest, world: World, others: Sequence[Kind], namespace: Json | None
) -> Iterator[Invocation]:
    """Yield the evaluations of a policy for a write: one for each matching binding and parameter object."""
    operation = str(request.operation)
    matched = policy.scope.covered(request.kind, operation, request.subresource, others, request.name)
    if matched is None or not policy.scope.selects(request, namespace):
        return
    for binding in policy.bindings:
        bound = binding.scope.covered(request.kind, operation, request.subresource, others, request.name)
        if bound is None or not binding.scope.selects(request, namespace):
            continue
        try:
            for params in list(_params(policy, binding, request, world)):
                yield Invocation(binding, matched, params)
        except Failed as error:
            yield Invocation(binding, matched, error)


def _params(
    policy: AdmissionPolicy, binding: PolicyBinding, request: AdmissionRequest, world: World
) -> Iterator[Json | None]:
    """Yield the parameter objects of a binding; None if the policy is evaluated without.

    Raises:
        Failed: They cannot be looked up, or there are none and the binding requires one.
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
    """Return the served kind with an ``apiVersion`` and ``kind``; None if it is not served."""
    named = wanted.get("apiVersion"), wanted.get("kind")
    return next((kind for kind in world.registry.kinds() if (kind.api_version, kind.name) == named), None)
