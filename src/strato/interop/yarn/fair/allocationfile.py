"""Reads an allocation file (``fair-scheduler.xml``): all problems at once, each with its line, and remarks on traps."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from strato.errors import InvalidInput, Problem, UsageError
from strato.interop.yarn.fair import notation, placement
from strato.interop.yarn.fair.allocation import (
    ANY_USER,
    NOBODY,
    ROOT,
    Allocations,
    Declared,
    Defaults,
    Remark,
    acl_text,
    parent_of,
)
from strato.interop.yarn.fair.policies import QueuePolicy, policy_of
from strato.interop.yarn.hadoopxml import Element
from strato.interop.yarn.resources import MOST, MOST_INT, VCORES, ResourceTypes, fits, float32

_WHOLE = re.compile(r"[+-]?\d{1,19}")
_FLOAT = re.compile(r"[+-]?(\d++(?:\.\d*+)?|\.\d++)([eE][+-]?\d+)?[fFdD]?")
_BLANKS = "".join(map(chr, range(33)))
"""Characters that YARN strips from texts, as Java's String.trim does: those up to the blank, no other white space."""
MOST_QUEUES = 20_000

_ACLS = {
    "aclSubmitApps": "SUBMIT_APP",
    "aclAdministerApps": "ADMINISTER_QUEUE",
    "aclAdministerReservations": "ADMINISTER_RESERVATIONS",
    "aclListReservations": "LIST_RESERVATIONS",
    "aclSubmitReservations": "SUBMIT_RESERVATIONS",
}
_RESERVATION = ("reservation-agent", "reservation-planner", "reservation-policy")


def read(root: Element, types: ResourceTypes, file: str = "", *, check_rules: bool = True) -> Allocations:
    """Return the content of an allocation file.

    Args:
        root: Its root element.
        types: The types of resources there are.
        file: Its name, for messages.
        check_rules: Whether placement rules that are never reached are refused.

    Raises:
        InvalidInput: YARN would refuse the file.
    """
    return _Reader(types, file, check_rules).read(root)


