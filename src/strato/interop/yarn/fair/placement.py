"""Placement: rules that say which queue an application of a user goes to.

Rules are tried in order. A rule gives a queue, gives none (then the next rule is tried), or refuses the application.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from strato.errors import InvalidInput, Problem, StateError, nearest
from strato.interop.yarn.hadoopxml import Element

DEFAULT = "root.default"
_MOST_NESTED = 8
"""Largest depth of nested rules; sensible files nest two."""


class PlacementRefused(StateError):
    """A rule refuses an application; the message says why."""


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """One rule."""

    kind: str
    """One of `KINDS`; ``nestedUserQueue`` is ``user`` with a parent."""
    create: bool = True
    """Whether the rule may yield queues that are not configured."""
    queue: str = ""
    """The queue's full name, for ``default`` rules."""
    parent: PlacementRule | None = None
    """The rule that gives the queue below which this one places."""
    line: int = 0

    @property
    def is_terminal(self) -> bool:
        """Whether the rule places or refuses every application, so that later rules are never tried."""
        if self.kind == "reject":
            return True
        own = self.kind in _CAN_END and self.create
        return own and (self.parent is None or self.parent.create)


KINDS = ("specified", "user", "primaryGroup", "secondaryGroupExistingQueue", "nestedUserQueue", "default", "reject")
_CAN_END = ("user", "primaryGroup", "default", "reject")
_NO_PARENT = ("specified", "default", "reject")
_IN_NOTHING = ("reject", "nestedUserQueue")


class KnownQueues(Protocol):
    """The queries on queues, by full name, that placement needs."""

    def is_configured(self, name: str) -> bool:
        """Return whether there is such a queue and a file declares it."""
        ...

    def is_leaf(self, name: str) -> bool:
        """Return whether there is such a queue and it is a leaf."""
        ...


Groups = Callable[[str], Sequence[str]]
"""Returns the groups of a user, the primary one first; empty if they are unknown."""


# -- reading -----------------------------------------------------------------------------------------------------------


def rules_from(element: Element, *, check_ends: bool = True) -> tuple[PlacementRule, ...]:
    """Read a ``<queuePlacementPolicy>``; return an empty list without any ``<rule>``: the former rules stay.

    Args:
        element: The element.
        check_ends: Whether to refuse unreachable rules, and a list whose last rule is not terminal.

    Raises:
        InvalidInput: Rules are unknown, incomplete or badly ordered; lists all, each with its line.
    """
    problems: list[Problem] = []
    rules = [rule for one in element.all_named("rule") if (rule := _rule(one, problems, 0)) is not None]
    if rules and not problems and check_ends:
        problems += [Problem(f"line {rules[0].line}", text) for text in unreachable(rules)]
    if problems:
        raise InvalidInput("queuePlacementPolicy", problems)
    return tuple(rules)


def unreachable(rules: Sequence[PlacementRule]) -> list[str]:
    """Return the problem with the order of rules, if any: some are unreachable, or the last is not terminal."""
    ending = next((at for at, rule in enumerate(rules) if rule.is_terminal), None)
    if ending is None:
        return [
            "an application can get past the last rule; let it be reject, or default, user or primaryGroup with create"
        ]
    if ending < len(rules) - 1:
        return [f"rules after rule {ending + 1} ({rules[ending].kind}) are never reached; remove them or move it back"]
    return []


