"""Asks resources, roles, sorters and the allocator of `strato.interop.mesos` what a case asks, one function a kind.

A check gets the whole case and returns what is wrong, as texts.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from strato.interop.mesos import roles
from strato.interop.mesos.allocator import Allocator, AllocatorOptions
from strato.interop.mesos.books import Order
from strato.interop.mesos.quota import Quota
from strato.interop.mesos.resources import NOTHING, DiskInfo, ResourceKind, Resources
from strato.interop.mesos.resourcetext import parse, to_text
from strato.interop.mesos.round import Allotment
from strato.interop.mesos.sorter import ClusterTotals, Sorter
from strato.interop.mesos.specs import AGENT_CAPABILITIES, MULTI_ROLE, AgentSpec, FrameworkSpec

Json = dict[str, Any]
Check = Callable[[Json], list[str]]

_EXTRA = re.compile(r"<(\w+)>")
_SEED = 20240801


def read(text: str) -> Resources:
    """Read a text of resources with the cases' marks of what does not merge: mount, rev, volN."""
    found = []
    for entry in filter(None, text.split(";")):
        for kind, amount in parse(_EXTRA.sub("", entry)):
            for mark in _EXTRA.findall(entry):
                kind = _marked(kind, mark)
            found.append((kind, amount))
    return Resources.of(found)


def _marked(kind: ResourceKind, mark: str) -> ResourceKind:
    if mark == "rev":
        return replace(kind, revocable=True)
    disk = kind.disk or DiskInfo()
    if mark == "mount":
        return replace(kind, disk=replace(disk, source_type="MOUNT"))
    assert mark.startswith("vol"), mark
    return replace(kind, disk=replace(disk, persistence_id=mark))


# --- resources and roles


def _resources_answer(check: Json) -> tuple[Any, Any]:
    """Return what a check wants and what it gets."""
    fn, first = check["fn"], read(check.get("a", ""))
    if fn == "scalar":
        return check["value"], first.scalar(check["name"])
    if fn == "print":
        return check["result"], to_text(first)
    if fn == "contains":
        return check["value"], first.contains(read(check["b"]))
    if fn == "equal":
        return check["value"], first == read(check["b"])
    if fn == "parse":
        return _parsed(check)
    result = check.get("result")
    want = None if result is None else read(result)
    if fn == "add":
        return want, sum((read(term) for term in check["terms"]), NOTHING)
    if fn == "subtract":
        return want, first - read(check["b"])
    if fn == "reserved":
        return want, first.reserved(check["role"])
    if fn == "unreserved":
        return want, first.unreserved()
    if fn == "find":
        return want, first.find(read(check["target"]))
    if fn == "toUnreserved":
        return want, first.to_unreserved()
    if fn == "quantities":
        return want and want.quantities(), first.quantities()
    if fn in ("revocable", "nonRevocable"):
        return want, first.revocable() if fn == "revocable" else first.non_revocable()
    assert fn == "shrink", f"no check {fn}"
    return want or NOTHING, first.shrunk(_target(first, check))


def _target(first: Resources, check: Json) -> dict[str, int]:
    """Return how much a check shrinks to: of all names a text's amounts, or of the only one a number."""
    to = next(value for key, value in check.items() if key not in {"fn", "a", "result", "note", "notes"})
    if isinstance(to, str):
        return dict(read(to).quantities())
    if isinstance(to, dict):
        return {name: round(amount * 1000) for name, amount in to.items()}
    return {name: round(to * 1000) for name in first.names}


def _parsed(check: Json) -> tuple[Any, Any]:
    """Return wanted and got of a text; None where it is, or has to be, unreadable."""
    try:
        got: Any = read(check["text"])
    except ValueError:
        got = None
    wants_error = check.get("error") or check.get("valid") is False or check.get("equals", "") is None
    if wants_error:
        return None, got
    return (read(check["equals"]), got) if "equals" in check else (True, got is not None)


def check_resources(case: Json) -> list[str]:
    return [
        f"{check}: got {got!r}" for check in case["checks"] for want, got in [_resources_answer(check)] if want != got
    ]


def _roles_answer(check: Json) -> tuple[Any, Any]:
    fn = check["fn"]
    if fn == "validate":
        return check["valid"], roles.problem_of(check["role"]) is None
    if fn == "validateAll":
        return check["valid"], roles.problem_among(check["roles"]) is None
    if fn == "parseList":
        try:
            return check["result"], roles.parse_list(check["text"])
        except ValueError:
            return check["result"], None
    wanted = next(check[key] for key in ("result", "value", "valid") if key in check)
    if fn == "ancestors":
        return wanted, list(roles.ancestors(check["role"]))
    assert "ubrole" in fn, f"no check {fn}"
    below, above = (text for key, text in check.items() if key != "fn" and isinstance(text, str))
    return wanted, roles.is_subrole(below, above)