class _Reader:
    """Reads one file, and collects its problems and remarks."""

    def __init__(self, types: ResourceTypes, file: str, check_rules: bool) -> None:
        self.types = types
        self.file = file
        self.check_rules = check_rules
        self.problems: list[Problem] = []
        self.remarks: list[Remark] = []
        self.queues: dict[str, Declared] = {}

    def read(self, root: Element) -> Allocations:
        if root.name != "allocations":
            self._problem(root, "", f"the root element is <{root.name}>, expected <allocations>")
            raise InvalidInput(self.file or "allocation file", self.problems)
        top: dict[str, Element] = {}
        queues: list[Element] = []
        users: dict[str, int] = {}
        for element in root.children:
            if element.name in ("queue", "pool"):
                queues.append(element)
            elif element.name == "user":
                self._user(element, users)
            elif element.name in _TOP or element.name in ("queuePlacementPolicy", *_RESERVATION):
                top[element.name] = element
            else:
                self._remark(element, "", f"<{element.name}> is no element of an allocation file and is ignored")
        defaults = self._defaults(top)
        self._all_queues(queues)
        self._check_tree(defaults)
        rules = self._rules(top.get("queuePlacementPolicy"))
        for name in _RESERVATION:
            if name in top:
                self._remark(top[name], "", f"<{name}>: reservations are not carried over")
        if self.problems:
            raise InvalidInput(self.file or "allocation file", sorted(self.problems, key=_line_of))
        return Allocations(
            types=self.types,
            queues=self.queues,
            user_max_apps=users,
            defaults=defaults,
            placement=rules,
            remarks=tuple(sorted(self.remarks, key=lambda remark: remark.line)),
        )

    # -- the top level -------------------------------------------------------------------------------------------------

    def _defaults(self, top: dict[str, Element]) -> Defaults:
        found: dict[str, Any] = {}
        for name, (setting, reader) in _TOP.items():
            if name in top:
                value = self._value(top[name], "", reader)
                if value is not None:
                    found[setting] = value
        if found.get("policy") is QueuePolicy.FIFO:
            element = top.get("defaultQueueSchedulingPolicy") or top["defaultQueueSchedulingMode"]
            self._problem(element, "", "fifo cannot be the default, since parents cannot have it; expected fair or drf")
            del found["policy"]
        return Defaults(**found)

    def _user(self, element: Element, users: dict[str, int]) -> None:
        name = element.attributes.get("name", "")
        for child in element.children:
            if child.name == "maxRunningApps":
                limit = self._value(child, f"user {name}", _int32)
                if limit is not None:
                    users[name] = limit
            else:
                self._remark(child, f"user {name}", f"<{child.name}> is no setting of a user and is ignored")

    def _rules(self, element: Element | None) -> tuple[placement.PlacementRule, ...]:
        if element is None:
            return ()
        try:
            rules = placement.rules_from(element, check_ends=self.check_rules)
        except InvalidInput as error:
            self.problems += [Problem(one.where, f"queuePlacementPolicy: {one.message}") for one in error.problems]
            return ()
        if not rules:
            self._remark(element, "queuePlacementPolicy", "there is no <rule> in it, so the rules before it stay")
        if not self.check_rules:
            for text in placement.unreachable(rules) if rules else ():
                self._remark(element, "queuePlacementPolicy", text)
        return rules

    # -- queues --------------------------------------------------------------------------------------------------------

    def _all_queues(self, elements: list[Element]) -> None:
        for element in elements:
            is_root = element.attributes.get("name", "").lower() == ROOT
            if is_root and len(elements) > 1:
                self._problem(element, ROOT, "when the queue root is written, no other queue may stand beside it")
                return
            self._queue("" if is_root else ROOT, element)

    def _queue(self, parent: str, element: Element) -> None:
        name = element.attributes.get("name", "").strip()
        if not name:
            self._problem(element, parent or ROOT, "a queue without a name")
            return
        if "." in name:
            self._problem(element, f"{parent}.{name}", "a queue's name has no dots; nest <queue> elements instead")
            return
        path = f"{parent}.{name}" if parent else ROOT
        if len(self.queues) >= MOST_QUEUES and path not in self.queues:
            raise InvalidInput(self.file, [Problem(f"line {element.line}", f"more than {MOST_QUEUES} queues")])
        one = self.queues.get(path) or Declared(path, element.line)
        if path in self.queues:
            self._remark(element, path, "declared before; what is set here replaces what was set there")
        found: dict[str, Any] = {}
        acls: dict[str, str] = dict(one.acls)
        nested: list[Element] = []
        for child in element.children:
            if child.name in ("queue", "pool"):
                nested.append(child)
            elif child.name in _ACLS:
                self._acl(child, path, acls)
            elif child.name == "reservation":
                found["reservable"] = True
                self._remark(child, path, "<reservation> is not carried over; the queue becomes a parent")
            elif child.name in _QUEUE:
                setting, reader = _QUEUE[child.name]
                value = self._value(child, path, reader)
                if value is not None:
                    found[setting] = value
                    self._trap(child, path, setting, value)
            else:
                self._remark(child, path, f"<{child.name}> is no setting of a queue and is ignored")
        is_parent = bool(nested) or element.attributes.get("type") == "parent"
        reservable = bool(found.get("reservable"))
        if is_parent and reservable:
            self._problem(element, path, "a parent queue takes no <reservation>")
        if is_parent and "max_am_share" in found:
            self._problem(element, path, "maxAMShare is a setting of leaf queues; move it to the queues below")
        for action in ("ADMINISTER_QUEUE", "SUBMIT_APP"):
            acls.setdefault(action, ANY_USER if path == ROOT else NOBODY)
        self.queues[path] = replace(one, is_parent=is_parent or reservable or one.is_parent, acls=acls, **found)
        for child in nested:
            self._queue(path, child)

    def _acl(self, element: Element, path: str, acls: dict[str, str]) -> None:
        if element.text is None:
            self._problem(element, path, f"<{element.name}> is empty; write a blank for nobody, * for everybody")
            return
        acls[_ACLS[element.name]] = acl_text(element.text)

    def _check_tree(self, defaults: Defaults) -> None:
        """Add problems for policies that YARN does not accept below their parent's, and for minima above maxima."""
        for path, one in self.queues.items():
            policy = one.policy or defaults.policy
            above = self.queues.get(parent_of(path)) if path != ROOT else None
            of_parent = (above.policy if above else None) or defaults.policy
            if one.is_parent and policy is QueuePolicy.FIFO:
                text = "fifo is for leaf queues; YARN does not create this queue or leaves its policy as it was"
                self.remarks.append(Remark(one.line, path, text, refuses=True))
            elif path != ROOT and not of_parent.allows_child(policy):
                text = (
                    f"policy {policy.value} below a parent of policy {of_parent.value}: YARN does not create this "
                    "queue and rejects what is sent to it; let the parent have drf"
                )
                self.remarks.append(Remark(one.line, path, text, refuses=True))
            most = one.max_share
            if one.min_share is not None and most is not None and not most.is_percent:
                effective = tuple(max(0, number) for number in most.amounts)
                if not fits(one.min_share, effective):
                    text = f"minResources ({self.types.text(one.min_share)}) exceeds maxResources, and raises it"
                    self.remarks.append(Remark(one.line, path, text))

    def _trap(self, element: Element, path: str, setting: str, value: Any) -> None:
        text, refuses = "", False
        if setting == "max_container" and value.is_percent:
            text, refuses = "a percentage limits nothing here; write an amount like '4096 mb, 4 vcores'", True
        elif isinstance(value, notation.Limit):
            if value.unnamed and not value.is_percent and "=" not in (element.text or ""):
                text = f"the old notation sets {', '.join(value.unnamed)} to 0; name them as in 'memory-mb=1, gpu=1'"
            elif VCORES in value.unnamed and "=" in (element.text or "") and not value.is_percent:
                text = "vcores are not named: YARN takes that for 0 and rejects requests; carried over as unlimited"
            elif value.unnamed and value.is_percent and "=" not in (element.text or ""):
                text = f"{', '.join(value.unnamed)} becomes 0 %; name it as in 'memory-mb=50%, gpu=50%'"
        elif setting == "min_share" and "%" in (element.text or ""):
            text = "a percentage is accepted and counts as 0; write an amount like '1024 mb, 1 vcores'"
            refuses = True
        elif setting == "weight" and not value >= 0:
            text, refuses = f"weight {value:g}: expected a number from 0; YARN gives the queue its minimum only", True
        elif setting == "fair_threshold" and (element.text or "").strip().startswith("-"):
            text = "a negative threshold counts as 0, not as the parent's; leave the element out to inherit"
        elif setting in ("max_apps",) and value < 0:
            text = f"{value}: no application ever runs"
        if text:
            self._remark(element, path, f"{element.name}: {text}", refuses=refuses)

    # -- values --------------------------------------------------------------------------------------------------------

    def _value(self, element: Element, path: str, reader: Callable[[str, ResourceTypes], Any]) -> Any:
        """Return the value that ``reader`` parses from an element's text; on failure add a problem and return None."""
        if element.text is None:
            self._problem(element, path, f"<{element.name}> is empty; give it a value or leave it out")
            return None
        try:
            return reader(element.text.strip(_BLANKS), self.types)
        except UsageError as error:
            self._problem(element, path, f"{element.name}: {error}")
            return None

    def _problem(self, element: Element, path: str, message: str) -> None:
        self.problems.append(Problem(f"line {element.line}{f': {path}' if path else ''}", message))

    def _remark(self, element: Element, path: str, text: str, *, refuses: bool = False) -> None:
        self.remarks.append(Remark(element.line, path, text, refuses))


