"""Offer constraints: which agents a framework wants offers of, by attributes, host name, region and zone."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from strato.api.patterns import InvalidPattern, Pattern, compile_pattern
from strato.errors import InvalidInput, Problem, called, nearest

MOST_CONSTRAINTS = 10_000
"""Most constraints in one call."""


class _Domain(Protocol):
    @property
    def region(self) -> str: ...
    @property
    def zone(self) -> str: ...


class Constrained(Protocol):
    """The fields of an agent that constraints examine; `AgentSpec` has them."""

    @property
    def hostname(self) -> str: ...  # noqa: D102 - see AgentSpec
    @property
    def attributes(self) -> tuple[tuple[str, str | None], ...]: ...  # noqa: D102 - see AgentSpec
    @property
    def domain(self) -> _Domain | None: ...  # noqa: D102 - see AgentSpec


class Predicate(enum.Enum):
    """The predicate on an attribute, by its name on the wire."""

    EXISTS = "exists"
    NOT_EXISTS = "not_exists"
    TEXT_EQUALS = "text_equals"
    TEXT_NOT_EQUALS = "text_not_equals"
    TEXT_MATCHES = "text_matches"
    TEXT_NOT_MATCHES = "text_not_matches"


PSEUDOATTRIBUTES = ("HOSTNAME", "REGION", "ZONE")


@dataclass(frozen=True)
class AttributeConstraint:
    """A constraint on one attribute, or pseudo-attribute, of an agent."""

    predicate: Predicate
    attribute_name: str | None = None
    pseudoattribute: str | None = None
    operand: str = ""
    """The text, or the pattern, compared with."""

    @cached_property
    def _pattern(self) -> Pattern:
        return compile_pattern(rf"\A(?:{self.operand})\z")

    def admits(self, agent: Constrained) -> bool:
        """Whether the agent passes. Predicates on texts accept attributes that are no text."""
        present, text = self._value(agent)
        predicate = self.predicate
        if predicate is Predicate.EXISTS:
            return present
        if predicate is Predicate.NOT_EXISTS:
            return not present
        positive = predicate in (Predicate.TEXT_EQUALS, Predicate.TEXT_MATCHES)
        if not present:
            return not positive
        if text is None:
            return True
        if predicate in (Predicate.TEXT_EQUALS, Predicate.TEXT_NOT_EQUALS):
            return (text == self.operand) is positive
        return self._pattern.is_in(text) is positive

    def _value(self, agent: Constrained) -> tuple[bool, str | None]:
        """Return whether the agent has the attribute, and its text; of several with the name, the first one counts."""
        if self.attribute_name is not None:
            return next(((True, text) for name, text in agent.attributes if name == self.attribute_name), (False, None))
        if self.pseudoattribute == "HOSTNAME":
            return True, agent.hostname
        if agent.domain is None:
            return False, None
        return True, agent.domain.region if self.pseudoattribute == "REGION" else agent.domain.zone


@dataclass(frozen=True)
class OfferConstraints:
    """Constraints of one role: a disjunction of groups, each a conjunction. Without groups no agent is excluded."""

    groups: tuple[tuple[AttributeConstraint, ...], ...] = ()

    def admit(self, agent: Constrained) -> bool:
        """Whether the role wants offers of this agent."""
        return not self.groups or any(all(one.admits(agent) for one in group) for group in self.groups)


def from_json(value: Any, roles: Sequence[str]) -> dict[str, OfferConstraints]:
    """Parse ``offer_constraints``: the groups of each role.

    Args:
        value: The member's JSON; None is the same as no constraints.
        roles: The framework's subscribed roles.

    Raises:
        InvalidInput: Lists every problem with its path.
    """
    problems: list[Problem] = []
    by_role = _member(value, "role_constraints", dict, "offer_constraints", problems) or {}
    found = {}
    count = 0
    for role, constraints in by_role.items():
        where = f"offer_constraints.role_constraints[{str(role)[:100]}]"
        if role not in roles:
            problems.append(Problem(where, "the framework is not subscribed to this role"))
        groups = []
        for i, group in enumerate(_member(constraints, "groups", list, where, problems) or []):
            place = f"{where}.groups[{i}]"
            asked = _member(group, "attribute_constraints", list, place, problems)
            if not asked:
                problems.append(Problem(place, "a group needs at least one attribute constraint"))
                continue
            count += len(asked)
            if count > MOST_CONSTRAINTS:
                raise InvalidInput("Offer constraints", [Problem(place, f"more than {MOST_CONSTRAINTS} constraints")])
            read = (_constraint(one, f"{place}.attribute_constraints[{j}]", problems) for j, one in enumerate(asked))
            groups.append(tuple(one for one in read if one is not None))
        if isinstance(constraints, Mapping) and not groups:
            problems.append(Problem(where, "needs at least one group"))
        found[str(role)] = OfferConstraints(tuple(groups))
    if problems:
        raise InvalidInput("Offer constraints", problems)
    return found


def _member(holder: Any, key: str, type_: type, where: str, problems: list[Problem]) -> Any:
    """Return a member; None if it is absent or, after adding a problem, if it has another type."""
    if holder is None:
        return None
    if not isinstance(holder, Mapping):
        problems.append(Problem(where, f"expected an object, got {called(holder)}"))
        return None
    value = holder.get(key)
    if value is not None and not isinstance(value, type_):
        problems.append(Problem(f"{where}.{key}", f"expected {called(type_())}, got {called(value)}"))
        return None
    return value


def _constraint(value: Any, where: str, problems: list[Problem]) -> AttributeConstraint | None:
    selector = _member(value, "selector", dict, where, problems) or {}
    predicate = _member(value, "predicate", dict, where, problems) or {}
    name = _member(selector, "attribute_name", str, f"{where}.selector", problems)
    pseudo = _member(selector, "pseudoattribute_type", str, f"{where}.selector", problems)
    if (name is None) is (pseudo is None):
        problems.append(Problem(f"{where}.selector", "needs one of attribute_name and pseudoattribute_type"))
    if pseudo is not None and pseudo not in PSEUDOATTRIBUTES:
        hint = nearest(pseudo, PSEUDOATTRIBUTES)
        problems.append(Problem(f"{where}.selector.pseudoattribute_type", f"{pseudo[:100]!r} is unknown{hint}"))
    asked = [one for one in Predicate if predicate.get(one.value) is not None]
    if len(asked) != 1:
        options = ", ".join(one.value for one in Predicate)
        problems.append(Problem(f"{where}.predicate", f"needs exactly one of {options}"))
        return None
    operand = ""
    if asked[0] not in (Predicate.EXISTS, Predicate.NOT_EXISTS):
        key = "regex" if asked[0] in (Predicate.TEXT_MATCHES, Predicate.TEXT_NOT_MATCHES) else "value"
        place = f"{where}.predicate.{asked[0].value}"
        text = _member(
            _member(predicate, asked[0].value, dict, f"{where}.predicate", problems) or {}, key, str, place, problems
        )
        if text is None:
            problems.append(Problem(f"{place}.{key}", "is missing"))
            return None
        operand = str(text)
        if key == "regex":
            try:
                compile_pattern(operand)
            except InvalidPattern as error:
                problems.append(Problem(f"{place}.{key}", f"{operand[:100]!r} is no usable pattern: {error}"))
    return AttributeConstraint(asked[0], name, pseudo, operand)
