"""Reads the file of an experiment strictly, and reports all problems together, each with its place.

A variant is the experiment with some sections of the file replaced. A sweep makes its variants itself (`sweep`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from strato.api.configtext import read_mapping
from strato.errors import InvalidInput, Problem, UsageError, called, nearest
from strato.node.shapes import NodeShape, parse_nodes
from strato.scheduler.config import parse_config
from strato.sim.experiments.plan import Experiment, PolicyText, TraceSource, Variant
from strato.sim.experiments.queues import read_queues, text_of
from strato.sim.models.reading import read_models, seen_from_here
from strato.sim.run import DECISIONS, FIDELITIES, OBJECTS
from strato.sim.workloads.spec import is_model

API_VERSION: Final = "sim.strato.dev/v1alpha1"
KIND: Final = "Experiment"
PER_VARIANT: Final = ("trace", "queueBy", "limit", "hours", "strict", "format", "nodes", "queues", "models")
"""Sections that a variant may replace."""
SECTIONS: Final = ("apiVersion", "kind", "name", *PER_VARIANT, "variants", "policies", "seeds", "fidelity", "output")
MOST_RUNS: Final = 10_000
_HEAD_BYTES: Final = 1 << 16
_NUMBERS: Final = {"limit": (int, 1e9), "hours": (float, 1e6)}


def is_experiment(path: Path) -> bool:
    """Whether a file is an experiment's, by its kind; False if it cannot be read."""
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return b"kind" in head and KIND.encode() in head and API_VERSION.partition("/")[0].encode() in head


def read_experiment(path: Path) -> Experiment:
    """Read an experiment.

    Raises:
        UsageError: The file cannot be read.
        InvalidInput: The file has problems; all are listed with their places.
    """
    return parse_document(read_document(path), str(path), path.parent)


def read_document(path: Path) -> dict[str, Any]:
    """Return the content of an experiment's file, unchecked.

    Raises:
        UsageError: The file cannot be read.
        InvalidInput: The file is not YAML, or no mapping.
    """
    return read_mapping(text_of(path), str(path))


def parse_document(document: Mapping[str, Any], name: str, folder: Path) -> Experiment:
    """Read an experiment from the content of its file.

    Args:
        document: The sections of the file, by name.
        name: The file's name, for errors.
        folder: The folder in which files are that the document names.

    Raises:
        InvalidInput: The document has problems; all are listed with their places.
    """
    reader = _Reader(document, folder)
    experiment = reader.read(Path(name).stem)
    if reader.problems:
        raise InvalidInput(name, list(dict.fromkeys(reader.problems)))  # a section shared by variants was read for each
    return experiment