def _line_of(problem: Problem) -> int:
    found = re.match(r"line (\d+)", problem.where)
    return int(found.group(1)) if found else 0


# -- readers of one value ----------------------------------------------------------------------------------------------


def _whole(text: str, most: int) -> int:
    if not _WHOLE.fullmatch(text) or not -most - 1 <= int(text) <= most:
        raise UsageError(f"{text!r} is no whole number up to {most}")
    return int(text)


def _int32(text: str, types: ResourceTypes) -> int:
    return _whole(text, MOST_INT)


def _seconds_as_ms(text: str, types: ResourceTypes) -> int:
    milliseconds = _whole(text, MOST) * 1000
    return (milliseconds + MOST + 1) % (2 * (MOST + 1)) - MOST - 1  # overflows as a signed 64-bit integer does


def _float(text: str, types: ResourceTypes) -> float:
    if not _FLOAT.fullmatch(text):
        raise UsageError(f"{text!r} is no number")
    number = float32(float(text.rstrip("fFdD")))
    if not math.isfinite(number):
        raise UsageError(f"{text!r} is too large a number")
    return number


def _at_most_one(text: str, types: ResourceTypes) -> float:
    return min(_float(text, types), 1.0)


def _threshold(text: str, types: ResourceTypes) -> float:
    return max(0.0, min(_float(text, types), 1.0))


