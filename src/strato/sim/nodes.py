"""Shapes of simulated nodes, as written on a command line: ``100x32cpu,256Gi+8x64cpu,512Gi,8gpu``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from strato.api import quantity
from strato.api.amplification import InvalidFactor, amplified, read_factor, written_ratio
from strato.errors import InvalidInput, Problem

GPU = "nvidia.com/gpu"
_OVERCOMMIT = "overcommit"
_SHAPE = re.compile(r"\s*(\d+)\s*x\s*(.+)", re.IGNORECASE)
_ALIASES = {"cpu": "cpu", "cpus": "cpu", "gpu": GPU, "gpus": GPU, "pods": "pods"}
_COUNTED = re.compile(r"(\d+(?:\.\d+)?)(cpus?|gpus?|pods)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A number of equal nodes."""

    count: int
    resources: Mapping[str, str]
    """Capacity of each, resource → quantity; always with cpu, memory and pods."""
    cpu_overcommit_factor: float = 1.0
    """By which the cpu that each offers is more than it has."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of each node, beside those every node has."""
    name: str = ""
    """Of the node, where the shape is a single machine that its trace names."""


def parse_nodes(text: str) -> tuple[NodeShape, ...]:
    """Read node shapes: ``COUNTxITEM,ITEM,…`` joined by ``+``.

    An item is ``32cpu``, ``8gpu``, ``200pods``, a memory size (``256Gi``), ``resource=quantity`` or ``overcommit=2``,
    a factor of the cpu offered. Cpu is 1, memory 4 GiB per cpu and 110 pods by default.

    Raises:
        InvalidInput: What is wrong with which shape.
    """
    problems: list[Problem] = []
    shapes = [_shape(part, problems) for part in text.split("+")]
    if problems:
        raise InvalidInput(f"nodes {text!r}", problems)
    return tuple(shapes)


def total_capacity(shapes: tuple[NodeShape, ...]) -> dict[str, int]:
    """Return what all nodes offer together: cpu in millicores, everything else in units."""
    total: dict[str, int] = {}
    for shape in shapes:
        for name, amount in shape.resources.items():
            whole = quantity.milli(amount) if name == "cpu" else quantity.value(amount)
            each = amplified(whole, shape.cpu_overcommit_factor) if name == "cpu" else whole
            total[name] = total.get(name, 0) + each * shape.count
    return total


def _shape(text: str, problems: list[Problem]) -> NodeShape:
    where = text.strip()
    match = _SHAPE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        problems.append(Problem(where, "is no shape; write for example 100x32cpu,256Gi or 8x64cpu,512Gi,8gpu"))
        return NodeShape(0, {})
    resources: dict[str, str] = {}
    factor = 1.0
    for item in match[2].split(","):
        name, amount = _item(item.strip())
        if name == _OVERCOMMIT:
            try:
                factor = written_ratio(read_factor(amount, _OVERCOMMIT))
            except InvalidFactor as error:
                problems.append(Problem(where, str(error)))
            continue
        if not _is_amount(amount):
            problems.append(
                Problem(where, f"{item.strip()!r} is no resource; write 32cpu, 256Gi, 8gpu or name=quantity")
            )
        elif name in resources:
            problems.append(Problem(where, f"{name} is given twice"))
        resources[name] = amount
    if not problems:
        resources.setdefault("cpu", "1")
        resources.setdefault("memory", f"{4 * max(1, quantity.milli(resources['cpu']) // 1000)}Gi")
        resources.setdefault("pods", "110")
    return NodeShape(int(match[1]), resources, factor)


def _item(item: str) -> tuple[str, str]:
    if "=" in item:
        name, _, amount = item.partition("=")
        name = name.strip()
        return _ALIASES.get(name.lower(), name), amount.strip()
    counted = _COUNTED.fullmatch(item)
    if counted is not None:
        return _ALIASES[counted[2].lower()], counted[1]
    return "memory", item


def _is_amount(text: str) -> bool:
    try:
        return quantity.parse(text) > quantity.parse("0")
    except ValueError:
        return False
