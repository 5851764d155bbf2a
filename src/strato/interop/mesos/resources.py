"""Mesos' resources: scalars in thousandths, ranges and sets, distinguished by reservations and other properties.

A resource's *kind* is all that must be equal for two amounts to be added: name, type, reservations, disk, revocable,
shared, provider and allocation role. `Resources` maps kinds to amounts and never changes; its operations return new
ones. Persistent volumes, shared resources and disks given whole (MOUNT, RAW, BLOCK) neither merge nor split: their size
is part of the kind, and the amount is the number of copies.

Text is read and written in `resourcetext`, the wire's JSON in `resourcejson`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from strato.interop.mesos import intervals
from strato.interop.mesos.intervals import Ranges
from strato.interop.mesos.quantities import Quantities
from strato.interop.mesos.roles import UNRESERVED, is_subrole

Amount = int | Ranges | frozenset[str]
"""Thousandths of a scalar, number of copies, inclusive ranges, or items; see `ResourceKind.whole_millis`."""


class ValueType(enum.Enum):
    """Type of a resource's value, by its name on the wire."""

    SCALAR = "SCALAR"
    RANGES = "RANGES"
    SET = "SET"


@dataclass(frozen=True, slots=True)
class Reservation:
    """One layer of a stack of reservations: the role, and the principal who made it."""

    role: str
    dynamic: bool = False
    principal: str | None = None
    labels: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class DiskInfo:
    """Properties of a disk resource beside its size: a volume, a source, or both."""

    persistence_id: str | None = None
    source_type: str | None = None
    """PATH, MOUNT, BLOCK or RAW."""
    text: str = ""
    """The whole DiskInfo as canonical JSON; two disks are of one kind only when all of it is equal."""

    @property
    def is_whole(self) -> bool:
        """Whether it is indivisible: allocated as a whole or not at all."""
        return self.persistence_id is not None or self.source_type in {"MOUNT", "BLOCK", "RAW"}


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """The properties that must be equal for two amounts to be of one resource."""

    name: str
    type: ValueType = ValueType.SCALAR
    reservations: tuple[Reservation, ...] = ()
    """The stack of reservations, each for a role below the one before; empty if unreserved."""
    disk: DiskInfo | None = None
    revocable: bool = False
    shared: bool = False
    provider_id: str | None = None
    allocated_to: str | None = None
    """Role of the offer or task that holds it (``allocation_info.role``)."""
    whole_millis: int | None = None
    """Size in thousandths of an indivisible resource, whose amount is a number of copies; None for divisible ones."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)
    # computed once, as every operation hashes kinds

    def __post_init__(self) -> None:
        """Compute and store the hash."""
        parts = (self.name, self.type.value, self.reservations, self.disk, self.revocable, self.shared)
        rest = (self.provider_id, self.allocated_to, self.whole_millis)
        object.__setattr__(self, "_hash", hash((parts, rest)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def role(self) -> str:
        """The role it is reserved for (the innermost of refined reservations), or ``*``."""
        return self.reservations[-1].role if self.reservations else UNRESERVED

    @property
    def is_reserved(self) -> bool:
        """Whether it is reserved for a role."""
        return bool(self.reservations)

    @property
    def is_persistent_volume(self) -> bool:
        """Whether it is a persistent volume."""
        return self.disk is not None and self.disk.persistence_id is not None

    def is_allocatable_to(self, role: str) -> bool:
        """Whether offers for ``role`` may contain it: unreserved, or reserved for the role or one above it."""
        return not self.reservations or role == self.role or is_subrole(role, self.role)


class Resources:
    """An immutable collection of resources with positive amounts."""

    __slots__ = ("_hash", "_items", "_plain", "_quantities", "_scalars")

    def __init__(self, items: Mapping[ResourceKind, Amount] | None = None) -> None:
        """Keep ``items``, which the caller must not change; use `of` for amounts that may be zero or must be joined."""
        self._items: Mapping[ResourceKind, Amount] = items or {}
        self._quantities: Quantities | None = None
        self._scalars: Quantities | None = None
        self._hash: int | None = None
        self._plain: bool | None = None

    @classmethod
    def of(cls, items: Iterable[tuple[ResourceKind, Amount]]) -> Resources:
        """Join amounts of equal kinds, in any order, and drop empty amounts."""
        joined: dict[ResourceKind, Amount] = {}
        for kind, amount in items:
            _add(joined, *_in_whole(kind, amount))
        return cls(joined)

    # --- reading

    def __iter__(self) -> Iterator[tuple[ResourceKind, Amount]]:
        return iter(self._items.items())

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and (self is other or self._items == other._items)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Resources({dict(self._items)!r})"

    @property
    def is_plain(self) -> bool:
        """Whether no resource is reserved, revocable or shared, which is the common case."""
        if self._plain is None:
            self._plain = not any(kind.reservations or kind.revocable or kind.shared for kind in self._items)
        return self._plain

    @property
    def names(self) -> frozenset[str]:
        """Names of all resources."""
        return frozenset(kind.name for kind in self._items)

    def scalar(self, name: str) -> float | None:
        """Return the sum of a scalar over all kinds, in its own unit; None if there is no such scalar."""
        millis = self.scalars().get(name)
        return None if millis is None else millis / 1000

    def quantities(self) -> Quantities:
        """Return amounts by name, in thousandths: of scalars the sum, of ranges and sets the number of members."""
        if self._quantities is None:
            self._quantities = _sums(self._items.items())
        return self._quantities

    def scalars(self) -> Quantities:
        """Return the sums of scalars by name, in thousandths. A shared resource counts once, however many copies."""
        if self._scalars is None:
            self._scalars = _sums((k, a) for k, a in self._items.items() if k.type is ValueType.SCALAR)
        return self._scalars

    # --- arithmetic

    def __add__(self, other: Resources) -> Resources:
        if not other._items:
            return self
        if not self._items:
            return other
        joined = dict(self._items)
        for kind, amount in other._items.items():
            _add(joined, kind, amount)
        return Resources(joined)

    def __sub__(self, other: Resources) -> Resources:
        """Subtract ``other``; ignore resources that are not in these."""
        if not other._items or not self._items:
            return self
        if self is other or self._items == other._items:
            return NOTHING
        left = dict(self._items)
        for kind, amount in other._items.items():
            had = left.get(kind)
            if had is None:
                continue
            rest = _minus(had, amount)
            if rest is None:
                del left[kind]
            else:
                left[kind] = rest
        return Resources(left)

    def contains(self, other: Resources) -> bool:
        """Whether every resource of ``other`` can be taken from these, one after the other."""
        items = self._items
        if items is other._items:
            return True
        for kind, amount in other._items.items():
            had = items.get(kind)
            if had is None or not _covers(had, amount):
                return False
        return True

    # --- selections

    def filter(self, wanted: Callable[[ResourceKind], bool]) -> Resources:
        """Return the resources whose kind ``wanted`` accepts."""
        kept = {kind: amount for kind, amount in self._items.items() if wanted(kind)}
        return self if len(kept) == len(self._items) else Resources(kept)

    def map(self, changed: Callable[[ResourceKind], ResourceKind]) -> Resources:
        """Return these resources with changed kinds; amounts whose kinds become equal are joined."""
        return Resources.of((changed(kind), amount) for kind, amount in self._items.items())

    def reserved(self, role: str | None = None) -> Resources:
        """Return the resources reserved for exactly ``role``, or, without one, for any role."""
        return self.filter(lambda kind: kind.is_reserved and role in (None, kind.role))

    def unreserved(self) -> Resources:
        """Return the unreserved resources."""
        return self if self.is_plain else self.filter(lambda kind: not kind.reservations)

    def allocatable_to(self, role: str) -> Resources:
        """Return the resources that offers for a role may contain."""
        return self if self.is_plain else self.filter(lambda kind: kind.is_allocatable_to(role))

    def revocable(self) -> Resources:
        """Return the revocable resources."""
        return NOTHING if self.is_plain else self.filter(lambda kind: kind.revocable)

    def non_revocable(self) -> Resources:
        """Return the resources that are not revocable."""
        return self if self.is_plain else self.filter(lambda kind: not kind.revocable)

    def shared(self) -> Resources:
        """Return the resources that several tasks may hold at once."""
        return NOTHING if self.is_plain else self.filter(lambda kind: kind.shared)

    def non_shared(self) -> Resources:
        """Return the resources that one task holds at a time."""
        return self if self.is_plain else self.filter(lambda kind: not kind.shared)

    def to_unreserved(self) -> Resources:
        """Return the same amounts without reservations."""
        return self.map(lambda kind: replace(kind, reservations=()))

    def push_reservation(self, reservation: Reservation) -> Resources:
        """Add a reservation to all resources as the innermost layer."""
        return self.map(lambda kind: replace(kind, reservations=(*kind.reservations, reservation)))

    def pop_reservation(self) -> Resources:
        """Remove the innermost layer of every reservation."""
        return self.map(lambda kind: replace(kind, reservations=kind.reservations[:-1]))

    def allocated(self, role: str | None) -> Resources:
        """Return the same resources allocated to ``role``, or with None to no role."""
        if all(kind.allocated_to == role for kind in self._items):
            return self
        return self.map(lambda kind: replace(kind, allocated_to=role))

    # --- parts of a given size

    def find(self, target: Resources) -> Resources | None:
        """Return resources with the amounts of ``target``: preferably with its reservation, then unreserved, then any.

        Return None if an amount is not available.
        """
        total, found = self, NOTHING
        for kind, amount in target:
            plain_kind = replace(kind, reservations=())
            missing = Resources({plain_kind: amount})
            for allowed in (_reserved_as(kind), _is_unreserved, _any_kind):
                for candidate, had in total.filter(allowed):
                    plain = Resources({replace(candidate, reservations=()): had})
                    if missing.contains(plain):
                        taken = Resources({candidate: had})
                    elif plain.contains(missing):
                        taken = Resources({candidate: missing._items[plain_kind]})
                    else:
                        continue
                    total, found, missing = total - taken, found + taken, missing - taken.to_unreserved()
                    if not missing:
                        break
                if not missing:
                    break
            if missing:
                return None
        return found

    def shrunk(self, most: Quantities, unlimited: bool = True) -> Resources:
        """Return the part whose scalars sum to at most ``most``, by name, in thousandths.

        Indivisible kinds are included as a whole or not at all; ranges and sets are kept.

        Args:
            most: Upper bounds of the sums.
            unlimited: Whether scalars missing in ``most`` are kept; otherwise they are dropped.
        """
        if unlimited and not most:
            return self
        left, part = dict(most), {}
        for kind, amount in self._items.items():
            if kind.type is not ValueType.SCALAR or (unlimited and kind.name not in most):
                part[kind] = amount
                continue
            assert isinstance(amount, int)
            room = left.get(kind.name, 0)
            if kind.whole_millis is None:
                given, size = min(amount, room), 1
            else:
                size = max(kind.whole_millis, 1)
                given = min(amount, room // size)
            if given > 0:
                part[kind] = given
                left[kind.name] = room - given * size
        return self if part == self._items else Resources(part)


NOTHING = Resources()


def scalars_of(**units: float) -> Resources:
    """Return unreserved scalars, in their own units: ``scalars_of(cpus=1.5, mem=512)``."""
    return Resources.of((ResourceKind(name), round(value * 1000)) for name, value in units.items())


def _in_whole(kind: ResourceKind, amount: Amount) -> tuple[ResourceKind, Amount]:
    """Return an indivisible scalar as copies of its size; other resources unchanged."""
    whole = kind.type is ValueType.SCALAR and (kind.shared or (kind.disk is not None and kind.disk.is_whole))
    if whole and kind.whole_millis is None and isinstance(amount, int):
        return replace(kind, whole_millis=amount), int(amount > 0)
    if not whole and kind.whole_millis is not None and isinstance(amount, int):
        return replace(kind, whole_millis=None), amount * kind.whole_millis
    return kind, amount


def _add(items: dict[ResourceKind, Amount], kind: ResourceKind, amount: Amount) -> None:
    had = items.get(kind)
    if isinstance(amount, int):
        if amount > 0:
            items[kind] = amount if had is None else had + amount  # type: ignore[operator] # of one kind, both numbers
    elif isinstance(amount, frozenset):
        if amount:
            items[kind] = amount if had is None else had | amount  # type: ignore[operator] # of one kind, both sets
    elif amount:
        items[kind] = intervals.joined(amount if had is None else (*had, *amount))  # type: ignore[misc] # both ranges


def _minus(had: Amount, taken: Amount) -> Amount | None:
    """Return the rest, or None if it is empty."""
    rest: Amount
    if isinstance(had, int) and isinstance(taken, int):
        rest = max(had - taken, 0)
    elif isinstance(had, frozenset) and isinstance(taken, frozenset):
        rest = had - taken
    else:
        rest = intervals.without(had, taken)  # type: ignore[arg-type] # of one kind, both are ranges
    return rest or None


def _covers(had: Amount, wanted: Amount) -> bool:
    if isinstance(had, int) and isinstance(wanted, int):
        return had >= wanted
    if isinstance(had, frozenset) and isinstance(wanted, frozenset):
        return had >= wanted
    return intervals.covers(had, wanted)  # type: ignore[arg-type] # of one kind, both are ranges


def _sums(items: Iterable[tuple[ResourceKind, Amount]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for kind, amount in items:
        if isinstance(amount, frozenset):
            millis = 1000 * len(amount)
        elif not isinstance(amount, int):
            millis = 1000 * intervals.count(amount)
        elif kind.whole_millis is None:
            millis = amount
        else:
            millis = kind.whole_millis * (1 if kind.shared else amount)
        sums[kind.name] = sums.get(kind.name, 0) + millis
    return sums


def _reserved_as(kind: ResourceKind) -> Callable[[ResourceKind], bool]:
    return lambda candidate: candidate.reservations == kind.reservations


def _is_unreserved(kind: ResourceKind) -> bool:
    return not kind.reservations


def _any_kind(kind: ResourceKind) -> bool:
    return True
