"""Validate CustomResourceDefinitions, with kube-apiserver's messages, and fill in what the server decides; pure.

`Registry.serve_crd` relies on these checks: it can compile and serve every definition that passes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strato.api import catalog, names
from strato.api.patterns import InvalidPattern, compile_pattern
from strato.api.status import TOO_MANY, duplicate, forbidden_field, invalid, invalid_value, not_supported, required
from strato.api.validation.webhookclients import client_problems
from strato.errors import Cause, StratoError
from strato.server import definitionstatus
from strato.server.schema import rulechecks, rulecosts
from strato.server.schema.structural import StructuralSchema

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_MOST_SELECTABLE = 8
_PLAIN_PATH = re.compile(r"(?:\.[A-Za-z_]\w*)+", re.ASCII)
_MAX_DEPTH = 100
"""Schemas nested deeper are refused, as recursive functions walk them."""

Json = Mapping[str, Any]


def prepare(crd: dict[str, Any], now: float, old: Json | None = None, peers: Iterable[Json] = ()) -> None:
    """Check a definition that a client has written, and complete it in place.

    Raises:
        Invalid: It cannot be served; every cause is listed.
    """
    _fill_names(crd)
    check(crd, old)
    _settle(crd, now, peers)


def check(crd: Json, old: Json | None) -> None:
    """Refuse a definition that cannot be served.

    Raises:
        Invalid: Every cause is listed.
    """
    causes = problems(crd) if old is None else update_problems(crd, old)
    if causes:
        raise invalid(catalog.CUSTOMRESOURCEDEFINITION, crd["metadata"].get("name", ""), causes)


def complete(crd: dict[str, Any], now: float, peers: Iterable[Json] = ()) -> None:
    """Fill in names, defaults and status of a definition that has passed `check`, in place.

    ``crd`` may have a status already, from before or from a client; ``peers`` are the definitions of its group.
    """
    _fill_names(crd)
    _settle(crd, now, peers)


def _settle(crd: dict[str, Any], now: float, peers: Iterable[Json]) -> None:
    crd["spec"].setdefault("conversion", {"strategy": "None"})
    definitionstatus.note_storage_version(crd)
    definitionstatus.accept_names(crd, peers, now)


def _fill_names(crd: dict[str, Any]) -> None:
    if not isinstance(crd.get("spec"), dict):
        crd["spec"] = {}
    spec = crd["spec"]
    if not isinstance(spec.get("names"), dict):
        spec["names"] = {}
    names = spec["names"]
    if names.get("kind"):
        names.setdefault("singular", str(names["kind"]).lower())
        names.setdefault("listKind", f"{names['kind']}List")


def problems(crd: Json, old: Json | None = None) -> list[Cause]:
    """Return everything wrong with a definition whose JSON types are right and whose names are defaulted.

    The cost of a schema's CEL rules is checked only if nothing else is wrong and ``old`` does not have the same schema.
    """
    return list(_problems(crd)) or list(_cost_problems(crd, old or {}))


def update_problems(crd: Json, old: Json) -> list[Cause]:
    """Return the problems of a definition, and of its changes to immutable fields."""
    found = problems(crd, old)
    new, was = crd.get("spec") or {}, old.get("spec") or {}
    named, known = new.get("names") or {}, was.get("names") or {}
    for field, value, before in (
        ("spec.group", new.get("group"), was.get("group")),
        ("spec.scope", new.get("scope"), was.get("scope")),
        ("spec.names.plural", named.get("plural"), known.get("plural")),
        ("spec.names.kind", named.get("kind"), known.get("kind")),
    ):
        if value != before:
            found.append(invalid_value(field, value, "field is immutable"))
    found += definitionstatus.stored_version_problems(crd)
    return found


def _problems(crd: Json) -> Iterator[Cause]:
    spec: Json = crd.get("spec") or {}
    named: Json = spec.get("names") or {}
    name = crd["metadata"].get("name", "")
    if name != f"{named.get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _group_problems(spec.get("group"))
    if not spec.get("scope"):
        yield required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    versions: Sequence[Json] = spec.get("versions") or ()
    yield from _version_list_problems(versions)
    for member in ("plural", "singular", "kind", "listKind"):
        value = named.get(member)
        if not value:
            yield required(f"spec.names.{member}")
            continue
        for text in names.check_label_1035(value.lower()):
            yield invalid_value(f"spec.names.{member}", value, text)
    if not any(version.get("storage") for version in versions):
        yield invalid_value("status.storedVersions", None, "must have at least one stored version")
    yield from _conversion_problems(spec.get("conversion") or {})
    for index, version in enumerate(versions):
        # kube-apiserver reports problems of a single version at the fields of apiextensions v1beta1, below spec
        prefix = "spec" if len(versions) == 1 else f"spec.versions[{index}]"
        yield from _one_version_problems(version, index, prefix, _place(versions, index))


def _place(versions: Sequence[Json], index: int) -> str:
    """Return the field path at which kube-apiserver reports problems of a version's schema."""
    alone = len(versions) == 1
    return "spec.validation.openAPIV3Schema" if alone else f"spec.versions[{index}].schema.openAPIV3Schema"


