"""Which ratio a node's cpu is to have: from its annotations and labels, and a table in a ConfigMap. Pure.

Overcommit is what people choose; normalisation levels generations of processors, so that one cpu means the same work
on an old 2.2 GHz core and on a new 2.6 GHz one. The ratio is their product.

Source: spec utilisation 1; the keys of the table are those of Koordinator's ``cpu-normalization-config``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from strato.api.amplification import (
    CPU_INFO,
    FACTOR,
    MAX_FACTOR,
    NORMALISATION,
    STARTED_WITH,
    InvalidFactor,
    amplified,
    final_ratios,
    read_factor,
    written_ratio,
)
from strato.api.configtext import read_mapping
from strato.api.core import Node, Pod
from strato.api.pods import effective_requests
from strato.api.selectors import Selector, from_label_selector
from strato.api.shapes import LabelSelector
from strato.decoding import UNDECODABLE
from strato.errors import InvalidInput, Problem, called, nearest, one_line

CONFIG_KEY: Final = "overcommit.yaml"
LEAST_NORMALISATION: Final = 0.1

_Name = TypeVar("_Name")
_Part = TypeVar("_Part")


class CpuInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What a node says of its processor, as in Koordinator's ``cpu-basic-info``."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False


class _Model(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    base_ratio: float
    hyper_thread_enabled_ratio: float | None = None
    turbo_enabled_ratio: float | None = None
    hyper_thread_turbo_enabled_ratio: float | None = None

    def ratio(self, info: CpuInfo) -> float:
        """Return the ratio of a processor in the state that it is in; one that is not given is the base's."""
        given = {
            (True, False): self.hyper_thread_enabled_ratio,
            (False, True): self.turbo_enabled_ratio,
            (True, True): self.hyper_thread_turbo_enabled_ratio,
        }.get((info.hyper_thread_enabled, info.turbo_enabled))
        return given if given is not None else self.base_ratio


