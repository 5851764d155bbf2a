"""Resources as text: ``cpus:2;mem:1024;ports:[31000-32000];disks:{sda1};cpus(role1):1``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from strato.interop.mesos import intervals, roles
from strato.interop.mesos.quantities import from_millis, to_millis
from strato.interop.mesos.resources import Amount, Reservation, ResourceKind, Resources, ValueType

_HEAD = re.compile(r"(?P<name>[^()\s:;]+)\s*(?:\(\s*(?P<role>[^()\s]+)\s*\))?")
_NUMBER = re.compile(r"[+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d+)?")
_RANGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*")
LARGEST = 2**64 - 1
"""Largest number in a range, as on the wire."""
LONGEST = 1 << 20
"""Longest text in characters."""


def parse(text: str, default_role: str = roles.UNRESERVED) -> Resources:
    """Read resources; entries without a role are reserved for ``default_role`` unless that is ``*``.

    Raises:
        ValueError: Something cannot be read; the message lists every entry that is wrong.
    """
    if len(text) > LONGEST:
        raise ValueError(f"the text has {len(text)} characters; at most {LONGEST} are read")
    problems: list[str] = []
    found: list[tuple[ResourceKind, Amount]] = []
    types: dict[str, ValueType] = {}
    for entry in filter(None, map(str.strip, re.split(r"[;\n]", text))):
        try:
            kind, amount = _parse_entry(entry, default_role)
        except ValueError as error:
            problems.append(f"{entry!r}: {error}")
            continue
        if types.setdefault(kind.name, kind.type) is not kind.type:
            problems.append(f"{entry!r}: {kind.name!r} has another type in an entry before; one name keeps one type")
        found.append((kind, amount))
    if problems:
        raise ValueError("; ".join(problems))
    return Resources.of(found)


def _parse_entry(entry: str, default_role: str) -> tuple[ResourceKind, Amount]:
    head, colon, value = entry.partition(":")
    match = _HEAD.fullmatch(head.strip())
    if not colon or match is None or ":" in value:
        raise ValueError("expected name:value or name(role):value")
    role = match["role"] or default_role
    if problem := roles.problem_of(role):
        raise ValueError(problem)
    reservations = () if role == roles.UNRESERVED else (Reservation(role),)
    type_, amount = parse_value(value.strip())
    return ResourceKind(match["name"], type_, reservations), amount


def parse_value(text: str) -> tuple[ValueType, Amount]:
    """Read ``1.5``, ``[1-10, 20-30]`` or ``{a,b}``.

    Raises:
        ValueError: It is none of these, or an amount that is not allowed.
    """
    if text.startswith("[") and text.endswith("]"):
        return ValueType.RANGES, intervals.joined(_parse_ranges(text[1:-1]))
    if text.startswith("{") and text.endswith("}"):
        return ValueType.SET, frozenset(filter(None, map(str.strip, text[1:-1].split(","))))
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number, [ranges] or {{set}}")
    millis = to_millis(text)
    if millis == 0 and float(text) > 0:
        raise ValueError(f"{text} is less than 0.001, the smallest amount")
    return ValueType.SCALAR, millis


def _parse_ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in filter(str.strip, text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part.strip()!r} is no range; expected FIRST-LAST")
        begin, end = (int(match[1][:30]), int(match[2][:30]))
        if begin > end or end > LARGEST:
            raise ValueError(f"{part.strip()!r} is no range: its last number is before its first, or over {LARGEST}")
        yield begin, end


def to_text(resources: Resources) -> str:
    """Return resources as text, which `parse` reads if they are plain or statically reserved; others in full detail."""
    return "; ".join(
        f"{_head(kind)}:{value_text(kind, amount)}" + (f" x{amount}" if kind.whole_millis and amount != 1 else "")
        for kind, amount in resources
    )


def _head(kind: ResourceKind) -> str:
    text = kind.name
    if kind.allocated_to is not None:
        text += f"(allocated: {kind.allocated_to})"
    if len(kind.reservations) == 1 and kind.reservations[0] == Reservation(kind.role):
        text += f"({kind.role})"
    elif kind.reservations:
        text += f"(reservations: [{','.join(map(_reservation, kind.reservations))}])"
    if kind.disk is not None:
        text += f"[{kind.disk.persistence_id or kind.disk.source_type or 'disk'}]"
    return text + ("{REV}" if kind.revocable else "") + ("<SHARED>" if kind.shared else "")


def _reservation(layer: Reservation) -> str:
    parts = ["DYNAMIC" if layer.dynamic else "STATIC", layer.role]
    parts += [layer.principal] if layer.principal is not None else []
    parts += ["{" + ", ".join(k if v is None else f"{k}: {v}" for k, v in layer.labels) + "}"] if layer.labels else []
    return f"({','.join(parts)})"


def value_text(kind: ResourceKind, amount: Amount) -> str:
    """Return an amount as text: ``1.5``, ``[1-10]``, ``{a, b}``; for indivisible resources the size."""
    if isinstance(amount, int):
        return scalar_text(amount if kind.whole_millis is None else kind.whole_millis)
    if isinstance(amount, frozenset):
        return "{" + ", ".join(sorted(amount)) + "}"
    return "[" + ", ".join(f"{begin}-{end}" for begin, end in amount) + "]"


def scalar_text(millis: int) -> str:
    """Return a scalar as text, without trailing zeros."""
    whole, rest = divmod(millis, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(from_millis(millis))