def _min_share(text: str, types: ResourceTypes) -> tuple[int, ...]:
    found = notation.parse(text, types, missing=0)
    return types.filled(0) if found.is_percent else found.amounts


def _policy(text: str, types: ResourceTypes) -> QueuePolicy:
    return policy_of(text)


def _true(text: str, types: ResourceTypes) -> bool:
    return text.lower() == "true"


_TOP: dict[str, tuple[str, Callable[[str, ResourceTypes], Any]]] = {
    "userMaxAppsDefault": ("user_max_apps", _int32),
    "queueMaxAppsDefault": ("queue_max_apps", _int32),
    "queueMaxResourcesDefault": ("queue_max", notation.parse),
    "queueMaxAMShareDefault": ("max_am_share", _at_most_one),
    "defaultQueueSchedulingMode": ("policy", _policy),
    "defaultQueueSchedulingPolicy": ("policy", _policy),
    "defaultMinSharePreemptionTimeout": ("min_timeout_ms", _seconds_as_ms),
    "fairSharePreemptionTimeout": ("fair_timeout_ms", _seconds_as_ms),
    "defaultFairSharePreemptionTimeout": ("fair_timeout_ms", _seconds_as_ms),
    "defaultFairSharePreemptionThreshold": ("fair_threshold", _threshold),
}
"""Elements of the top level; if a setting has two names, the later one in this table wins."""

_QUEUE: dict[str, tuple[str, Callable[[str, ResourceTypes], Any]]] = {
    "minResources": ("min_share", _min_share),
    "maxResources": ("max_share", notation.parse),
    "maxChildResources": ("max_child", notation.parse),
    "maxContainerAllocation": ("max_container", notation.parse),
    "maxRunningApps": ("max_apps", _int32),
    "maxAMShare": ("max_am_share", _at_most_one),
    "weight": ("weight", _float),
    "schedulingPolicy": ("policy", _policy),
    "schedulingMode": ("policy", _policy),
    "minSharePreemptionTimeout": ("min_timeout_ms", _seconds_as_ms),
    "fairSharePreemptionTimeout": ("fair_timeout_ms", _seconds_as_ms),
    "fairSharePreemptionThreshold": ("fair_threshold", _threshold),
    "allowPreemptionFrom": ("preemptable", _true),
}
"""Elements of a queue."""