class _Reader:
    """Reads one document. It collects problems, and puts an empty or default value in place of a wrong one."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self._document, self._folder = document, folder
        self.problems: list[Problem] = []

    def read(self, stem: str) -> Experiment:
        document = self._document
        for key in document:
            if key not in SECTIONS:
                self._note(str(key), f"no such key{nearest(str(key), SECTIONS)}")
        for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
            if document.get(key) != expected:
                self._note(key, f"must be {expected}, not {document.get(key)!r}")
        policies, seeds, variants = self._policies(), self._seeds(), self._variants()
        fidelity = document.get("fidelity", OBJECTS)
        if not isinstance(fidelity, str) or fidelity not in FIDELITIES:
            self._note("fidelity", f"must be {' or '.join(FIDELITIES)}, not {fidelity!r}")
        if (count := len(policies) * len(seeds) * len(variants)) > MOST_RUNS:
            self._note("", f"{count} runs are more than {MOST_RUNS}; take fewer policies, variants or seeds")
        return Experiment(
            name=self._text("name", stem),
            policies=policies,
            variants=variants,
            seeds=seeds,
            fidelity=str(fidelity),
            output=self._text("output", ""),
        )

    def _policies(self) -> tuple[PolicyText, ...]:
        given = self._document.get("policies")
        if given is None:
            return (PolicyText("built-in", None, "built in"),)
        if isinstance(given, list):
            given = {Path(str(one)).stem: one for one in given}
        found = [self._policy(str(name), one) for name, one in self._mapping("policies", given).items()]
        if not found:
            self._note("policies", "needs one at least, for example easy: easy.yaml")
        return tuple(found)

    def _policy(self, name: str, given: Any) -> PolicyText:
        where = f"policies.{name}"
        if given is None:
            return PolicyText(name, None, "built in")
        if isinstance(given, Mapping):
            policy = PolicyText(name, yaml.safe_dump(dict(given), sort_keys=False), where)
        elif isinstance(given, str):
            try:
                policy = PolicyText(name, text_of(self._folder / given), str(self._folder / given))
            except UsageError as error:
                self._note(where, str(error))
                return PolicyText(name, None, where)
        else:
            self._note(where, f"must be a file or a configuration, not {called(given)}")
            return PolicyText(name, None, where)
        self.problems += policy_problems(policy)
        return policy

    def _seeds(self) -> tuple[int, ...]:
        given = self._document.get("seeds", 1)
        if _is_whole(given) and 1 <= given <= MOST_RUNS:
            return tuple(range(given))
        if isinstance(given, list) and given and all(_is_whole(one) for one in given):
            if len(set(given)) < len(given):
                self._note("seeds", "one is given twice")
            return tuple(given)
        self._note("seeds", f"must be a number of seeds of at most {MOST_RUNS} or a list of them, not {given!r}")
        return (0,)

    def _variants(self) -> tuple[Variant, ...]:
        given = self._document.get("variants")
        if given is None:
            return (self._variant("", self._document, ""),)
        if "trace" in self._document:
            self._variant("", self._document, "")  # checks sections of the file that every variant replaces
        found = []
        for name, changes in self._mapping("variants", given).items():
            where = f"variants.{name}"
            mapping = self._mapping(where, changes)
            for key in mapping:
                if key not in PER_VARIANT:
                    self._note(f"{where}.{key}", f"is nothing a variant has of its own{nearest(key, PER_VARIANT)}")
            merged = {**self._document, **mapping}
            changed = [key for key in mapping if key in PER_VARIANT]
            found.append(self._variant(str(name), merged, where, changed))
        if not found:
            self._note("variants", "needs one at least, for example 'as it is': {}")
        return tuple(found)

    def _variant(self, name: str, document: Mapping[str, Any], where: str, changed: Sequence[str] = ()) -> Variant:
        def place(key: str) -> str:
            return f"{where}.{key}" if key in changed else key

        numbers = {key: self._number(place(key), document.get(key, 0), *_NUMBERS[key]) for key in _NUMBERS}
        trace = TraceSource(
            sources=self._sources(place("trace"), document.get("trace")),
            queue_by=self._text("queueBy", "", document, place("queueBy")),
            limit=int(numbers["limit"]),
            hours=numbers["hours"],
            strict=self._flag(place("strict"), document.get("strict", False)),
            format=self._text("format", "", document, place("format")),
        )
        nodes = document.get("nodes", "")
        text, shapes = self._nodes(place("nodes"), nodes)
        return Variant(
            name=name,
            trace=trace,
            nodes=text,
            shapes=shapes,
            queues=self._queues(place("queues"), document.get("queues")),
            models=self._models(place("models"), document.get("models") or {}),
        )

    def _models(self, where: str, given: Any) -> dict[str, Any]:
        """Return the performance models, checked, with paths relative to the working directory."""
        written = seen_from_here(self._mapping(where, given), self._folder)
        try:
            read_models(written, Path(), where)
        except InvalidInput as error:
            self.problems += error.problems
        if written and self._document.get("fidelity", OBJECTS) == OBJECTS:
            self._note(where, f"need the fidelity of decisions only; write fidelity: {DECISIONS}")
        return written

    def _sources(self, where: str, given: Any) -> tuple[str, ...]:
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, list) or not listed or not all(isinstance(one, str) and one for one in listed):
            self._note(where, "must be a file, a list of files that are one trace, or a workload model")
            return ("",)
        if len(listed) == 1 and is_model(listed[0]):
            return (self._model(listed[0]),)
        paths = [self._folder / one for one in listed]
        for path in paths:
            if not os.path.exists(path):  # unlike Path.exists, it does not raise for names that no file can have
                self._note(where, f"there is no {path}")
        return tuple(str(path) for path in paths)

    def _model(self, text: str) -> str:
        """Return a workload model's text; the path of a file in it becomes relative to the working directory."""
        model, _, rest = text.partition(":")
        return text if model == "lublin" or not rest else f"{model}:{self._folder / rest}"

    def _nodes(self, where: str, given: Any) -> tuple[str, tuple[NodeShape, ...]]:
        """Return node shapes as text and parsed.

        ``given`` is text as on a command line, or the lists of counts and items that such text consists of.
        """
        text = given
        if isinstance(given, Mapping | list):
            text = nodes_text(given)
        if not isinstance(text, str):
            self._note(where, "must be text such as 12x24cpu,128Gi, or count with shape, or a list of these")
            return "", ()
        if not text:
            return "", ()
        try:
            return text, parse_nodes(text)
        except InvalidInput as error:
            self.problems += [Problem(f"{where}: {one.where}", one.message) for one in error.problems]
            return "", ()

    def _queues(self, where: str, given: Any) -> tuple[dict[str, Any], ...]:
        try:
            return read_queues(given, where, self._folder)
        except InvalidInput as error:
            self.problems += error.problems
        except UsageError as error:
            self._note(where, str(error))
        return ()

    def _text(self, key: str, default: str, document: Mapping[str, Any] | None = None, where: str = "") -> str:
        value = (self._document if document is None else document).get(key, default)
        if not isinstance(value, str):
            self._note(where or key, f"must be text, not {called(value)}")
            return default
        return value

    def _flag(self, where: str, value: Any) -> bool:
        if not isinstance(value, bool):
            self._note(where, f"must be true or false, not {value!r}")
        return value is True

    def _number(self, where: str, value: Any, kind: type, most: float) -> float:
        allowed = int if kind is int else int | float
        if isinstance(value, bool) or not isinstance(value, allowed) or not 0 <= value <= most or math.isnan(value):
            self._note(where, f"must be a {'whole ' if kind is int else ''}number from 0 to {most:g}, not {value!r}")
            return 0
        return float(value)

    def _mapping(self, where: str, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._note(where, f"must be a mapping, not {called(value)}")
            return {}
        return {str(key): one for key, one in value.items()}

    def _note(self, where: str, message: str) -> None:
        self.problems.append(Problem(where, message))


def nodes_text(given: Mapping[str, Any] | Sequence[Any]) -> str | None:
    """Return node shapes as text: ``{count: 10, shape: 32cpu}`` is ``10x32cpu``; None if they are no shapes."""
    parts = [given] if isinstance(given, Mapping) else list(given)
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and set(part) == {"count", "shape"} and _is_whole(part["count"]):
            texts.append(f"{part['count']}x{part['shape']}")
        else:
            return None
    return "+".join(texts)


def policy_problems(policy: PolicyText) -> list[Problem]:
    """Return the problems of a policy, each with the policy's file."""
    if policy.text is None:
        return []
    try:
        parse_config(policy.text, policy.source)
    except InvalidInput as error:  # the caller joins problems of several files, so each must name its file
        return [Problem(f"{policy.source}: {one.where}".removesuffix(": "), one.message) for one in error.problems]
    return []


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
