"""Shapes of nodes without a machine, as written on a command line: ``100x32cpu,256Gi+8x64cpu,512Gi,8gpu,zone=a..c``.

One language for ``strato up``, ``strato run node``, the simulator, experiments and tests. docs/hollow-nodes.md
describes it for users.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from strato.api import names, quantity
from strato.api.amplification import InvalidFactor, amplified, read_factor, written_ratio
from strato.errors import InvalidInput, Problem
from strato.units import duration_seconds

GPU: Final = "nvidia.com/gpu"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
RACK: Final = "topology.kubernetes.io/rack"
MOST: Final = 1_000_000
"""Most nodes of all shapes together."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PLACES: Final = {"zone": ZONE, "region": REGION, "rack": RACK}
_SHAPE = re.compile(r"\s*(\d{1,9})\s*x\s*(.+)", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"\s*(\d{1,9})\s*", re.ASCII)
_ALIASES = {"cpu": "cpu", "cpus": "cpu", "gpu": GPU, "gpus": GPU, "pods": "pods"}
_COUNTED = re.compile(r"(\d+(?:\.\d+)?)(cpus?|gpus?|pods)", re.IGNORECASE | re.ASCII)
_RANGE = re.compile(r"(.*?)(?:([a-z])\.\.([a-z])|(\d{1,6})\.\.(\d{1,6}))", re.ASCII)
_MOST_VALUES: Final = 100_000


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A number of nodes that are equal except for the labels in `spread`."""

    count: int
    resources: Mapping[str, str]
    """Capacity of each node, resource → quantity; always with cpu, memory and pods."""
    cpu_overcommit_factor: float = 1.0
    """Factor by which each node's cpu is amplified."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of each node, besides those that every node has."""
    name: str = ""
    """Name of the node, if the shape is a single machine that a trace names."""
    spread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Label → values that are assigned to the nodes in turn; see `labels_of`."""
    taints: tuple[Mapping[str, str], ...] = ()
    """Taints of each node."""
    mtbf_seconds: float = math.inf
    """Mean time between failures of a node; infinite: it does not fail by itself."""
    mttr_seconds: float = 3600.0
    """Mean time to repair: how long a failed node is down."""

    def labels_of(self, index: int) -> Mapping[str, str]:
        """Return the labels of the node with an index in [0, count).

        Values are assigned in turn, zones and regions to whole racks if there are racks: a rack lies in one zone.
        """
        if not self.spread:
            return self.labels
        rack = index % len(self.spread[RACK]) if RACK in self.spread else index
        turns = {key: rack if key in (ZONE, REGION) else index for key in self.spread}
        return {**self.labels, **{key: values[turns[key] % len(values)] for key, values in self.spread.items()}}


def parse_nodes(text: str, plain: Mapping[str, str] | None = None) -> tuple[NodeShape, ...]:
    """Read node shapes: ``COUNTxITEM,ITEM,…`` joined by ``+``.

    An item is ``32cpu``, ``8gpu``, ``200pods``, a memory size (``256Gi``), ``resource=quantity``, ``overcommit=2`` (a
    factor of the cpu offered), ``zone=a..c``, ``region=eu|us`` or ``rack=40`` (labels, by turns), ``label:KEY=VALUE``,
    ``taint:KEY=VALUE:EFFECT``, ``mtbf=30d`` or ``mttr=1h``. Cpu is 1, memory 4 GiB per cpu and 110 pods by default.

    Args:
        text: The text of all shapes.
        plain: Resources of nodes given by their number only; None refuses such shapes.

    Raises:
        InvalidInput: Some shapes are invalid; all problems are listed.
    """
    problems: list[Problem] = []
    shapes = [_shape(part, problems, plain) for part in text.split("+")]
    if not problems and sum(shape.count for shape in shapes) > MOST:
        problems.append(Problem(text.strip(), f"more than {MOST} nodes"))
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


@dataclass(slots=True)
class _Draft:
    """A shape while its items are read; each method returns why an item is invalid, empty when it is valid."""

    resources: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    spread: dict[str, tuple[str, ...]] = field(default_factory=dict)
    taints: list[Mapping[str, str]] = field(default_factory=list)
    factor: float = 1.0
    mtbf_seconds: float = math.inf
    mttr_seconds: float = 3600.0

    def read(self, item: str) -> str:
        """Read one item."""
        name, equals, value = item.partition("=")
        name, value = name.strip(), value.strip()
        kind, colon, key = name.partition(":")
        if not equals:
            counted = _COUNTED.fullmatch(item)
            return self._resource(_ALIASES[counted[2].lower()], counted[1], item) if counted else self._memory(item)
        if colon and kind == "label":
            return self._label(key, value)
        if colon and kind == "taint":
            return self._taint(key, value)
        reader = _READERS.get(name.lower())
        if reader is not None:
            return reader(self, value)
        if name in _PLACES:
            return self._label(_PLACES[name], value)
        return self._resource(_ALIASES.get(name.lower(), name), value, item)

    def _memory(self, item: str) -> str:
        return self._resource("memory", item, item)

    def _resource(self, name: str, amount: str, item: str) -> str:
        if not _is_amount(amount):
            return f"{item!r} is no resource; write 32cpu, 256Gi, 8gpu or name=quantity"
        if name in self.resources:
            return f"{name} is given twice"
        self.resources[name] = amount
        return ""

    def _label(self, key: str, text: str) -> str:
        if not names.is_qualified_name(key):
            return f"{key!r} is no label; write label:KEY=VALUE"
        values = _values(text, key)
        wrong = next((value for value in values if not names.is_label_value(value)), None)
        if wrong is not None:
            return f"{wrong!r} is no value of label {key}: {names.check_label_value(wrong)[0]}"
        if not values:
            return f"{text!r} is no list of values for label {key}; write a, a|b, a..c or 1..40"
        if key in self.labels or key in self.spread:
            return f"label {key} is given twice"
        if len(values) == 1 and key != RACK:
            self.labels[key] = values[0]
        else:
            self.spread[key] = values
        return ""

    def _taint(self, key: str, text: str) -> str:
        value, _, effect = text.rpartition(":")
        if not names.is_qualified_name(key) or not names.is_label_value(value) or effect not in _EFFECTS:
            return f"'taint:{key}={text}' is no taint; write taint:KEY=VALUE:EFFECT with effect {', '.join(_EFFECTS)}"
        self.taints.append({"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect})
        return ""

    def read_factor(self, text: str) -> str:
        """Read the overcommit factor."""
        try:
            self.factor = written_ratio(read_factor(text, "overcommit"))
        except InvalidFactor as error:
            return str(error)
        return ""

    def read_mtbf(self, text: str) -> str:
        """Read the mean time between failures."""
        self.mtbf_seconds = days_seconds(text)
        return "" if self.mtbf_seconds > 0 else f"mtbf={text} is no time above zero; write for example mtbf=30d"

    def read_mttr(self, text: str) -> str:
        """Read the mean time to repair."""
        self.mttr_seconds = days_seconds(text)
        return "" if self.mttr_seconds > 0 else f"mttr={text} is no time above zero; write for example mttr=1h"


_READERS: Final[Mapping[str, Callable[[_Draft, str], str]]] = {
    "overcommit": _Draft.read_factor,
    "mtbf": _Draft.read_mtbf,
    "mttr": _Draft.read_mttr,
}


def days_seconds(text: str) -> float:
    """Read a duration such as ``30d``, ``90s`` or ``1h30m`` in seconds; NaN if the text is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)d", text, re.ASCII)
    if match is not None:
        return float(match[1]) * 86400
    try:
        return duration_seconds(text)
    except ValueError:
        return math.nan


