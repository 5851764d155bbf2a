"""Runs the cases of server-side apply: each of one form, which the file it is in names."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from strato.errors import ApiError
from strato.server.fieldmanager import entries as wire
from strato.server.fieldmanager import merge, paths, scale, schemas, typed
from strato.server.fieldmanager.manager import LAST_APPLIED, FieldManager
from strato.server.fieldmanager.types import ABSENT, DEDUCED, ListType, MapType, Type
from strato.server.fieldmanager.updater import Conflicts, Owned, Updater
from strato.server.openapi.schemas import published
from tests.cases import appliedhttp

Json = dict[str, Any]


def run(area: str, known: Json, case: Json) -> None:
    """Run one case of a file."""
    if area.startswith("merge-"):
        _merge(known, case)
    elif area.startswith("typed-"):
        _TYPED[area.removeprefix("typed-")](_type(known, case), case)
    else:
        _OTHERS[area](case)


# ── types ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Schema:
    """A schema in the form of structured-merge-diff."""

    def __init__(self, document: Json) -> None:
        self._named = {each["name"]: each for each in document["types"]}
        self._types: dict[tuple[str, str], Type] = {}

    def of(self, reference: Json) -> Type:
        name = reference.get("namedType")
        relationship = reference.get("elementRelationship", "")
        if name == "__untyped_deduced_":
            return DEDUCED if relationship != "atomic" else DEDUCED.with_atomic(atomic=True)
        if name is None:
            return _overridden(self._atom(reference), relationship)
        if (name, relationship) not in self._types:
            self._types[name, relationship] = _overridden(self._atom(self._named[name]), relationship)
        return self._types[name, relationship]

    def _atom(self, atom: Json) -> Type:
        items, members, scalar = atom.get("list"), atom.get("map"), atom.get("scalar", "")
        listed = self._list(items) if items is not None else None
        mapped = self._map(members) if members is not None else None
        return Type(scalar, listed, mapped, is_deduced=scalar == "untyped" and "name" not in atom)

    def _map(self, atom: Json) -> MapType:
        declared = {field["name"]: field for field in atom.get("fields") or ()}
        atomic = atom.get("elementRelationship") == "atomic"
        element = {"type": atom["elementType"]} if atom.get("elementType") else None
        return MapType(declared, lambda field: self.of(field["type"]), element, atomic=atomic)

    def _list(self, atom: Json) -> ListType:
        keys = tuple(atom.get("keys") or ())
        kind = "atomic" if atom.get("elementRelationship") != "associative" else "map" if keys else "set"

        def default_of(key: str) -> Any:
            element = self.of(atom["elementType"]).map
            return element.declared.get(key, {}).get("default", ABSENT) if element is not None else ABSENT

        return ListType(atom["elementType"], self.of, kind, keys, default_of)


def _overridden(kind: Type, relationship: str) -> Type:
    return kind.with_atomic(atomic=relationship == "atomic") if relationship else kind


def _type(known: Json, case: Json, step: Json | None = None) -> Type:
    named = {**case, **(step or {})}
    if named["schema"] == "deduced":
        return DEDUCED
    return _Schema(known[named["schema"]]).of({"namedType": named["type"]})


# ── typed values ──────────────────────────────────────────────────────────────────────────────────────────────────


def _set(fields: Any) -> paths.FieldSet:
    return paths.read_set(fields)


def _fits(kind: Type, value: Any, *, with_duplicates: bool) -> bool:
    try:
        typed.check(kind, value, with_duplicates=with_duplicates)
    except typed.Misfit:
        return False
    return True


def _validate(kind: Type, case: Json) -> None:
    assert _fits(kind, case["object"], with_duplicates=False) is case["valid"]
    assert _fits(kind, case["object"], with_duplicates=True) is case.get("validWithDuplicates", case["valid"])


def _compare(kind: Type, case: Json) -> None:
    there, back = (typed.compare(kind, case[a], case[b]) for a, b in (("lhs", "rhs"), ("rhs", "lhs")))
    wanted = tuple(_set(case[name]) for name in ("added", "modified", "removed"))
    assert tuple(there) == wanted
    assert tuple(back) == wanted[::-1]


def _merged(kind: Type, case: Json) -> None:
    before = copy.deepcopy((case["lhs"], case["rhs"]))
    assert _present(merge.merge(kind, case["lhs"], case["rhs"])) == case["result"]
    assert (case["lhs"], case["rhs"]) == before


def _present(value: Any) -> Any:
    return None if value is ABSENT else value


def _with_keys(kind: Type, value: Any, fields: paths.FieldSet) -> paths.FieldSet:
    """Return a set with the keys of the items that it leads through and a value holds."""
    there = typed.field_set(kind, value)
    result = fields
    for path in paths.iterate(fields):
        for at, element in enumerate(path if paths.has(there, path) else ()):
            for key in msgspec.json.decode(element[2:]) if element[0] == "k" else ():
                one: paths.FieldSet = {}
                paths.insert(one, [*path[: at + 1], f"f:{key}"])
                result = paths.union(result, one)
    return result


def extract(kind: Type, value: Any, fields: paths.FieldSet) -> Any:
    """Return a value with certain members and items alone, as clients that apply what they own take it out."""
    what = kind.kind_of(value) or kind.first()
    if what == "map" and kind.map is not None and value.__class__ is dict and value and not kind.map.atomic:
        kept: Any = {}
        for name, inner in value.items():
            below = fields.get("f:" + name)
            if below is not None:
                kept[name] = extract(kind.map.child(name) or DEDUCED, inner, fields if paths.MEMBER in below else below)
        return kept or None
    if what == "list" and kind.list is not None and value.__class__ is list and value and kind.list.kind != "atomic":
        kept = []
        for item in value:
            below = fields.get(typed.item_element(kind.list, item))
            if below is not None:
                kept.append(item if below == paths.LEAF else extract(kind.list.element, item, below))
        return kept or None
    return value if what == "scalar" or value.__class__ is {"map": dict, "list": list}[what] else None


def _merge_extract(kind: Type, case: Json) -> None:
    merged = merge.merge(kind, case["object"], case["config"])
    assert merged == case["merged"]
    assert extract(kind, merged, _set(case["leafSet"])) == case["result"]


def _reconcile(kind: Type, case: Json) -> None:
    wanted = None if case["result"] is None else _set(case["result"])
    assert merge.reconcile(_set(case["set"]), kind) == wanted


def _extract_keys(kind: Type, case: Json) -> None:
    fields = _with_keys(kind, case["object"], _set(case["set"]))
    assert extract(kind, case["object"], fields) == case["result"]


_TYPED: dict[str, Callable[[Type, Json], None]] = {
    "validate": _validate,
    "compare": _compare,
    "merge": _merged,
    "fieldset": lambda kind, case: _equal(typed.field_set(kind, case["object"]), _set(case["set"])),
    "remove": lambda kind, case: _equal(merge.remove(kind, case["object"], _set(case["set"])), case["result"]),
    "extract": lambda kind, case: _equal(extract(kind, case["object"], _set(case["set"])), case["result"]),
    "extract-keys": _extract_keys,
    "merge-extract": _merge_extract,
    "reconcile": _reconcile,
}


def _equal(found: Any, wanted: Any) -> None:
    assert found == wanted


# ── sequences of merges ───────────────────────────────────────────────────────────────────────────────────────────


class _CannotConvert(Exception):
    pass


class _Versions:
    """Versions that a converter of the cases makes of one another."""

    def __init__(self, converter: str) -> None:
        self.types: dict[str, Type] = {}
        self.default: Type = DEDUCED
        self._converter = converter

    def type_of(self, api_version: str) -> Type | None:
        if self._converter == "repeat" and api_version not in self.types:
            return None
        return self.types.get(api_version, self.default)

    def convert(self, obj: Any, api_version: str, to: str) -> Any:
        if api_version == to or obj is ABSENT:
            return obj
        if self._converter == "rename":
            return _renamed(
                obj, lambda name: name.removesuffix(api_version) + to if name.endswith(api_version) else name
            )
        if self._converter == "repeat":
            return {
                name: _renamed(value, lambda name: name[0] * int(to[1:])) if isinstance(value, dict) else value
                for name, value in obj.items()
            }
        if self._converter == "reliant" and isinstance(obj, dict):
            names = {"v1": "field_foo_rely_on_bar", "v2": "required_field_bar"}
            if to == "v1" and names["v2"] not in str(obj):
                raise _CannotConvert
            return _renamed(obj, lambda name: names[to] if name == names[api_version] else name)
        return obj


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {rename(name): _renamed(inner, rename) for name, inner in value.items()}
    return [_renamed(inner, rename) for inner in value] if isinstance(value, list) else value


def _merge(known: Json, case: Json) -> None:
    versions = _Versions(case["converter"])
    ignored = {version: _set(fields) for version, fields in (case.get("ignoredFields") or {}).items()}
    for step in case["steps"]:
        if "version" in step and "type" in step:
            versions.types[step["version"]] = versions.default = _type(known, case, step)
    updater = Updater(versions, lambda version: lambda fields: paths.without(fields, ignored.get(version, {})))
    live: Any = None
    last = case["steps"][0]["version"]
    managed: dict[Any, Owned] = {}
    for number, step in enumerate(case["steps"]):
        if step["op"] == "changeSchema":
            continue
        name, version, config = step["manager"], step["version"], step["object"]
        if "type" in step:
            versions.default = _type(known, case, step)
            versions.types[version] = versions.default
            if case["converter"] == "none":
                versions.types = dict.fromkeys(versions.types, versions.default)
        kind = versions.types[version]
        live = versions.convert(live, last, version)
        last = version
        before = copy.deepcopy(live)
        if step["op"] == "extractApply":
            mine = managed[name].fields if name in managed else {}
            kept = extract(kind, live, _leaves(mine)) if mine else None
            config = _present(merge.merge(kind, kept, config))
        problem: Exception | None = None
        try:
            if step["op"] == "update":
                managed, changed = updater.update(live, config, version, managed)
                gained = paths.without(changed, ignored.get(version, {}))
                mine = paths.union(managed[name].fields if name in managed else {}, gained)
                if mine:
                    managed[name] = Owned(mine, version)
                live = config
            else:
                force = step["op"] == "extractApply" or bool(step.get("force"))
                new, managed = updater.apply(live, config, version, managed, name, force=force)
                assert typed.same(_present(new), live) or not step.get("noop"), number
                live = _present(new)
        except (Conflicts, typed.Misfit, _CannotConvert) as error:
            problem = error
        assert isinstance(problem, Conflicts) is ("conflicts" in step), number
        assert isinstance(problem, typed.Misfit | _CannotConvert) is ("error" in step), number
        if isinstance(problem, Conflicts):
            assert _conflict_texts(problem) == _wanted_texts(step["conflicts"]), number
            live = before
            continue
        if problem is not None:
            return
        assert live == step["live"], number
        found_managers = {
            owner: {"apiVersion": owned.api_version, "set": paths.write_set(owned.fields)}
            for owner, owned in managed.items()
        }
        wanted = {
            owner: {"apiVersion": each["apiVersion"], "set": each["set"]} for owner, each in step["managers"].items()
        }
        assert found_managers == wanted, number


def _leaves(fields: paths.FieldSet) -> paths.FieldSet:
    """Return the paths of a set below which there are none."""
    return {
        element: below if below == paths.LEAF else _leaves(below)
        for element, below in fields.items()
        if element != paths.MEMBER
    }


def _conflict_texts(found: Conflicts) -> Counter[tuple[str, str]]:
    return Counter(
        (owner, paths.text_of(path)) for owner, fields in found.conflicts.items() for path in paths.iterate(fields)
    )


def _wanted_texts(conflicts: list[Json]) -> Counter[tuple[str, str]]:
    return Counter((each["manager"], each["path"]) for each in conflicts)


# ── field paths ───────────────────────────────────────────────────────────────────────────────────────────────────


def _element(case: Json) -> None:
    if "error" in case:
        with pytest.raises(paths.InvalidFields):
            paths.read_element(case["input"])
        return
    found = paths.read_element(case["input"])
    assert found == case["output"]
    # the order of members of a map is random in the source
    assert sorted(paths.element_text(found)) == sorted(case["text"])


def _set_text(case: Json) -> None:
    def read() -> paths.FieldSet:
        return paths.read_set(msgspec.json.decode(case["input"]))

    if "error" in case:
        with pytest.raises((paths.InvalidFields, msgspec.DecodeError)):
            read()
    else:
        assert msgspec.json.encode(paths.write_set(read())).decode() == case["normalized"]


# ── managed fields ────────────────────────────────────────────────────────────────────────────────────────────────


def _identity(entry: Json) -> wire.Identity:
    version = entry.get("apiVersion", "") if entry["operation"] == "Update" else ""
    return wire.Identity(entry["manager"], entry["operation"], version, entry.get("subresource", ""))


def _conflicts(case: Json) -> None:
    found = []
    times = {}
    for each in case["conflicts"]:
        entry = msgspec.json.decode(each["manager"])
        found.append((_identity(entry), each["path"]))
        times[_identity(entry)] = entry.get("time", "")
    error = wire.conflict_error(found, times)
    status = case["status"]
    assert (error.message, error.reason, error.code) == (status["message"], status["reason"], status["code"])
    causes = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in error.causes]
    assert sorted(causes, key=str) == sorted(status["details"]["causes"], key=str)


def _entries(case: Json) -> None:
    match case["kind"]:
        case "managerIdentifier":
            assert _identity(case["entry"]).text() == case["result"]
        case "managedFieldsDecode" if case["error"] is not None:
            with pytest.raises(wire.InvalidEntries):
                wire.read_entries(case["input"])
        case "managedFieldsDecode":
            wire.read_entries(case["input"])
        case "managedFieldsSort":
            assert sorted(case["input"] or (), key=wire.order) == (case["result"] or [])
        case _:
            assert (case["result"] or []) == wire.write_entries(wire.read_entries(case["input"]))


def _scale(case: Json) -> None:
    parent = wire.read_entries(case["parent"])
    if case["kind"] == "scaleToSubresource":
        result = scale.to_scale(parent, case["mappings"])
    else:
        written = wire.read_entries(case["subresource"])
        result = scale.from_scale(parent, written, case["mappings"], case["groupVersion"])
    assert wire.write_entries(result) == wire.write_entries(wire.read_entries(case["result"]))


def _upgraded(case: Json) -> None:
    """What kubectl makes of entries of client-side apply, with our sets."""
    managed = wire.read_entries(case["object"]["metadata"].get("managedFields"))
    before = {**managed}
    sub, names = case["subresource"], case["csaManagers"]
    mine = wire.Identity(case["ssaManager"], "Apply", "", sub)
    theirs = [
        owner
        for owner in managed
        if owner.operation == "Update" and owner.manager in names and owner.subresource == sub
    ]
    if mine not in managed and theirs:
        first = next(owner for name in names for owner in theirs if owner.manager == name)
        managed[mine] = before[first]
    if mine in managed:
        for name in names:
            for owner in [owner for owner in theirs if owner.manager == name and owner in before]:
                owned = managed.get(mine)
                assert owned is not None
                if before[owner].api_version == owned.api_version:
                    fields = paths.union(owned.fields, before[owner].fields)
                    managed[mine] = Owned(fields, owned.api_version, owned.time)
                    break
        for owner in theirs:
            managed.pop(owner, None)
    wanted = wire.read_entries(case["result"]["metadata"].get("managedFields"))
    assert {owner: owned.fields for owner, owned in managed.items()} == {
        owner: owned.fields for owner, owned in wanted.items()
    }
    assert (case["patch"] is None) is (managed == before)


class _Builtin:
    """The single version of a built-in kind."""

    def __init__(self, api_version: str, kind: str, *, has_others: bool) -> None:
        self._version, self._has_others = api_version, has_others
        group, _, version = api_version.rpartition("/")
        name = next(
            name
            for name, schema in published().items()
            if {"group": group, "version": version, "kind": kind} in schema.get("x-kubernetes-group-version-kind", ())
        )
        self._type = schemas.Compiler(published().get).named(name)

    def type_of(self, api_version: str) -> Type | None:
        return self._type if api_version == self._version or self._has_others else None

    def convert(self, obj: Any, api_version: str, to: str) -> Any:
        del api_version, to
        return obj


def _sequence(case: Json) -> None:
    version, kind = case["gvk"]
    manager = FieldManager(
        Updater(_Builtin(version, kind, has_others="maxUpdateManagers" in case)),
        version,
        kind,
        case["subresource"],
        case.get("maxUpdateManagers", 1 << 30),
    )
    live: Json | None = case.get("live")
    for number, step in enumerate(case["steps"]):
        live = step.get("live", live)
        wanted = [_instant(label) for label in _times(step.get("result") or {})]
        now = max(wanted, default="") or _instant("T0")
        obj = copy.deepcopy(step["object"])
        try:
            if step["op"] == "apply":
                result = manager.apply(live, obj, step["manager"], now, force=bool(step.get("force")))
            else:
                entries = manager.update(live, obj, step["manager"], now)
                obj.setdefault("metadata", {}).pop("managedFields", None)
                result = {**obj, "metadata": {**obj["metadata"], **({"managedFields": entries} if entries else {})}}
        except ApiError as error:
            _check_error(error, step)
            continue
        assert "error" not in step, number
        assert _timeless(result) == _timeless(step["result"]), number
        assert _times(result) == wanted, number
        live = result


def _instant(label: str) -> str:
    """Return the time that a label stands for: T0, T1, … in whole seconds."""
    return f"2030-01-01T00:00:{int(label[1:]):02}Z" if label.startswith("T") else label


def _check_error(error: ApiError, step: Json) -> None:
    assert "error" in step, error.message
    status = step.get("status")
    if status is not None:
        assert (error.message, error.code) == (status["message"], status["code"])
        assert error.reason == status.get("reason", "")


def _timeless(obj: Json) -> Json:
    metadata = dict(obj.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    if LAST_APPLIED in annotations:
        metadata["annotations"] = {**annotations, LAST_APPLIED: _json_or_text(annotations[LAST_APPLIED])}
    entries = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or ()
    ]
    if entries:
        metadata["managedFields"] = entries
    metadata.pop("creationTimestamp", None)
    result = {**obj, "metadata": metadata}
    return {name: value for name, value in result.items() if value not in ({}, None) or name == "metadata"}


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _times(obj: Json) -> list[str]:
    return [entry.get("time") or "" for entry in (obj.get("metadata") or {}).get("managedFields") or ()]


_OTHERS: dict[str, Callable[[Json], None]] = {
    "fieldpath-elements": _element,
    "fieldpath-sets": _set_text,
    "managedfields-conflicts": _conflicts,
    "managedfields-entries": _entries,
    "managedfields-scale": _scale,
    "managedfields-sequences": _sequence,
    "csa-upgrade": _upgraded,
    "http-apply": appliedhttp.run,
}


def check_table(name: str, table: Json) -> None:
    """Check a table of facts about built-in kinds."""
    if name == "builtin-types":
        _check_types(table["types"])


def _check_types(rows: list[Json]) -> None:
    compiler = schemas.Compiler(published().get)
    wrong = []
    for row in rows:
        if row["type"] not in published():
            continue
        kind = compiler.named(row["type"])
        if "field" in row:
            assert kind.map is not None
            found = kind.map.child(row["field"])
            if found is None:
                wrong.append(row)
                continue
            kind = found
        if "map" in row:
            if kind.map is None or kind.map.atomic is not (row["map"] == "atomic"):
                wrong.append(row)
            continue
        items = kind.list
        if items is None or items.kind != row["list"] or set(items.keys) != set(row.get("keys") or ()):
            wrong.append(row)
            continue
        defaults = {key: items.default_of(key) for key in items.keys if items.default_of(key) is not ABSENT}
        if defaults != (row.get("keyDefaults") or {}) and row["type"].startswith("io.k8s.api."):
            wrong.append({**row, "found": defaults})
    assert wrong == []
