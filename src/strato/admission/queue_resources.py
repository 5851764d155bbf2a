"""Checks of queues' amounts, alone and against their parents and children (spec volcano-api 18.2)."""

from __future__ import annotations

from collections.abc import Iterable

from strato.admission.queue_reads import ROOT, children_of, parent_of
from strato.admission.request import AdmissionReader, Json
from strato.api import catalog
from strato.api.quantity import InvalidQuantity, Quantity, parse

_SECTIONS = ("capability", "deserved", "guarantee")
_FRACTIONAL = ("cpu", "memory", "ephemeral-storage")
"""Resources whose amounts may have fractions; all others are counted in whole units."""

_SMALLEST_NANOS = 100_000
"""A tenth of Volcano's internal unit (millicores of cpu, thousandths of scalars): a smaller amount counts as not
set."""


def section(spec: Json, name: str) -> Json:
    """Return the amounts of capability, deserved or guarantee."""
    body = spec.get(name) or {}
    if name == "guarantee":
        body = body.get("resource") or {}
    if not isinstance(body, dict):
        raise TypeError(f"{name} is not an object")  # the chain turns it into a BadRequest
    return body


def resource_problems(spec: Json) -> list[str]:
    """Check each amount, and guarantee ≤ deserved ≤ capability."""
    problems: list[str] = []
    for name in _SECTIONS:
        place = "requestBody.spec." + ("guarantee.resource" if name == "guarantee" else name)
        for resource, amount in section(spec, name).items():
            if problem := _amount_problem(resource, amount):
                problems.append(f'{place}: Invalid value: "{amount}": {problem}')
    if problems:
        return problems
    capability, deserved = section(spec, "capability"), section(spec, "deserved")
    for resource, amount in section(spec, "guarantee").items():
        entitled = deserved.get(resource)
        if entitled is None or parse(entitled) < parse(amount):
            problems.append(
                f'requestBody.spec.deserved.{resource}: Invalid value: "{"<nil>" if entitled is None else entitled}": '
                f"deserved[{resource}]{'' if entitled is None else f'={entitled}'} must be >= "
                f"guarantee[{resource}]={amount}"
            )
    for resource, amount in deserved.items():
        limit = capability.get(resource)
        if limit is not None and parse(limit) < parse(amount):
            problems.append(
                f'requestBody.spec.deserved.{resource}: Invalid value: "{amount}": deserved[{resource}]={amount} '
                f"must be <= capability[{resource}]={limit}"
            )
    return problems


def _amount_problem(resource: str, amount: str | float) -> str:
    try:
        quantity = parse(amount)
    except InvalidQuantity as err:
        return str(err)
    if quantity.nanos < 0:
        return "must be greater than or equal to 0"
    if resource not in _FRACTIONAL and quantity.nanos % 1_000_000_000:
        return "must be an integer"
    return ""


def has_allocated_pods(queue: Json) -> bool:
    """Whether ``status.allocated`` counts pods."""
    amount = ((queue.get("status") or {}).get("allocated") or {}).get("pods")
    return amount is not None and parse(amount).nanos != 0


def hierarchy_resource_problem(name: str, queue: Json, reader: AdmissionReader) -> str:
    """Check a queue against its ancestors (not root), siblings and children; return the first problem or ""."""
    spec = queue.get("spec") or {}
    parent_name = spec.get("parent") or ROOT
    if parent_name != ROOT:
        parent = reader.get(catalog.QUEUE, "", parent_name)
        if parent is None:
            return f'parent queue {parent_name} not found: queues.scheduling.volcano.sh "{parent_name}" not found'
        if problem := _above_problem(name, spec, parent, reader):
            return problem
    children = [child for child in children_of(name, reader) if child["metadata"]["name"] != name]
    return _below_problem(name, spec, children, reader) if children else ""


def _above_problem(name: str, spec: Json, parent: Json, reader: AdmissionReader) -> str:
    for resource, amount in section(spec, "capability").items():
        own = parse(amount)
        if own.nanos < _SMALLEST_NANOS:
            continue
        ancestor: Json | None = parent
        while ancestor is not None and ancestor["metadata"]["name"] != ROOT:
            limit = section(ancestor.get("spec") or {}, "capability").get(resource)
            if limit is not None and parse(limit).nanos > 0:
                if own > parse(limit):
                    return (
                        f"queue {name} capability[{resource}]={amount} exceeds its ancestor's capability={limit} "
                        f"(of {ancestor['metadata']['name']})"
                    )
                break
            ancestor = reader.get(catalog.QUEUE, "", parent_of(ancestor))
    parent_name = parent["metadata"]["name"]
    siblings = [
        child.get("spec") or {} for child in children_of(parent_name, reader) if child["metadata"]["name"] != name
    ]
    for part in ("guarantee", "deserved"):
        breach = _first_excess(_total([*siblings, spec], part), section(parent.get("spec") or {}, part))
        if breach:
            return _sum_problem(f"parent queue {parent_name}", part, breach)
    return ""


def _sum_problem(whose: str, part: str, resource: str) -> str:
    return f"{whose} validation failed: sum of children's {part} ({resource}) exceeds parent's {part} limit"


def _below_problem(name: str, spec: Json, children: list[Json], reader: AdmissionReader) -> str:
    for resource, amount in section(spec, "capability").items():
        own = parse(amount)
        if own.nanos < _SMALLEST_NANOS:
            continue
        for child in children:
            larger = _larger_below(child, resource, own, reader)
            if larger:
                return (
                    f"queue {name} capability[{resource}]={amount} is smaller than its descendants' max capability "
                    f"(of {larger})"
                )
    child_specs = [child.get("spec") or {} for child in children]
    for part in ("guarantee", "deserved"):
        breach = _first_excess(_total(child_specs, part), section(spec, part))
        if breach:
            return _sum_problem(f"queue {name}", part, breach)
    return ""


def _larger_below(queue: Json, resource: str, limit: Quantity, reader: AdmissionReader) -> str:
    """Return a queue in the subtree whose capability is over the limit; descend only past queues without one."""
    amount = section(queue.get("spec") or {}, "capability").get(resource)
    if amount is not None:
        return str(queue["metadata"]["name"]) if parse(amount) > limit else ""
    for child in children_of(queue["metadata"]["name"], reader):
        larger = _larger_below(child, resource, limit, reader)
        if larger:
            return larger
    return ""


def _total(specs: Iterable[Json], part: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for spec in specs:
        for resource, amount in section(spec, part).items():
            if not resource.startswith("count/"):
                total[resource] = total.get(resource, 0) + parse(amount).nanos
    return total


def _first_excess(total: dict[str, int], limits: Json) -> str:
    """Return a resource whose total is over its limit; a missing limit is zero."""
    for resource, nanos in total.items():
        limit = limits.get(resource)
        if nanos > (parse(limit).nanos if limit is not None else 0):
            return resource
    return ""
