"""Placement: rules that say which queue an application of a user goes to.

Rules are tried in order. Each gives a queue, nothing (the next one is asked) or refuses the application.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from strato.errors import InvalidInput, Problem, StateError, nearest
from strato.interop.yarn.hadoopxml import Element

DEFAULT = "root.default"
_MOST_NESTED = 8
"""Rules in rules; more than two say nothing anybody means."""


class PlacementRefused(StateError):
    """A rule refuses an application; the message says why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    kind: str
    """One of `KINDS`; ``nestedUserQueue`` is ``user`` with a parent."""
    create: bool = True
    """Whether it may name queues that are not configured."""
    queue: str = ""
    """Of ``default`` rules: the queue's full name."""
    parent: Rule | None = None
    """The rule that gives the queue below which this one places."""
    line: int = 0

    @property
    def is_terminal(self) -> bool:
        """Whether no application gets past it."""
        if self.kind == "reject":
            return True
        own = self.kind in _CAN_END and self.create
        return own and (self.parent is None or self.parent.create)


KINDS = ("specified", "user", "primaryGroup", "secondaryGroupExistingQueue", "nestedUserQueue", "default", "reject")
_CAN_END = ("user", "primaryGroup", "default", "reject")
_NO_PARENT = ("specified", "default", "reject")
_IN_NOTHING = ("reject", "nestedUserQueue")


class KnownQueues(Protocol):
    """What placement asks about queues, by full name."""

    def is_configured(self, name: str) -> bool:
        """Return whether there is such a queue and a file declares it."""
        ...

    def is_leaf(self, name: str) -> bool:
        """Return whether there is such a queue and it is a leaf."""
        ...


Groups = Callable[[str], Sequence[str]]
"""Returns the groups of a user, the primary one first; none when they are not known."""


# -- reading -----------------------------------------------------------------------------------------------------------


def rules_from(element: Element, *, check_ends: bool = True) -> tuple[Rule, ...]:
    """Read a ``<queuePlacementPolicy>``; without any ``<rule>`` there is nothing, and what was before stays.

    Args:
        element: The element.
        check_ends: Whether rules that are never reached, or none that ends, are refused.

    Raises:
        InvalidInput: Rules are unknown, incomplete or in an order that makes no sense; each with its line.
    """
    problems: list[Problem] = []
    rules = [rule for one in element.all_named("rule") if (rule := _rule(one, problems, 0)) is not None]
    if rules and not problems and check_ends:
        problems += [Problem(f"line {rules[0].line}", text) for text in unreachable(rules)]
    if problems:
        raise InvalidInput("queuePlacementPolicy", problems)
    return tuple(rules)


def unreachable(rules: Sequence[Rule]) -> list[str]:
    """Return what is wrong with the order of rules: nothing, or that some are never or always gone past."""
    ending = next((at for at, rule in enumerate(rules) if rule.is_terminal), None)
    if ending is None:
        return [
            "an application can get past the last rule; let it be reject, or default, user or primaryGroup with create"
        ]
    if ending < len(rules) - 1:
        return [f"rules after rule {ending + 1} ({rules[ending].kind}) are never reached; remove them or move it back"]
    return []


def _rule(element: Element, problems: list[Problem], depth: int) -> Rule | None:
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
    for nested in element.all_named("rule"):  # the last one wins
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
    return Rule("user" if kind == "nestedUserQueue" else kind, create, queue, parent, element.line)


def rules_of_options(*, allow_undeclared: bool, user_as_default: bool) -> tuple[Rule, ...]:
    """Return the rules that hold where a file has none, by two options of ``yarn-site.xml``."""
    rules = [Rule("specified", allow_undeclared)]
    if user_as_default:
        rules.append(Rule("user", allow_undeclared))
    if not user_as_default or not allow_undeclared:
        rules.append(Rule("default", True, DEFAULT))
    return tuple(rules)


# -- placing -----------------------------------------------------------------------------------------------------------


def place(rules: Sequence[Rule], requested: str, user: str, groups: Groups, queues: KnownQueues) -> str | None:
    """Return the full name of the queue an application goes to; None when the rules turn it away.

    Args:
        rules: In order.
        requested: The queue the application asks for; ``default`` when it asks for none.
        user: Whose application it is.
        groups: Groups of users.
        queues: What there is.

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


def _apply(rule: Rule, requested: str, user: str, groups: Groups, queues: KnownQueues) -> str | None:
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


def _usable(rule: Rule, name: str, queues: KnownQueues) -> str | None:
    return name if rule.create or queues.is_configured(name) else None


def clean(name: str) -> str:
    """Return the name of a user or group as part of a queue's name."""
    return name.strip().replace(".", "_dot_")


def is_valid_name(name: str) -> bool:
    """Return whether a queue may be asked for by this name."""
    return name == name.strip() and not name.startswith(".") and not name.endswith(".")


def full_name(name: str) -> str:
    """Return a queue's name with ``root.`` in front."""
    return name if name == "root" or name.startswith("root.") else f"root.{name}"
