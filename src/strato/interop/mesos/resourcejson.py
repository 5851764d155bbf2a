"""Resources in the v1 JSON form of the wire: ``[{"name": "cpus", "type": "SCALAR", "scalar": {"value": 2}}]``.

Both formats of reservations are read: the stack ``reservations[]``, and ``role`` with ``reservation`` of frameworks
without the capability RESERVATION_REFINEMENT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from strato.errors import InvalidInput, Problem, called
from strato.interop.mesos import intervals, roles
from strato.interop.mesos.quantities import from_millis, to_millis
from strato.interop.mesos.resources import Amount, DiskInfo, Reservation, ResourceKind, Resources, ValueType
from strato.interop.mesos.resourcetext import LARGEST

Json = Mapping[str, Any]


class _Reader:
    """Parses one resource, and collects its problems."""

    def __init__(self, where: str, problems: list[Problem]) -> None:
        self.where, self._problems = where, problems

    def wrong(self, path: str, message: str) -> None:
        self._problems.append(Problem(f"{self.where}{path}", message))

    def object(self, holder: Json, key: str, path: str = "") -> Json | None:
        """Return a member that is an object; None if absent."""
        value = holder.get(key)
        if value is None or isinstance(value, Mapping):
            return value
        self.wrong(f"{path}.{key}", f"expected an object, got {called(value)}")
        return None

    def text(self, holder: Json, key: str, path: str = "") -> str | None:
        """Return a member that is text; None if absent."""
        value = holder.get(key)
        if value is None or isinstance(value, str):
            return value
        self.wrong(f"{path}.{key}", f"expected text, got {called(value)}")
        return None

    def list(self, holder: Json, key: str, path: str = "") -> Sequence[Any]:
        """Return a member that is a list; an absent one is empty."""
        value = holder.get(key)
        if value is None or isinstance(value, list | tuple):
            return value or ()
        self.wrong(f"{path}.{key}", f"expected a list, got {called(value)}")
        return ()


def from_json(listed: Any, where: str = "resources") -> Resources:
    """Read resources.

    Args:
        listed: Decoded JSON: a list of objects.
        where: Path of the list, for messages.

    Raises:
        InvalidInput: Lists every problem with its path.
    """
    problems: list[Problem] = []
    found: list[tuple[ResourceKind, Amount]] = []
    if not isinstance(listed, list | tuple):
        raise InvalidInput("Resources", [Problem(where, f"expected a list, got {called(listed)}")])
    for position, item in enumerate(listed):
        reader = _Reader(f"{where}[{position}]", problems)
        if not isinstance(item, Mapping):
            reader.wrong("", f"expected an object, got {called(item)}")
            continue
        known = len(problems)
        kind_amount = _read(reader, item)
        if len(problems) == known and kind_amount is not None:
            found.append(kind_amount)
    if problems:
        raise InvalidInput("Resources", problems)
    return Resources.of(found)


def _read(reader: _Reader, item: Json) -> tuple[ResourceKind, Amount] | None:
    name, type_ = reader.text(item, "name"), item.get("type", "SCALAR")
    if not name:
        reader.wrong(".name", "a resource needs a name")
    if not isinstance(type_, str) or type_ not in ValueType.__members__:
        reader.wrong(".type", f"{type_!r} is none of SCALAR, RANGES, SET")
        return None
    allocation, provider = reader.object(item, "allocation_info"), reader.object(item, "provider_id")
    kind = ResourceKind(
        name or "",
        ValueType[type_],
        _read_reservations(reader, item),
        _read_disk(reader, item),
        revocable=reader.object(item, "revocable") is not None,
        shared=reader.object(item, "shared") is not None,
        provider_id=None if provider is None else reader.text(provider, "value", ".provider_id"),
        allocated_to=None if allocation is None else reader.text(allocation, "role", ".allocation_info"),
    )
    if kind.shared and not kind.is_persistent_volume:
        reader.wrong(".shared", "only persistent volumes can be shared")
    if kind.disk is not None and kind.name != "disk":
        reader.wrong(".disk", f"DiskInfo should not be set for {kind.name} resource")
    return kind, _READ_AMOUNT[kind.type](reader, item)


def _read_scalar(reader: _Reader, item: Json) -> Amount:
    value = (reader.object(item, "scalar") or {}).get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        reader.wrong(".scalar.value", f"expected a number, got {called(value)}")
        return 0
    try:
        return to_millis(value)
    except ValueError as error:
        reader.wrong(".scalar.value", f"{error}; amounts are at least 0")
        return 0


def _read_ranges(reader: _Reader, item: Json) -> Amount:
    ranges = []
    for position, part in enumerate(reader.list(reader.object(item, "ranges") or {}, "range", ".ranges")):
        begin, end = (part.get("begin"), part.get("end")) if isinstance(part, Mapping) else (None, None)
        if not (type(begin) is type(end) is int and 0 <= begin <= end <= LARGEST):  # bool is an int, too
            reader.wrong(f".ranges.range[{position}]", "expected whole numbers begin and end, begin not after end")
        else:
            ranges.append((begin, end))
    return intervals.joined(ranges)


def _read_set(reader: _Reader, item: Json) -> Amount:
    items = reader.list(reader.object(item, "set") or {}, "item", ".set")
    if not all(isinstance(entry, str) for entry in items):
        reader.wrong(".set.item", "expected texts")
        return frozenset()
    return frozenset(items)


_READ_AMOUNT = {ValueType.SCALAR: _read_scalar, ValueType.RANGES: _read_ranges, ValueType.SET: _read_set}


def _read_reservations(reader: _Reader, item: Json) -> tuple[Reservation, ...]:
    layers = reader.list(item, "reservations")
    if layers:
        if item.get("reservation") is not None:
            reader.wrong(".reservation", "must not be set beside reservations")
        stack = tuple(_read_layer(reader, layer, f".reservations[{i}]") for i, layer in enumerate(layers))
    else:
        role, old = reader.text(item, "role") or roles.UNRESERVED, reader.object(item, "reservation")
        if role == roles.UNRESERVED:
            if old is not None:
                reader.wrong(".reservation", "'*' cannot be dynamically reserved; name the role it is for")
            return ()
        stack = (
            (Reservation(role),)
            if old is None
            else (Reservation(role, True, reader.text(old, "principal", ".reservation"), _read_labels(reader, old)),)
        )
    for position, layer in enumerate(stack):
        path = f".reservations[{position}]" if layers else ".role"
        if problem := roles.problem_of(layer.role):
            reader.wrong(path, problem)
        elif layer.role == roles.UNRESERVED:
            reader.wrong(path, "'*' cannot be reserved for")
        if position and not layer.dynamic:
            reader.wrong(path, "only the first reservation may be STATIC")
        if position and not roles.is_subrole(layer.role, stack[position - 1].role):
            reader.wrong(path, f"role {layer.role!r} is not below {stack[position - 1].role!r}, which it refines")
    return stack


def _read_layer(reader: _Reader, layer: Any, path: str) -> Reservation:
    if not isinstance(layer, Mapping):
        reader.wrong(path, f"expected an object, got {called(layer)}")
        return Reservation("")
    type_ = layer.get("type")
    if type_ not in ("STATIC", "DYNAMIC"):
        reader.wrong(f"{path}.type", f"{type_!r} is none of STATIC, DYNAMIC")
    role, principal = reader.text(layer, "role", path), reader.text(layer, "principal", path)
    return Reservation(role or "", type_ == "DYNAMIC", principal, _read_labels(reader, layer))


def _read_labels(reader: _Reader, holder: Json) -> tuple[tuple[str, str | None], ...]:
    labels = []
    for label in reader.list(reader.object(holder, "labels") or {}, "labels", ".labels"):
        if isinstance(label, Mapping) and isinstance(label.get("key"), str):
            value = label.get("value")
            labels.append((label["key"], value if isinstance(value, str) else None))
        else:
            reader.wrong(".labels", "expected objects with a key")
    return tuple(labels)


def _read_disk(reader: _Reader, item: Json) -> DiskInfo | None:
    disk = reader.object(item, "disk")
    if not disk:
        return None
    persistence = reader.object(disk, "persistence", ".disk")
    source = reader.object(disk, "source", ".disk")
    return DiskInfo(
        None if persistence is None else reader.text(persistence, "id", ".disk.persistence"),
        None if source is None else reader.text(source, "type", ".disk.source"),
        json.dumps(disk, sort_keys=True, separators=(",", ":")),
    )


def to_json(resources: Resources, refined: bool = True) -> list[dict[str, Any]]:
    """Return resources in the wire's JSON, with an entry for each copy.

    Args:
        resources: The resources.
        refined: Whether the receiver has the capability RESERVATION_REFINEMENT; if not, reservations are written in the
            old format, and the caller must leave out refined ones, which it cannot express.
    """
    return [
        _write(kind, amount, refined)
        for kind, amount in resources
        for _copy in range(amount if kind.whole_millis is not None and isinstance(amount, int) else 1)
    ]


def _write(kind: ResourceKind, amount: Amount, refined: bool) -> dict[str, Any]:
    item: dict[str, Any] = {"name": kind.name, "type": kind.type.value}
    if isinstance(amount, int):
        item["scalar"] = {"value": from_millis(amount if kind.whole_millis is None else kind.whole_millis)}
    elif isinstance(amount, frozenset):
        item["set"] = {"item": sorted(amount)}
    else:
        item["ranges"] = {"range": [{"begin": begin, "end": end} for begin, end in amount]}
    if refined and kind.reservations:
        item["reservations"] = [_write_layer(layer) for layer in kind.reservations]
    elif not refined:
        item["role"] = kind.role
        if kind.reservations and kind.reservations[-1].dynamic:
            layer = _write_layer(kind.reservations[-1])
            item["reservation"] = {key: layer[key] for key in ("principal", "labels") if key in layer}
    if kind.disk is not None:
        item["disk"] = json.loads(kind.disk.text)
    if kind.provider_id is not None:
        item["provider_id"] = {"value": kind.provider_id}
    if kind.allocated_to is not None:
        item["allocation_info"] = {"role": kind.allocated_to}
    return item | ({"revocable": {}} if kind.revocable else {}) | ({"shared": {}} if kind.shared else {})


def _write_layer(layer: Reservation) -> dict[str, Any]:
    written: dict[str, Any] = {"type": "DYNAMIC" if layer.dynamic else "STATIC", "role": layer.role}
    if layer.principal is not None:
        written["principal"] = layer.principal
    if layer.labels:
        labels = [{"key": key} if value is None else {"key": key, "value": value} for key, value in layer.labels]
        written["labels"] = {"labels": labels}
    return written
