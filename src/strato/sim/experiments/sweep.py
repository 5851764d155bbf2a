"""`sweep`: makes an experiment whose variants are the points of a grid of parameters.

Parameters, as written before ``=`` on a command line:

    nodes.count                      how many nodes there are, of one shape
    nodes.KEY                        an item of that shape: ``nodes.cpu=16,32`` or ``nodes.gpu``, ``nodes.memory``
    workload.KEY                     a parameter of a workload model: ``workload.load=0.5,0.7,0.9``
    queues.NAME.FIELD                a field of a queue's spec: ``queues.research.weight=1,2,5``
    policy.arguments.PLUGIN.KEY      an argument of a plugin, in every policy that has the plugin
    limit, hours, queueBy            a section of the file
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, nearest
from strato.sim.experiments.file import MOST_RUNS, nodes_text, parse_document
from strato.sim.experiments.plan import Experiment, Variant
from strato.sim.experiments.queues import read_queues, text_of
from strato.sim.workloads.spec import is_model

_MOST_VALUES: Final = 100
_ROOTS: Final = ("nodes", "workload", "queues", "policy", "limit", "hours", "queueBy")
_COUNTED: Final = re.compile(r"\s*\d+\s*x\s*")
_BASE: Final = "variants"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a sweep."""

    name: str
    values: tuple[str, ...]
    """Its values as the user wrote them, at least one."""


def parse_parameter(text: str) -> Parameter:
    """Read ``NAME=VALUE,VALUE,…``.

    Raises:
        InvalidInput: The text is no parameter with values.
    """
    name, equals, rest = text.partition("=")
    name = name.strip()
    values = tuple(part.strip() for part in rest.split(",") if part.strip())
    problems = []
    if not equals or not values:
        problems.append("write NAME=VALUE,VALUE, for example nodes.count=10,20,40")
    if name.split(".")[0] not in _ROOTS:
        problems.append(f"no such parameter{nearest(name.split('.')[0], _ROOTS)}")
    if len(values) > _MOST_VALUES:
        problems.append(f"{len(values)} values are more than {_MOST_VALUES}")
    if len(set(values)) < len(values):
        problems.append("a value is given twice")
    if problems:
        raise InvalidInput("the sweep", [Problem(f"--over {text}", problem) for problem in problems])
    return Parameter(name, values)


def sweep(document: Mapping[str, Any], name: str, folder: Path, parameters: Sequence[Parameter]) -> Experiment:
    """Return the experiment at all points of a grid.

    Args:
        document: The content of the experiment's file; its variants are not used.
        name: The file's name, for errors.
        folder: The folder in which files are that the document names.
        parameters: The parameters; the grid is the product of their values.

    Raises:
        InvalidInput: The experiment or a parameter has problems; all are listed with their places.
    """
    base = {key: value for key, value in document.items() if key != _BASE}
    whole = parse_document(base, name, folder)
    points = list(itertools.product(*(parameter.values for parameter in parameters)))
    runs = len(points) * len(whole.policies) * len(whole.seeds)
    if runs > MOST_RUNS:
        raise InvalidInput("the sweep", [Problem("", f"{runs} runs are more than {MOST_RUNS}; take fewer values")])
    problems: list[Problem] = []
    variants = [
        found
        for values in points
        if (found := _variant(base, name, folder, dict(zip(_names(parameters), values, strict=True)), problems))
    ]
    if problems:
        raise InvalidInput("the sweep", list(dict.fromkeys(problems)))
    return replace(whole, variants=tuple(variants))


def _names(parameters: Sequence[Parameter]) -> list[str]:
    return [parameter.name for parameter in parameters]


def _variant(
    base: Mapping[str, Any], name: str, folder: Path, values: Mapping[str, str], problems: list[Problem]
) -> Variant | None:
    """Return the variant of one point of the grid; problems are added to the list."""
    document = deepcopy(dict(base))
    try:
        for parameter, value in values.items():
            _SETTERS[parameter.split(".")[0]](document, folder, parameter, value)
        found = parse_document(document, name, folder)
    except InvalidInput as error:
        at = ", ".join(f"{key}={value}" for key, value in values.items())
        problems += [Problem(f"{at}: {one.where}".removesuffix(": "), one.message) for one in error.problems]
        return None
    (variant,) = found.variants
    label = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in values.items())
    own = found.policies if any(key.startswith("policy.") for key in values) else ()
    return replace(variant, name=label, values=dict(values), policies=own)


