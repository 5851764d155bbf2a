"""The wanted ratio of a node's cpu, from its annotations and labels and a table in a ConfigMap. Pure.

The ratio is the product of an overcommit factor, which operators choose, and a normalisation, which makes one cpu mean
the same amount of work on an old 2.2 GHz core and on a new 2.6 GHz one.

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
    """A node's annotation about its processor, Koordinator's ``cpu-basic-info``."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False


class _Model(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    base_ratio: float
    hyper_thread_enabled_ratio: float | None = None
    turbo_enabled_ratio: float | None = None
    hyper_thread_turbo_enabled_ratio: float | None = None

    def ratio(self, info: CpuInfo) -> float:
        """Return the ratio for the processor's settings (hyper-threading, turbo), else the model's ``baseRatio``."""
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
    """Rules by their index in the list; those that could not be read are missing."""
    models: dict[str, _Model] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OvercommitPolicy:
    """The configuration in force."""

    factor: float | None = None
    """Factor of nodes without another one."""
    nodes: Sequence[tuple[Selector, float]] = ()
    """Factors of nodes by label; the last selector that matches wins."""
    models: Mapping[str, _Model] | None = None
    """Normalisation by processor model."""


def parse_policy(text: str) -> OvercommitPolicy:
    """Read the configuration; an empty text has no rules.

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
    return OvercommitPolicy(
        factor=file.factor,
        nodes=tuple(selected),
        models={" ".join(model.split()): ratios for model, ratios in file.models.items()},
    )


def _read_file(document: dict[str, Any]) -> tuple[_File, list[Problem]]:
    """Return the parts of a document that can be decoded, and a problem for each of the others."""
    problems: list[Problem] = []

    def parts(kind: type[_Part], named: Iterable[tuple[_Name, str, Any]]) -> dict[_Name, _Part]:
        """Decode parts, given as name, place and value; adds a problem for each that fails, and leaves it out."""
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
class WantedRatio:
    """The ratio that a node's cpu is to have."""

    ratio: float
    source: str
    """Where it comes from: the key of an annotation or label, or of the configuration."""
    is_explicit: bool
    """Whether it comes from an annotation or label of the node itself."""


def wanted_ratio(node: Node, policy: OvercommitPolicy) -> WantedRatio | None:
    """Return the wanted ratio of a node; None when neither the node nor the configuration specifies one.

    The annotation takes precedence over the label, that over the factor with which the node was started, and that over
    the configuration.

    Raises:
        InvalidFactor: The factor or normalisation in an annotation or label is invalid.
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
        source = CONFIG_KEY
    normalisation = _normalisation(node, policy)
    if factor is None and normalisation == 1.0:
        return None
    ratios = final_ratios({"cpu": factor if factor is not None else 1.0}, normalisation)
    return WantedRatio(ratio=written_ratio(min(ratios["cpu"], MAX_FACTOR)), source=source, is_explicit=is_explicit)


def _normalisation(node: Node, policy: OvercommitPolicy) -> float:
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
    """Return the cpu that the pods of a node hold, in milli-cpu; finished pods hold none."""
    total = 0
    for pod in pods:
        if not pod.is_finished:
            amount = effective_requests(pod.spec).get("cpu")
            total += amount.milli_value if amount is not None else 0
    return total


def held_ratio(wanted: float, requested: int, raw: int) -> float:
    """Return the ratio that offers exactly what pods hold, rounded up to hundredths, and at least the wanted ratio.

    Args:
        wanted: The wanted ratio, lower than the present one.
        requested: Cpu that pods hold, in milli-cpu.
        raw: The node's cpu before amplification, in milli-cpu.
    """
    if raw <= 0 or amplified(raw, wanted) >= requested:
        return wanted
    return min(MAX_FACTOR, math.ceil(requested * 100 / raw) / 100)