def _shape(text: str, problems: list[Problem], plain: Mapping[str, str] | None) -> NodeShape:
    where = text.strip()
    bare = _COUNT.fullmatch(text) if plain is not None else None
    if bare is not None and plain is not None and int(bare[1]) > 0:
        return NodeShape(int(bare[1]), {"pods": "110", **plain})
    match = _SHAPE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        problems.append(Problem(where, "is no shape; write for example 100x32cpu,256Gi or 8x64cpu,512Gi,8gpu"))
        return NodeShape(0, {})
    draft = _Draft()
    wrong = [problem for item in match[2].split(",") if (problem := draft.read(item.strip()))]
    problems += (Problem(where, problem) for problem in wrong)
    resources = draft.resources
    if not wrong:
        resources.setdefault("cpu", "1")
        resources.setdefault("memory", f"{4 * max(1, quantity.milli(resources['cpu']) // 1000)}Gi")
        resources.setdefault("pods", "110")
    return NodeShape(
        int(match[1]),
        resources,
        draft.factor,
        draft.labels,
        spread=draft.spread,
        taints=tuple(draft.taints),
        mtbf_seconds=draft.mtbf_seconds,
        mttr_seconds=draft.mttr_seconds,
    )


def _values(text: str, key: str) -> tuple[str, ...]:
    """Return the values of a label: one, several (``a|b``), a range (``a..c``) or, for racks, a number of them."""
    if key == RACK and _COUNT.fullmatch(text):
        return tuple(f"r{number}" for number in range(1, min(int(text), _MOST_VALUES) + 1))
    values: list[str] = []
    for part in text.split("|"):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            values.append(part.strip())
            continue
        before, first, last = found[1], found[2] or found[4], found[3] or found[5]
        one, other = (ord(first), ord(last)) if found[2] else (int(first), int(last))
        if not 0 <= other - one < _MOST_VALUES:
            return ()
        values += (f"{before}{chr(number) if found[2] else number}" for number in range(one, other + 1))
    return tuple(values)


def _is_amount(text: str) -> bool:
    try:
        return quantity.parse(text) > quantity.ZERO
    except ValueError:
        return False