def check_roles(case: Json) -> list[str]:
    return [f"{check}: got {got!r}" for check in case["checks"] for want, got in [_roles_answer(check)] if want != got]


# --- sorter


def check_sorter(case: Json) -> list[str]:
    totals = ClusterTotals()
    sorter = Sorter(totals)
    problems = []
    for number, step in enumerate(case["steps"]):
        wanted = _sorter_expectation(sorter, step)
        if wanted is None:
            _sorter_step(totals, sorter, step)
        elif wanted[0] != wanted[1]:
            problems.append(f"step {number} {step}: got {wanted[1]!r}")
    return problems


def _sorter_step(totals: ClusterTotals, sorter: Sorter, step: Json) -> None:
    op = step["op"]
    if op == "addAgent":
        totals.set_agent(step["agent"], read(step["total"]).scalars())
    elif op == "removeAgent":
        totals.remove_agent(step["agent"])
    elif op == "weight":
        sorter.set_weight(step["path"], step["weight"])
    elif op in ("allocated", "unallocated"):
        getattr(sorter, op)(step["client"], step["agent"], _with_shared(step))
    elif op == "update":
        sorter.updated(step["client"], step["agent"], read(step["old"]), read(step["new"]))
    else:
        assert op in ("add", "remove", "activate", "deactivate"), op
        getattr(sorter, op)(step["client"])


def _sorter_expectation(sorter: Sorter, step: Json) -> tuple[Any, Any] | None:
    """Return what is wanted and what is there, or None of a step that expects nothing."""
    op = step["op"]
    if op == "expectOrder":
        return step["order"], sorter.order()
    if op == "expectSet":
        return set(step["set"]), set(sorter.order())
    if op == "expectContains":
        return step["value"], step["client"] in sorter
    if op == "expectCount":
        return step["value"], len(sorter)
    if op == "expectQuantities":
        return read(step["value"]).scalars(), sorter.quantities(step["client"])
    return None


def _with_shared(step: Json) -> Resources:
    resources = read(step["resources"])
    for volume in step.get("shared", []):
        kind = ResourceKind(volume["name"], disk=DiskInfo(volume["id"]), shared=True)
        copy = Resources.of([(kind, round(volume["value"] * 1000))])
        resources = sum([copy] * volume["copies"], resources)
    return resources


# --- allocator


