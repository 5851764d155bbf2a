"""Quota of top-level roles: guarantees, limits, and the consumption of both.

A role's consumption is the unreserved resources held by or offered to it and the roles below it, and all reservations
for them, whether used or not. Revocable resources are never charged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from strato.errors import InvalidInput, Problem
from strato.interop.mesos import roles
from strato.interop.mesos.quantities import Quantities, from_millis
from strato.interop.mesos.resources import NOTHING, ResourceKind, Resources

_NONE: Quantities = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one top-level role, in thousandths by name of scalar."""

    guarantees: Quantities = field(default_factory=lambda: _NONE)
    """Amounts that other roles leave to this one; a missing name has no guarantee."""
    limits: Quantities = field(default_factory=lambda: _NONE)
    """The most the role may consume; a name that is missing has no limit."""

    def __bool__(self) -> bool:
        return bool(self.guarantees or self.limits)


def is_chargeable(kind: ResourceKind) -> bool:
    """Whether a resource is charged when it is held: neither reserved, revocable nor shared."""
    return not (kind.reservations or kind.revocable or kind.shared)


def charge(resources: Resources) -> Quantities:
    """Return the amounts of scalars charged for holding these resources."""
    return (resources if resources.is_plain else resources.filter(is_chargeable)).scalars()


class QuotaSums:
    """Consumption by roles, and free unreserved scalars; updated on each change, so that a run need not sum up."""

    def __init__(self) -> None:
        self.quotas: dict[str, Quota] = {}
        """Quotas by top-level role, without roles that have neither guarantees nor limits."""
        self.free: dict[str, int] = {}
        """Thousandths of unreserved, non-revocable scalars that no role holds; below zero when agents have shrunk."""
        self._consumed: dict[str, dict[str, int]] = {}

    def set(self, role: str, quota: Quota) -> None:
        """Set a role's quota; an empty one removes it."""
        if quota:
            self.quotas[role] = quota
        else:
            self.quotas.pop(role, None)

    def consumed(self, role: str) -> Quantities:
        """Return the consumption of a top-level role."""
        return self._consumed.get(role, _NONE)

    def count_total(self, resources: Resources, sign: int) -> None:
        """Add an agent's resources (or, with -1, subtract them)."""
        add(self.free, charge(resources), sign)
        for kind, amount in resources:
            if kind.reservations and not kind.revocable:
                self._consume(kind.role, Resources({kind: amount}).scalars(), sign)

    def count_held(self, role: str, resources: Resources, sign: int) -> None:
        """Add resources held by a role (or, with -1, subtract them)."""
        charged = charge(resources)
        add(self.free, charged, -sign)
        self._consume(role, charged, sign)

    def _consume(self, role: str, scalars: Quantities, sign: int) -> None:
        top = roles.top_level(role)
        sums = self._consumed.setdefault(top, {})
        add(sums, scalars, sign)
        if not sums:
            del self._consumed[top]


def add(sums: dict[str, int], amounts: Quantities, sign: int) -> None:
    """Add amounts to sums in place; drop names whose sum is zero."""
    for name, millis in amounts.items():
        left = sums.get(name, 0) + sign * millis
        if left:
            sums[name] = left
        else:
            sums.pop(name, None)


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Bounds that quotas set on the metered resources of a role; valid until an allocation changes them."""

    unmet: Quantities
    """Amounts that the role's guarantees still lack; only names with a shortfall."""
    below_limit: Quantities
    """Amounts that it may still get, by the names that it has limits for."""
    surplus: Quantities
    """Free amounts beyond the shortfall of guarantees, by the names that have one."""

    def __bool__(self) -> bool:
        return bool(self.below_limit or self.surplus)

    def hold_one_of(self, minimum: Collection[Quantities]) -> bool:
        """Whether metered resources within limit and surplus can reach one alternative of a minimum."""
        return not minimum or any(_within(one, self.below_limit) and _within(one, self.surplus) for one in minimum)

    def apply(self, metered: Resources, to_guarantees: bool) -> Resources:
        """Return the part of metered resources that the role may have.

        Args:
            metered: Unreserved scalars that are not revocable.
            to_guarantees: Whether this is the stage that only serves guarantees.
        """
        helpful, rest = NOTHING, metered
        if to_guarantees:
            helpful = metered.shrunk(self.unmet, unlimited=False)
            if not helpful:
                return NOTHING
            rest = metered - helpful
        taken = helpful.scalars()
        below = {name: max(millis - taken.get(name, 0), 0) for name, millis in self.below_limit.items()}
        return helpful + rest.shrunk(below).shrunk(self.surplus)