def _cost_problems(crd: Json, old: Json) -> Iterator[Cause]:
    versions = crd["spec"]["versions"]
    known = {one.get("name"): one.get("schema") for one in (old.get("spec") or {}).get("versions") or ()}
    for index, version in enumerate(versions):
        if version["schema"] != known.get(version["name"]):
            yield from rulecosts.problems(version["schema"]["openAPIV3Schema"], _place(versions, index))


def _group_problems(group: str | None) -> Iterator[Cause]:
    if not group:
        yield required("spec.group")
        return
    for text in names.check_subdomain(group):
        yield invalid_value("spec.group", group, text)
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _version_list_problems(versions: Sequence[Json]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, version in enumerate(versions):
        name = version.get("name") or ""
        if name in seen:
            yield duplicate(f"spec.versions[{index}].name", name)
        seen.add(name)
        for text in names.check_label_1035(name):
            yield invalid_value(f"spec.versions[{index}].name", name, text)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = list(versions) or None
        yield invalid_value("spec.versions", shown, "must have exactly one version marked as storage version")
    fields, of_schemas = ([version.get(member) for version in versions] for member in ("selectableFields", "schema"))
    if fields and fields[0] and _are_equal(fields) and not _are_equal(of_schemas):
        # kube-apiserver moves what all versions share to spec, and then misses the schema beside it
        yield invalid_value("spec.selectableFields", "", "may only be set when validations.schema is included")


def _are_equal(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _conversion_problems(conversion: Json) -> Iterator[Cause]:
    field, strategy = "spec.conversion", conversion.get("strategy", "None")
    webhook: Json = conversion.get("webhook") or {}
    if strategy not in ("None", "Webhook"):
        yield not_supported(f"{field}.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        if webhook.get("clientConfig") is not None:
            yield forbidden_field(
                f"{field}.webhookClientConfig", "should not be set when strategy is not set to Webhook"
            )
        return
    config: Json | None = webhook.get("clientConfig")
    if config is None:
        yield required(f"{field}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_problems(config, f"{field}.webhookClientConfig")
    reviews = webhook.get("conversionReviewVersions") or ()
    if not reviews:
        yield required(f"{field}.conversionReviewVersions")
    elif not {"v1", "v1beta1"}.intersection(reviews):
        place = f"{field}.conversionReviewVersions"
        yield invalid_value(place, list(reviews), "must include at least one of v1, v1beta1")


def _one_version_problems(version: Json, index: int, prefix: str, place: str) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    else:
        yield from _schema_problems(schema, place, has_status="status" in (version.get("subresources") or {}))
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _scale_problems(scale, f"{prefix}.subresources.scale")
    for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column_problems(column, f"{prefix}.additionalPrinterColumns[{at}]")
    yield from _selectable_problems(version.get("selectableFields") or (), schema or {}, f"{prefix}.selectableFields")


def _scale_problems(scale: Json, field: str) -> Iterator[Cause]:
    for member, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale.get(member) or ""
        if not path:
            yield required(f"{field}.{member}")
        elif not path.startswith(root):
            yield invalid_value(f"{field}.{member}", path, f"should be a json path under {root.rstrip('.')}")
    path = scale.get("labelSelectorPath") or ""
    if path and not path.startswith((".spec.", ".status.")):
        yield invalid_value(f"{field}.labelSelectorPath", path, "should be a json path under either .spec or .status")


def _column_problems(column: Json, field: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield required(f"{field}.name")
    kind = column.get("type")
    if not kind:
        yield required(f"{field}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif kind not in _COLUMN_TYPES:
        yield invalid_value(f"{field}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
    if not column.get("jsonPath"):
        yield required(f"{field}.JSONPath")


def _selectable_problems(fields: Sequence[Json], schema: Json, field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for at, selectable in enumerate(fields):
        path, place = selectable.get("jsonPath") or "", f"{field}[{at}].jsonPath"
        if not path:
            yield required(place)
            continue
        found: Any = schema
        for name in path.split(".")[1:] if _PLAIN_PATH.fullmatch(path) else ("",):
            found = ((found or {}).get("properties") or {}).get(name)
        if found is None:
            yield invalid_value(place, path, "is an invalid path: does not refer to a valid field")
            continue
        if path.startswith(".metadata."):
            yield invalid_value(place, path, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            text = "must point to a field of type string, boolean or integer. Enum string fields and strings with "
            yield invalid_value(place, path, text + "formats are allowed.")
        if path in seen:
            yield duplicate(place, path)
        seen.add(path)
    if len(seen) > _MOST_SELECTABLE:
        yield Cause(TOO_MANY, f"Too many: {len(seen)}: must have at most {_MOST_SELECTABLE} items", field)


def _schema_problems(schema: Json, field: str, *, has_status: bool) -> Iterator[Cause]:
    found = list(_node_problems(schema, field, "at the root", 0))
    kind = schema.get("type")
    if kind in _TYPES and kind != "object":
        if has_status:
            text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield invalid_value(f"{field}.type", kind, text)
        yield invalid_value(f"{field}.type", kind, "must be object at the root")
    yield from found
    if not found:
        yield from rulechecks.problems(schema, field)
        try:
            StructuralSchema(schema).compile()
        except (StratoError, ValueError, TypeError, LookupError, AttributeError) as error:
            yield invalid_value(field, None, f"cannot be compiled: {error}")


def _node_problems(schema: Json, field: str, place: str, depth: int) -> Iterator[Cause]:
    if depth > _MAX_DEPTH:
        yield invalid_value(field, None, f"must not be nested deeper than {_MAX_DEPTH} levels")
        return
    kind = schema.get("type")
    is_free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind:
        if not is_free or depth == 0:
            yield required(f"{field}.type", f"must not be empty {place}")
    elif kind not in _TYPES:
        yield not_supported(f"{field}.type", kind, _TYPES)
    if schema.get("pattern"):
        yield from _pattern_problems(schema["pattern"], f"{field}.pattern")
    extra = schema.get("additionalProperties")
    if extra and schema.get("properties"):
        yield forbidden_field(
            f"{field}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    if kind == "array" and not schema.get("items"):
        yield required(f"{field}.items", "must be specified")
    if isinstance(schema.get("items"), Mapping):
        yield from _node_problems(schema["items"], f"{field}.items", "for specified array items", depth + 1)
    if isinstance(extra, Mapping):
        inner = f"{field}.additionalProperties"
        yield from _node_problems(extra, inner, "for specified object fields", depth + 1)
    for name, member in (schema.get("properties") or {}).items():
        yield from _node_problems(member or {}, f"{field}.properties[{name}]", "for specified object fields", depth + 1)


def _pattern_problems(pattern: str, field: str) -> Iterator[Cause]:
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        yield invalid_value(field, pattern, f"must be a valid regular expression, but isn't: {error}")