class _World:
    """An allocator on a virtual clock, and the offer callbacks that nothing has expected yet."""

    def __init__(self, options: Json) -> None:
        minimum = options.get("min_allocatable")
        self.interval = float(options.get("allocation_interval_s", 1))
        given = {} if minimum is None else {"min_allocatable": _alternatives(minimum)}
        order = Order(excluded=frozenset(options.get("fairness_exclude", ())))
        self.allocator = Allocator(
            AllocatorOptions(interval_seconds=self.interval, order=order, **given), random.Random(_SEED)
        )
        self.now, self.batches = 0.0, 0
        self.specs: dict[str, FrameworkSpec] = {}
        self.agents: dict[str, AgentSpec] = {}
        self.pending: list[tuple[str, list[Allotment]]] = []
        self.problems: list[str] = []

    def run(self, batch: bool = False) -> None:
        offered = self.allocator.allocate(self.now) if batch else self.allocator.allocate_pending(self.now)
        self.pending += offered.by_framework().items()

    def do(self, number: int, step: Json) -> None:
        op = step["op"]
        answer = getattr(self, f"_{re.sub('([A-Z])', lambda m: '_' + m[1].lower(), op)}")(step)
        if answer:
            self.problems.append(f"step {number} {op}: {answer}")
        if not op.startswith("expect"):
            self.run()

    def _add_agent(self, step: Json) -> None:
        spec = AgentSpec(step["agent"], read(step["resources"]), capabilities=_agent_capabilities(step))
        self.agents[step["agent"]] = spec
        used: dict[Any, Resources] = {}
        for framework, entries in step.get("used", {}).items():
            for entry in entries if isinstance(entries, list) else [entries]:
                used[framework, entry["role"]] = read(entry["resources"])
        self.allocator.add_agent(step["agent"], spec, used)  # type: ignore[arg-type] # names of a case are ids

    def _update_agent(self, step: Json) -> None:
        old = self.agents[step["agent"]]
        spec = AgentSpec(
            old.hostname,
            read(step["total"]) if "total" in step else old.resources,
            _attributes(step["attributes"]) if "attributes" in step else old.attributes,
            _agent_capabilities(step) if "capabilities" in step else old.capabilities,
        )
        self.agents[step["agent"]] = spec
        self.allocator.update_agent(step["agent"], spec)

    def _remove_agent(self, step: Json) -> None:
        self.allocator.remove_agent(step["agent"])

    def _add_framework(self, step: Json) -> None:
        capabilities = frozenset(step.get("capabilities", ())) | {MULTI_ROLE}
        minimums = {role: _alternatives(texts) for role, texts in step.get("min_allocatable", {}).items()}
        spec = FrameworkSpec(
            tuple(step["roles"]),
            frozenset(step.get("suppressed", step.get("suppressed_roles", ()))),
            capabilities,
            minimums,
        )
        self.specs[step["framework"]] = spec
        self.allocator.add_framework(step["framework"], spec)

    def _update_framework(self, step: Json) -> None:
        spec = self.specs[step["framework"]]
        if "roles" in step:
            spec = replace(spec, roles=tuple(step["roles"]))
        if "suppressed" in step or "suppressed_roles" in step:
            spec = replace(spec, suppressed_roles=frozenset(step.get("suppressed", step.get("suppressed_roles"))))
        if "capabilities" in step:
            spec = replace(spec, capabilities=frozenset(step["capabilities"]) | {MULTI_ROLE})
        if "min_allocatable" in step:
            minimums = {role: _alternatives(texts) for role, texts in step["min_allocatable"].items()}
            spec = replace(spec, min_allocatable=minimums)
        self.specs[step["framework"]] = spec
        self.allocator.update_framework(step["framework"], spec)

    def _remove_framework(self, step: Json) -> None:
        self.allocator.remove_framework(step["framework"])

    def _recover(self, step: Json) -> None:
        self.allocator.recover_resources(
            step["framework"],
            step["agent"],
            step["role"],
            read(step["resources"]),
            now=self.now,
            refuse_seconds=step.get("filter_s"),
        )

    def _set_quota(self, step: Json) -> None:
        guarantees, limits = read(step.get("guarantees", "")), read(step.get("limits", ""))
        self.allocator.set_quota(step["role"], Quota(guarantees.scalars(), limits.scalars()))

    def _set_weight(self, step: Json) -> None:
        self.allocator.set_weight(step["role"], step["weight"])

    def _suppress(self, step: Json) -> None:
        self.allocator.suppress(step["framework"], step.get("roles", ()))

    def _revive(self, step: Json) -> None:
        self.allocator.revive(step["framework"], step.get("roles", ()))

    def _deactivate(self, step: Json) -> None:
        self.allocator.deactivate_framework(step["framework"])

    def _activate(self, step: Json) -> None:
        self.allocator.activate_framework(step["framework"])

    def _advance(self, step: Json) -> None:
        end = self.now + step["seconds"]
        while (due := (self.batches + 1) * self.interval) <= end:
            self.now, self.batches = due, self.batches + 1
            self.run(batch=True)
        self.now = end

    def _next(self, count: int) -> dict[str, list[Allotment]]:
        taken, self.pending = self.pending[:count], self.pending[count:]
        return dict(taken)

    def _expect(self, step: Json) -> str | None:
        wanted = {
            entry["framework"]: {
                (role, agent): read(text)
                for role, agents in entry["resources"].items()
                for agent, text in agents.items()
            }
            for entry in step["offers"]
        }
        got = {
            framework: {(offer.role, offer.agent): offer.resources for offer in offers}
            for framework, offers in self._next(len(step["offers"])).items()
        }
        return None if wanted == got else f"want {wanted}, got {got}"

    def _expect_totals(self, step: Json) -> str | None:
        wanted = {framework: read(text) for framework, text in step["totals"].items()}
        offers = self._next(len(wanted))
        got = {framework: sum((one.resources for one in all_), NOTHING) for framework, all_ in offers.items()}
        if step.get("recover"):
            self._give_back(offers)
        return None if wanted == got else f"want {wanted}, got {got}"

    def _give_back(self, offers: dict[str, list[Allotment]]) -> None:
        for offer in (one for all_ in offers.values() for one in all_):
            self.allocator.recover_resources(offer.framework, offer.agent, offer.role, offer.resources, now=self.now)

    def _expect_none(self, step: Json) -> str | None:
        return f"got {self.pending}" if self.pending else None

    def _alternate(self, step: Json) -> str | None:
        counts: Counter[str] = Counter()
        for _ in range(step["rounds"]):
            self.run()
            offers = self._next(1)
            counts.update(offers.keys())
            self._give_back(offers)
            self._advance({"seconds": self.interval})
        return None if dict(counts) == step["counts"] else f"want {step['counts']}, got {dict(counts)}"


def _agent_capabilities(step: Json) -> frozenset[str]:
    given = step.get("capabilities", "all")
    return AGENT_CAPABILITIES if given == "all" else frozenset(given)


def _attributes(text: str) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, value) for name, _, value in (part.partition(":") for part in text.split(";") if part))


def _alternatives(texts: list[str]) -> tuple[Any, ...]:
    return tuple(read(text).quantities() for text in texts)


def check_allocator(case: Json) -> list[str]:
    world = _World(case.get("options", {}))
    for number, step in enumerate(case["steps"]):
        world.do(number, step)
    return world.problems


CHECKS: dict[str, Check] = {
    "resources": check_resources,
    "roles": check_roles,
    "sorter": check_sorter,
    "allocator": check_allocator,
}