def _rule(element: Element, problems: list[Problem], depth: int) -> PlacementRule | None:
    where, kind = f"line {element.line}", element.attributes.get("name", "")
    if kind not in KINDS:
        problems.append(Problem(where, f"{kind!r} is no placement rule{nearest(kind, KINDS)}"))
        return None
    if depth and kind in _IN_NOTHING:
        problems.append(Problem(where, f"rule {kind!r} cannot be in another rule"))
        return None
    if depth >= _MOST_NESTED:
        problems.append(Problem(where, f"rules lie in more than {_MOST_NESTED} others"))
        return None
    parent = None
    for nested in element.all_named("rule"):  # of several nested rules the last one counts
        parent = _rule(nested, problems, depth + 1) or parent
    if kind == "nestedUserQueue" and parent is None:
        problems.append(Problem(where, "rule 'nestedUserQueue' needs a rule in it that gives the parent queue"))
        return None
    if parent is not None and kind in _NO_PARENT:
        problems.append(Problem(where, f"rule {kind!r} takes no rule in it"))
        return None
    queue = ""
    if kind == "default":
        named = element.attributes.get("queue", "")
        queue = full_name(named) if named else DEFAULT
        if not is_valid_name(queue):
            problems.append(Problem(where, f"queue {named!r} has blanks or dots around its name"))
            return None
    create = element.attributes.get("create", "").strip().lower() in ("", "true")
    return PlacementRule("user" if kind == "nestedUserQueue" else kind, create, queue, parent, element.line)


def rules_of_options(*, allow_undeclared: bool, user_as_default: bool) -> tuple[PlacementRule, ...]:
    """Return the default rules of a file without any, by two options of ``yarn-site.xml``."""
    rules = [PlacementRule("specified", allow_undeclared)]
    if user_as_default:
        rules.append(PlacementRule("user", allow_undeclared))
    if not user_as_default or not allow_undeclared:
        rules.append(PlacementRule("default", True, DEFAULT))
    return tuple(rules)


# -- placing -----------------------------------------------------------------------------------------------------------


def place(rules: Sequence[PlacementRule], requested: str, user: str, groups: Groups, queues: KnownQueues) -> str | None:
    """Return the full name of an application's queue; None if no rule gives one, which rejects it.

    Args:
        rules: The rules in order.
        requested: The queue that the application names; ``default`` if it names none.
        user: The application's user.
        groups: Returns the groups of a user.
        queues: The existing queues.

    Raises:
        PlacementRefused: A rule refuses the application outright.
    """
    for rule in rules:
        if rule.kind == "reject":
            return None
        found = _apply(rule, requested, user, groups, queues)
        if found is not None:
            return found
    return None


def _apply(rule: PlacementRule, requested: str, user: str, groups: Groups, queues: KnownQueues) -> str | None:
    if rule.kind == "default":
        return _usable(rule, rule.queue, queues)
    if rule.kind == "specified":
        if not is_valid_name(requested):
            raise PlacementRefused(
                f"queue {requested!r}: a queue's name has no blanks around it and no dots at its ends"
            )
        return None if requested == "default" else _usable(rule, full_name(requested), queues)
    below = "root"
    if rule.parent is not None:
        above = _apply(rule.parent, requested, user, groups, queues)
        if above is None or queues.is_leaf(above):
            return None
        below = above
    if rule.kind == "user":
        return _usable(rule, f"{below}.{clean(user)}", queues)
    known = groups(user)
    if not known:
        raise PlacementRefused(f"user {user}: no groups are known, and rule {rule.kind} needs them")
    if rule.kind == "primaryGroup":
        return _usable(rule, f"{below}.{clean(known[0])}", queues)
    only_configured = replace(rule, create=False)
    candidates = (_usable(only_configured, f"{below}.{clean(group)}", queues) for group in known)
    return next((name for name in candidates if name is not None), None)


def _usable(rule: PlacementRule, name: str, queues: KnownQueues) -> str | None:
    return name if rule.create or queues.is_configured(name) else None


def clean(name: str) -> str:
    """Return the name of a user or group in a form that may be part of a queue's name."""
    return name.strip().replace(".", "_dot_")


def is_valid_name(name: str) -> bool:
    """Return whether an application may name a queue so."""
    return name == name.strip() and not name.startswith(".") and not name.endswith(".")


def full_name(name: str) -> str:
    """Return a queue's name with ``root.`` in front."""
    return name if name == "root" or name.startswith("root.") else f"root.{name}"
