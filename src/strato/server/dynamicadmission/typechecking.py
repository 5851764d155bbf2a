"""Type-check the expressions of a policy, for its status, by evaluating them on a sample object of each kind.

There is no real type checker. An expression is evaluated on an object that has every field of its kind, each with a
value of its type. An operator that does not take its operands, or an unknown field, gives a warning. Parts that a
condition skips are not checked, and values of unknown type give no warnings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from strato.api import cel
from strato.server.dynamicadmission.conditions import Failed, Variables, evaluate
from strato.server.dynamicadmission.matching import Json
from strato.server.registry import Registry, Served
from strato.server.schema import shapes

_UNITS = 40_000
"""Cost limit for all expressions of a policy: 4 ms."""
_KINDS_MAX = 10
_SCALARS: Mapping[str, Any] = {
    "string": "text",
    "bytes": "text",
    "quantity": "1",
    "int32": 1,
    "int64": 1,
    "integer": 1,
    "number": 1.0,
    "boolean": True,
}
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OVERLOAD = re.compile(r"no such overload: ([^\s(]+)\((.*)\)")
_FIELD = re.compile(r"no such key: (\S+)")


class _Unknown(dict[str, Any]):
    """A value of unknown type, which has every field."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return self

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, of unknown type as well."""
        return self


class _Fields(dict[str, Any]):
    """A structure; its fields are made on first use, because types are recursive."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Any]) -> None:
        super().__init__(dict.fromkeys(names))
        self._make = make

    def __getitem__(self, name: str) -> Any:
        return self._make(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field."""
        return self._make(name) if name in self else default


class _Entries(dict[str, Any]):
    """A map with arbitrary keys, whose values have one type."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __missing__(self, name: str) -> Any:
        return self["key"]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value, for any key."""
        return self["key"]


def status_of(policy: Json, registry: Registry) -> Json:
    """Return the status of a policy: the observed generation, and type warnings."""
    spec = policy.get("spec") or {}
    warnings: dict[str, list[str]] = {}
    with cel.budget(_UNITS):
        for served in _kinds(spec, registry):
            for field, problem in _problems(spec, served):
                warnings.setdefault(field, []).append(
                    f"{served.asked.api_version}, Kind={served.asked.name}: {problem}"
                )
    found = [{"fieldRef": field, "warning": "\n".join(texts)} for field, texts in warnings.items()]
    checked = {"expressionWarnings": found} if found else {}
    return {"observedGeneration": policy["metadata"].get("generation", 1), "typeChecking": checked}


def _kinds(spec: Json, registry: Registry) -> list[Served]:
    """Return the kinds that the rules of a policy name."""
    rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
    wanted = {
        (group, version, resource): None
        for rule in rules
        for group in rule.get("apiGroups") or ()
        for version in rule.get("apiVersions") or ()
        for resource in rule.get("resources") or ()
    }
    found = (registry.find(*named) for named in wanted)
    return [served for served in found if served is not None][:_KINDS_MAX]


def _problems(spec: Json, served: Served) -> Iterator[tuple[str, str]]:
    obj = _sample(served)
    env: dict[str, Any] = {"object": obj, "oldObject": obj}
    env |= dict.fromkeys(("request", "params", "namespaceObject", "authorizer"), _UNKNOWN)
    env["variables"] = Variables(spec.get("variables") or (), env)
    for member, keys in (
        ("variables", ("expression",)),
        ("matchConditions", ("expression",)),
        ("validations", ("expression", "messageExpression")),
        ("auditAnnotations", ("valueExpression",)),
    ):
        for index, item in enumerate(spec.get(member) or ()):
            for key in keys:
                problem = _problem(item.get(key), env)
                if problem:
                    yield f"spec.{member}[{index}].{key}", problem


def _problem(text: str | None, env: cel.Env) -> str:
    if not text:
        return ""
    try:
        evaluate(text, env)
    except Failed as error:
        overload, field = _OVERLOAD.search(str(error)), _FIELD.search(str(error))
        if overload is not None and "map" not in overload[2]:  # otherwise an operand has an unknown type
            return f"ERROR: found no matching overload for '{overload[1]}' applied to '({overload[2]})'"
        if field is not None:
            return f"ERROR: undefined field '{field[1]}'"
    except cel.CostExceeded:
        return ""
    return ""


def _sample(served: Served) -> Any:
    """Return an object of a kind with all its fields."""
    kind = served.asked
    if served.openapi is None:
        shape = shapes.load().of(kind)
        return _UNKNOWN if shape is None else _of_shape(f"@{shape}")
    members = {**(served.openapi.get("properties") or {}), "apiVersion": _TEXT, "kind": _TEXT, "metadata": {}}
    fields = _of_schema({**served.openapi, "properties": members})
    return _Fields(members, lambda name: _of_shape(f"@{_OBJECT_META}") if name == "metadata" else fields[name])


def _of_shape(type_: shapes.Type) -> Any:
    if isinstance(type_, Mapping):
        return [_of_shape(type_["list"])] if "list" in type_ else _Entries(key=_of_shape(type_["map"]))
    if not type_.startswith("@"):
        return _SCALARS.get(type_, _UNKNOWN)
    fields: Mapping[str, Sequence[Any]] | None = shapes.load().types.get(type_[1:])
    return _UNKNOWN if fields is None else _Fields(fields, lambda name: _of_shape(fields[name][0]))


def _of_schema(schema: Mapping[str, Any]) -> Any:
    type_, extra, properties = schema.get("type"), schema.get("additionalProperties"), schema.get("properties") or {}
    if schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"):
        return _UNKNOWN
    if type_ == "array":
        return [_of_schema(schema.get("items") or {})]
    if type_ == "object":
        if isinstance(extra, Mapping):
            return _Entries(key=_of_schema(extra))
        return _UNKNOWN if extra else _Fields(properties, lambda name: _of_schema(properties[name]))
    return _UNKNOWN if schema.get("format") in _TIMES else _SCALARS.get(str(type_), _UNKNOWN)


_UNKNOWN = _Unknown()
_TEXT = {"type": "string"}
_TIMES = ("date", "date-time", "duration")
