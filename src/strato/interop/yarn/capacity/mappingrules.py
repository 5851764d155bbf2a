"""Reads the rules that place applications in queues: short ones (`u:%user:target`), by application name, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

from strato.errors import InvalidInput, Problem, one_line
from strato.interop.yarn.capacity.settings import SCHEDULER
from strato.interop.yarn.hadoopxml import HadoopSettings

MOST_RULES = 10_000
MOST_JSON_BYTES = 4 << 20
_APP_NAMES = "yarn.scheduler.queue-placement-rules.app-name"


class Subject(StrEnum):
    """The property of a submission that a rule matches."""

    USER = "user"
    GROUP = "group"
    APPLICATION = "application"


class Fallback(StrEnum):
    """Action when a rule's queue cannot be used."""

    SKIP = "skip"
    REJECT = "reject"
    DEFAULT = "placeDefault"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingRule:
    """One rule: the submissions it matches, and its action."""

    subject: Subject
    matches: str
    """The name that the subject must have; ``*`` for any."""
    target: str = ""
    """The queue, with %variables; empty if the rule does not place."""
    sets_default: str = ""
    """The queue that becomes the default one."""
    rejects: bool = False
    creates: bool = True
    fallback: Fallback = Fallback.SKIP
    place: str = ""
    """Position of the rule, for messages."""


@dataclass(frozen=True, slots=True)
class MappingRules:
    """All rules, in order."""

    rules: tuple[MappingRule, ...]
    overrides: bool
    """Whether the rules also place applications that named a queue."""


_POLICIES = {
    "specified": "%specified",
    "user": "%user",
    "primaryGroup": "%primary_group",
    "primaryGroupUser": "%primary_group.%user",
    "secondaryGroup": "%secondary_group",
    "secondaryGroupUser": "%secondary_group.%user",
    "applicationName": "%application",
    "defaultQueue": "%default",
}


class _JsonRule(msgspec.Struct, forbid_unknown_fields=True):
    type: Subject
    matches: str
    policy: str
    parentQueue: str | None = None
    fallbackResult: Fallback | None = None
    create: bool | None = None
    value: str | None = None
    customPlacement: str | None = None


class _JsonRules(msgspec.Struct, forbid_unknown_fields=True):
    rules: Annotated[list[_JsonRule], msgspec.Meta(max_length=MOST_RULES)]


def read(settings: HadoopSettings) -> MappingRules:
    """Read the rules.

    Raises:
        InvalidInput: With all problems.
    """
    problems: list[Problem] = []
    if settings.get(SCHEDULER + "mapping-rule-format", "legacy").lower() == "json":
        rules = list(_json_rules(settings, problems))
    else:
        rules = [*_short_rules(settings, problems), *_name_rules(settings, problems)]
    if problems:
        raise InvalidInput(settings.file or "mapping rules", problems)
    overrides = settings.get(SCHEDULER + "queue-mappings-override.enable").lower() == "true"
    return MappingRules(tuple(rules), overrides)


def _short_rules(settings: HadoopSettings, problems: list[Problem]) -> Iterator[MappingRule]:
    where = settings.where(SCHEDULER + "queue-mappings")
    for text in _entries(settings.get(SCHEDULER + "queue-mappings"), where, problems):
        parts = [part.strip() for part in text.split(":")]
        if len(parts) != 3 or parts[0] not in {"u", "g"} or not all(parts):
            problems.append(Problem(where, f"{text[:80]!r}: expected u:USER:QUEUE or g:GROUP:QUEUE"))
            continue
        subject = Subject.USER if parts[0] == "u" else Subject.GROUP
        matches = "*" if parts[1] == "%user" else parts[1]
        yield MappingRule(subject=subject, matches=matches, target=parts[2], fallback=Fallback.DEFAULT, place=where)


def _name_rules(settings: HadoopSettings, problems: list[Problem]) -> Iterator[MappingRule]:
    where = settings.where(_APP_NAMES)
    for text in _entries(settings.get(_APP_NAMES), where, problems):
        parts = [part.strip() for part in text.split(":")]
        if len(parts) != 2 or not all(parts):
            problems.append(Problem(where, f"{text[:80]!r}: expected NAME:QUEUE"))
            continue
        matches = "*" if parts[0] == "%application" else parts[0]
        yield MappingRule(
            subject=Subject.APPLICATION, matches=matches, target=parts[1], fallback=Fallback.DEFAULT, place=where
        )


def _entries(text: str, where: str, problems: list[Problem]) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if len(found) > MOST_RULES:
        problems.append(Problem(where, f"has {len(found)} rules; at most {MOST_RULES} are read"))
        return []
    return found


def _json_rules(settings: HadoopSettings, problems: list[Problem]) -> Iterator[MappingRule]:
    name = SCHEDULER + "mapping-rule-json"
    where = settings.where(name)
    text = settings.get(name)
    if not text:
        message = "is not set, as mapping-rule-format=json needs; files of rules are read into it"
        problems.append(Problem(where, message))
        return
    if len(text) > MOST_JSON_BYTES:
        problems.append(Problem(where, f"has more than {MOST_JSON_BYTES >> 20} MiB"))
        return
    try:
        decoded = msgspec.json.decode(text, type=_JsonRules)
    except msgspec.MsgspecError as error:
        problems.append(Problem(where, one_line(error)))
        return
    except RecursionError:
        problems.append(Problem(where, "is nested too deeply"))
        return
    for at, rule in enumerate(decoded.rules):
        yield from _json_rule(rule, f"{where}: rules[{at}]", problems)


def _json_rule(rule: _JsonRule, where: str, problems: list[Problem]) -> Iterator[MappingRule]:
    target, default = "", ""
    if rule.policy == "custom":
        target = rule.customPlacement or ""
        if not target:
            problems.append(Problem(where, "policy 'custom' needs customPlacement"))
    elif rule.policy == "setDefaultQueue":
        default = rule.value or ""
        if not default:
            problems.append(Problem(where, "policy 'setDefaultQueue' needs value"))
    elif rule.policy in _POLICIES:
        target = _POLICIES[rule.policy]
    elif rule.policy != "reject":
        known = ", ".join((*_POLICIES, "custom", "setDefaultQueue", "reject"))
        problems.append(Problem(where, f"policy {rule.policy[:80]!r} is unknown; known: {known}"))
    if target and rule.parentQueue and rule.policy not in {"custom", "specified", "defaultQueue"}:
        target = f"{rule.parentQueue}.{target}"
    if rule.type is Subject.GROUP and rule.matches == "*":
        problems.append(Problem(where, "a rule for a group needs its name; * is for users and applications"))
    yield MappingRule(
        subject=rule.type,
        matches=rule.matches,
        target=target,
        sets_default=default,
        rejects=rule.policy == "reject",
        creates=rule.create is not False,
        fallback=rule.fallbackResult or Fallback.SKIP,
        place=where,
    )