class _Nodes(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    selector: LabelSelector
    factor: float


class _File(msgspec.Struct, frozen=True):
    factor: float | None = None
    nodes: dict[int, _Nodes] = {}
    """By their place in the list."""
    models: dict[str, _Model] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is in force."""

    factor: float | None = None
    """Of nodes that nothing else is said of."""
    nodes: Sequence[tuple[Selector, float]] = ()
    """Of nodes by label; the last that matches wins."""
    models: Mapping[str, _Model] | None = None
    """Normalisation by model of the processor."""


def parse_policy(text: str) -> Policy:
    """Read the configuration; no text is one without rules.

    Raises:
        InvalidInput: Something in it is wrong; all problems are listed.
    """
    file, problems = _read_file(read_mapping(text, CONFIG_KEY))

    def check(value: float | None, where: str, least: float = 1.0) -> None:
        if value is not None and not least <= value <= MAX_FACTOR:
            problems.append(Problem(where, f"is {value:g}; write a number from {least:g} to {MAX_FACTOR:g}"))

    check(file.factor, "factor")
    selected = []
    for index, rule in file.nodes.items():
        check(rule.factor, f"nodes[{index}].factor")
        try:
            selected.append((from_label_selector(rule.selector), rule.factor))
        except ValueError as error:
            problems.append(Problem(f"nodes[{index}].selector", one_line(error)))
    for model, ratios in file.models.items():
        for name, member in zip(ratios.__struct_fields__, ratios.__struct_encode_fields__, strict=True):
            check(getattr(ratios, name), f"models[{model!r}].{member}", LEAST_NORMALISATION)
    if problems:
        raise InvalidInput(CONFIG_KEY, problems)
    return Policy(
        factor=file.factor,
        nodes=tuple(selected),
        models={" ".join(model.split()): ratios for model, ratios in file.models.items()},
    )


def _read_file(document: dict[str, Any]) -> tuple[_File, list[Problem]]:
    """Return what of a document has the right shape, and a problem for each part that has not."""
    problems: list[Problem] = []

    def parts(kind: type[_Part], named: Iterable[tuple[_Name, str, Any]]) -> dict[_Name, _Part]:
        """Read what has a name and a place; a part that is wrong is left out."""
        found = {}
        for name, where, value in named:
            try:
                found[name] = msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                text, _, place = one_line(error).partition(" - at `$")
                problems.append(Problem(f"{where}{place.rstrip('`')}", text))
        return found

    given = {key: value for key, value in document.items() if value is not None}
    known = _File.__struct_fields__
    problems += [Problem(str(key), f"no such key{nearest(str(key), known)}") for key in document if key not in known]
    for key, kind, word in (("nodes", list, "list"), ("models", dict, "mapping")):
        if key in given and not isinstance(given[key], kind):
            problems.append(Problem(key, f"must be a {word}, not {called(given.pop(key))}"))
    factor = parts(float, [("", "factor", given["factor"])] if "factor" in given else [])
    nodes = parts(_Nodes, [(index, f"nodes[{index}]", rule) for index, rule in enumerate(given.get("nodes", ()))])
    models = parts(_Model, [(str(name), f"models[{name!r}]", one) for name, one in given.get("models", {}).items()])
    return _File(factor=factor.get(""), nodes=nodes, models=models), problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The ratio that a node's cpu is to have."""

    ratio: float
    source: str
    """What says so: the key of an annotation or label, or of the configuration."""
    is_explicit: bool
    """Whether it is said of this very node."""


def wanted_ratio(node: Node, policy: Policy) -> Wanted | None:
    """Return the ratio for a node; None when nothing is said of it.

    The annotation wins over the label, this over what the node was started with, and that over the configuration.

    Raises:
        InvalidFactor: What is said of it cannot be used.
    """
    metadata = node.metadata
    factor: float | None = None
    source = ""
    for texts, key in ((metadata.annotations, FACTOR), (metadata.labels, FACTOR), (metadata.annotations, STARTED_WITH)):
        if texts and key in texts:
            place = "annotations" if texts is metadata.annotations else "labels"
            factor, source = read_factor(texts[key], f"metadata.{place}[{key}]"), key
            break
    is_explicit = bool(source)
    if factor is None:
        matching = [given for selector, given in policy.nodes if selector.matches(metadata.labels)]
        factor = matching[-1] if matching else policy.factor
        source = CONFIG_KEY if factor is not None else ""
    normalisation = _normalisation(node, policy)
    if factor is None and normalisation == 1.0:
        return None
    ratios = final_ratios({"cpu": factor if factor is not None else 1.0}, normalisation)
    return Wanted(
        ratio=written_ratio(min(ratios["cpu"], MAX_FACTOR)), source=source or CONFIG_KEY, is_explicit=is_explicit
    )


def _normalisation(node: Node, policy: Policy) -> float:
    noted = node.metadata.annotation(NORMALISATION)
    if noted:
        return read_factor(noted, f"metadata.annotations[{NORMALISATION}]", least=LEAST_NORMALISATION)
    text = node.metadata.annotation(CPU_INFO)
    if not (policy.models and text):
        return 1.0
    try:
        info = msgspec.json.decode(text[:4096], type=CpuInfo)
    except UNDECODABLE:
        advice = 'must be a JSON object such as {"cpuModel":"…","hyperThreadEnabled":true,"turboEnabled":false}'
        raise InvalidFactor(f"metadata.annotations[{CPU_INFO}]", text, advice) from None
    model = policy.models.get(" ".join(info.cpu_model.split()))
    return model.ratio(info) if model is not None else 1.0


def requested_milli(pods: Sequence[Pod]) -> int:
    """Return the cpu that pods of a node hold, in milli-cpu; finished ones hold none."""
    total = 0
    for pod in pods:
        if not pod.is_finished:
            amount = effective_requests(pod.spec).get("cpu")
            total += amount.milli_value if amount is not None else 0
    return total


def held_ratio(wanted: float, requested: int, raw: int) -> float:
    """Return the ratio to have while pods hold more than the wanted one would offer: what they hold, in hundredths.

    Args:
        wanted: The ratio to come down to.
        requested: Held by pods, in milli-cpu.
        raw: The node's, in milli-cpu.
    """
    if raw <= 0 or amplified(raw, wanted) >= requested:
        return wanted
    return min(MAX_FACTOR, math.ceil(requested * 100 / raw) / 100)