def _within(wanted: Quantities, most: Quantities) -> bool:
    return all(millis <= most.get(name, millis) for name, millis in wanted.items())


class Headroom:
    """One run's headroom: shortfalls of guarantees, and the amounts that may be given without touching these."""

    def __init__(self, sums: QuotaSums) -> None:
        self._quotas = sums.quotas
        self._consumed = {role: dict(sums.consumed(role)) for role in sums.quotas}
        self._free = dict(sums.free)
        self._required: dict[str, int] = {}
        self._unmet: dict[str, dict[str, int]] = {}
        self._bounds: dict[str, Bounds] = {}
        for role in sums.quotas:
            self._renew(role)

    @property
    def unmet(self) -> Mapping[str, Quantities]:
        """Shortfall of guarantees by role; only roles and names with a shortfall."""
        return self._unmet

    def _renew(self, role: str) -> None:
        add(self._required, self._unmet.pop(role, _NONE), -1)
        consumed = self._consumed[role]
        missing = {name: millis - consumed.get(name, 0) for name, millis in self._quotas[role].guarantees.items()}
        unmet = {name: millis for name, millis in missing.items() if millis > 0}
        if unmet:
            self._unmet[role] = unmet
            add(self._required, unmet, 1)

    def bounds(self, role: str) -> Bounds:
        """Return a role's present bounds; the same object while they do not change.

        Only the role's own limits apply, not those of roles above it.
        """
        bounds = self._bounds.get(role)
        if bounds is None:
            below = {} if (quota := self._quotas.get(role)) is None else self._below(role, quota)
            surplus = {name: max(self._free.get(name, 0) - millis, 0) for name, millis in self._required.items()}
            bounds = self._bounds[role] = Bounds(self._unmet.get(role, _NONE), below, surplus)
        return bounds

    def _below(self, role: str, quota: Quota) -> Quantities:
        consumed = self._consumed[role]
        return {name: max(millis - consumed.get(name, 0), 0) for name, millis in quota.limits.items()}

    def give(self, role: str, charged: Quantities) -> None:
        """Subtract unreserved scalars given to a role."""
        add(self._free, charged, -1)
        top = roles.top_level(role)
        if self._required:
            self._bounds.clear()  # bounds of all roles depend on the guarantees' shortfall
        if top in self._quotas:
            add(self._consumed[top], charged, 1)
            self._renew(top)
            self._bounds.pop(top, None)


def check(role: str, quota: Quota, consumed: Quantities, others: Mapping[str, Quota], capacity: Quantities) -> None:
    """Refuse a quota that the cluster cannot satisfy; skipped if the operator forces it.

    Args:
        role: The role.
        quota: The requested quota.
        consumed: The role's present consumption.
        others: The quotas of all other roles.
        capacity: Scalars of all agents.

    Raises:
        InvalidInput: Lists every problem.
    """
    problems = problems_of(role, quota)
    for name, millis in quota.guarantees.items():
        together = millis + sum(other.guarantees.get(name, 0) for other in others.values())
        if together > capacity.get(name, 0):
            text = f"with other roles' guarantees {_unit(together)} are more than the cluster's"
            problems.append(Problem(f"guarantees.{name}", f"{text} {_unit(capacity.get(name, 0))}; lower it, or force"))
    for name, millis in quota.limits.items():
        if consumed.get(name, 0) > millis:
            text = f"{_unit(millis)} is less than the {_unit(consumed[name])} the role consumes"
            problems.append(Problem(f"limits.{name}", f"{text}; raise it, or force"))
    if problems:
        raise InvalidInput(f"Quota of role {role!r}", problems)


def problems_of(role: str, quota: Quota) -> list[Problem]:
    """Return the problems of a quota that do not depend on the cluster."""
    problems = []
    if problem := roles.problem_of(role):
        problems.append(Problem("role", problem))
    elif "/" in role:
        problems.append(Problem("role", f"Updating quota on nested role '{role}' is not supported"))
    for name, millis in quota.guarantees.items():
        limit = quota.limits.get(name)
        if limit is not None and millis > limit:
            text = f"guarantee {_unit(millis)} is more than the limit {_unit(limit)}"
            problems.append(Problem(f"guarantees.{name}", text))
    return problems


def _unit(millis: int) -> str:
    return str(from_millis(millis))