def _wrong(parameter: str, message: str) -> InvalidInput:
    return InvalidInput("the sweep", [Problem(parameter, message)])


def _set_nodes(document: dict[str, Any], folder: Path, parameter: str, value: str) -> None:
    key = parameter.partition(".")[2]
    given = document.get("nodes") or ""
    text = given if isinstance(given, str) else nodes_text(given)
    if not text or "+" in text or not (head := _COUNTED.match(text)):
        raise _wrong(parameter, f"needs nodes of one shape, for example 10x32cpu,256Gi; there is {text or 'none'}")
    count, items = head.group(), text[head.end() :].split(",")
    if key == "count":
        count = f"{value}x"
    elif key in ("cpu", "gpu", "pods"):
        items = [one for one in items if not re.fullmatch(rf"\s*[\d.]+{key}s?\s*", one, re.IGNORECASE)]
        items.append(f"{value}{key}")
    elif key == "memory":
        items = [one for one in items if not re.fullmatch(r"\s*\d+(\.\d+)?[KMGTP]i?\s*", one)] + [value]
    else:
        raise _wrong(parameter, f"no such item of nodes{nearest(key, ('count', 'cpu', 'gpu', 'pods', 'memory'))}")
    document["nodes"] = count + ",".join(items)


def _set_workload(document: dict[str, Any], folder: Path, parameter: str, value: str) -> None:
    key = parameter.partition(".")[2]
    text = document.get("trace")
    if not isinstance(text, str) or not is_model(text):
        raise _wrong(parameter, f"needs a workload model such as lublin:jobs=1000 as trace; there is {text!r}")
    name, _, rest = text.partition(":")
    parts = [part for part in rest.split(",") if part and not part.strip().startswith(f"{key}=")]
    document["trace"] = f"{name}:{','.join([*parts, f'{key}={value}'])}"


def _set_queue(document: dict[str, Any], folder: Path, parameter: str, value: str) -> None:
    _, name, field = (*parameter.split("."), "", "")[:3]
    queues = [deepcopy(one) for one in read_queues(document.get("queues"), "queues", folder)]
    known = {one["metadata"]["name"]: one for one in queues}
    if name not in known or not field:
        raise _wrong(parameter, f"write queues.NAME.FIELD; no such queue{nearest(name, known)}")
    known[name].setdefault("spec", {})[field] = yaml.safe_load(value)
    document["queues"] = queues


def _set_policy(document: dict[str, Any], folder: Path, parameter: str, value: str) -> None:
    parts = parameter.split(".", 3)
    if len(parts) < 4 or parts[1] != "arguments":
        raise _wrong(parameter, "write policy.arguments.PLUGIN.KEY")
    policies = document.get("policies") or {}
    named = {Path(str(one)).stem: one for one in policies} if isinstance(policies, list) else dict(policies)
    found = False
    for name, given in named.items():
        config = yamltext.load(text_of(folder / given)) if isinstance(given, str) else deepcopy(given)
        found = _set_argument(config, parts[2], parts[3], yaml.safe_load(value)) or found
        named[name] = config
    if not found:
        raise _wrong(parameter, f"no policy has the plugin {parts[2]!r}")
    document["policies"] = named


def _set_argument(config: Any, plugin: str, key: str, value: Any) -> bool:
    """Set an argument of a plugin at each place where a configuration has it; return whether there is one."""
    found = False
    tiers = config.get("tiers") if isinstance(config, dict) else None
    for tier in tiers if isinstance(tiers, list) else []:
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        for one in plugins if isinstance(plugins, list) else []:
            if isinstance(one, dict) and one.get("name") == plugin:
                one["arguments"] = {**(one.get("arguments") or {}), key: value}
                found = True
    return found


def _set_section(document: dict[str, Any], folder: Path, parameter: str, value: str) -> None:
    document[parameter] = yaml.safe_load(value)


_SETTERS: Final[Mapping[str, Callable[[dict[str, Any], Path, str, str], None]]] = {
    "nodes": _set_nodes,
    "workload": _set_workload,
    "queues": _set_queue,
    "policy": _set_policy,
    "limit": _set_section,
    "hours": _set_section,
    "queueBy": _set_section,
}
