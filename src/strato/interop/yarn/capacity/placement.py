"""Choose an application's queue by mapping rules; the first rule that yields a usable queue decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from strato.errors import UsageError
from strato.interop.yarn.capacity.autocreation import QueueCatalogue
from strato.interop.yarn.capacity.mappingrules import Fallback, MappingRule, MappingRules, Subject

DEFAULT_NAME = "default"
DEFAULT_QUEUE = "root.default"
_VARIABLE = re.compile(r"%[a-z_]+")


class PlacementRejected(UsageError):
    """The rules reject an application; the message names the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSubmission:
    """What the rules see of an application at submission."""

    queue: str = DEFAULT_NAME
    """The queue that the submission names; ``default`` if it names none."""
    user: str
    groups: Sequence[str] = ()
    """The user's groups, the primary one first."""
    name: str = ""


class _Unusable(Exception):
    """A rule's queue cannot be used."""


def place(submission: ApplicationSubmission, rules: MappingRules, catalogue: QueueCatalogue) -> str | None:
    """Return the path of the queue; None if the application stays in the queue that its submission names.

    Raises:
        PlacementRejected: A rule rejects it, or not even the default queue can be used.
    """
    named_one = submission.queue not in {DEFAULT_NAME, DEFAULT_QUEUE}
    if named_one and not rules.overrides:
        return None
    variables = _variables(submission, catalogue)
    for rule in rules.rules:
        if not _matches(rule, submission):
            continue
        if rule.rejects:
            raise PlacementRejected(f"{rule.place}: a rule rejects applications of {submission.user}")
        if rule.sets_default:
            try:
                variables["%default"] = _usable(_replaced(rule.sets_default, variables), rule, catalogue)
            except _Unusable as problem:
                if rule.fallback is Fallback.REJECT:
                    raise PlacementRejected(f"{rule.place}: {problem}") from None
            continue
        try:
            return _usable(_replaced(rule.target, variables), rule, catalogue)
        except _Unusable as problem:
            if rule.fallback is Fallback.REJECT:
                raise PlacementRejected(f"{rule.place}: {problem}") from None
            if rule.fallback is Fallback.DEFAULT:
                return _default(variables, rule, catalogue)
    return None


def _default(variables: dict[str, str], rule: MappingRule, catalogue: QueueCatalogue) -> str:
    try:
        return _usable(variables["%default"], rule, catalogue)
    except _Unusable as problem:
        raise PlacementRejected(
            f"{rule.place}: its queue cannot be used, and neither can the default: {problem}"
        ) from None


def _matches(rule: MappingRule, submission: ApplicationSubmission) -> bool:
    if rule.subject is Subject.GROUP:
        return rule.matches in submission.groups
    name = submission.user if rule.subject is Subject.USER else submission.name
    return rule.matches in {"*", name}


def _variables(submission: ApplicationSubmission, catalogue: QueueCatalogue) -> dict[str, str]:
    found = {
        "%user": _cleaned(submission.user),
        "%application": submission.name,
        "%default": DEFAULT_QUEUE,
        "%specified": "" if submission.queue == DEFAULT_NAME else submission.queue,
        "%primary_group": "",
        "%secondary_group": "",
    }
    if submission.groups:
        found["%primary_group"] = _cleaned(submission.groups[0])
        with_queue = (group for group in map(_cleaned, submission.groups[1:]) if catalogue.named(group))
        found["%secondary_group"] = next(with_queue, "")
    return found


def _cleaned(name: str) -> str:
    return name.strip().replace(".", "_dot_")


def _replaced(target: str, variables: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found.group(), found.group()), target)


def _usable(target: str, rule: MappingRule, catalogue: QueueCatalogue) -> str:
    """Return the path of a target.

    Raises:
        _Unusable: The target is no leaf, and cannot be created as one.
    """
    if not target or any(not part for part in target.split(".")):
        raise _Unusable(f"{rule.target!r} names no queue for this application")
    parent, _, leaf = target.rpartition(".")
    if not parent:
        named = catalogue.named(leaf)
        if len(named) > 1:
            raise _Unusable(f"{leaf!r} is the name of several queues: {', '.join(queue.path for queue in named[:6])}")
        if not named:
            raise _Unusable(f"there is no queue {leaf!r}")
        path = named[0].path
    else:
        path = f"{_full(parent, catalogue)}.{leaf}"
    existing = catalogue.configuration.by_path.get(path)
    if existing is not None:
        if existing.is_parent:
            raise _Unusable(f"{path} holds queues, not applications")
        return path
    if not rule.creates:
        raise _Unusable(f"there is no queue {path}, and the rule creates none")
    refusal = catalogue.refusal(path)
    if refusal:
        raise _Unusable(refusal)
    return path


def _full(parent: str, catalogue: QueueCatalogue) -> str:
    """Return the full path of a parent that may be given by any last part of its path."""
    first, dot, rest = parent.partition(".")
    if first == "root":
        return parent
    named = catalogue.named(first)
    if len(named) > 1:
        raise _Unusable(f"{first!r} is the name of several queues")
    if not named:
        raise _Unusable(f"there is no queue {first!r}")
    return named[0].path + dot + rest
