"""kwok's ``Stage`` objects (kwok.x-k8s.io/v1alpha1), which describe how pods and nodes change over time. Pure.

A stage applies to objects that its selector matches. After a delay its steps are carried out: an event, finalizers,
deletion, patches. docs/hollow-nodes.md says which members of a stage are supported; others are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strato.api import yamltext
from strato.api.meta import Json
from strato.client.cluster import PatchType
from strato.errors import InvalidInput, Problem, UsageError, nearest
from strato.node.hollow.stages.functions import KNOWN
from strato.node.hollow.stages.gotemplate import BadTemplate, GoTemplate
from strato.node.hollow.stages.jq import BadQuery, Filter, compile_query, execute

API_VERSION: Final = "kwok.x-k8s.io/v1alpha1"
KINDS: Final = ("Pod", "Node")
_MOST_BYTES: Final = 4 << 20
"""Largest file of stages."""
_PATCH_TYPES: Final = {"json": PatchType.JSON, "merge": PatchType.MERGE, "strategic": PatchType.STRATEGIC}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a selector."""

    query: Filter
    operator: str
    values: frozenset[str]

    def holds(self, value: Json) -> bool:
        """Return whether an object meets the requirement."""
        found = execute(self.query, value)
        if self.operator in ("Exists", "DoesNotExist"):
            return bool(found) is (self.operator == "Exists")
        return (found is not None and any(_text(one) in self.values for one in found)) is (self.operator == "In")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in a stage: fixed, or found in the object by a query."""

    value: float | None
    query: Filter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStep:
    """One step of a stage. Its parts are carried out in the order of the members; after a deletion only events are."""

    event: tuple[str, str, str] | None = None
    """Type, reason and message."""
    add_finalizers: tuple[str, ...] = ()
    remove_finalizers: tuple[str, ...] = ()
    empty_finalizers: bool = False
    delete: bool = False
    template: GoTemplate | None = None
    """Template of the step's patch."""
    root: str = ""
    """Member of the object that the patch changes, such as ``status``."""
    subresource: str = ""
    patch_type: PatchType = PatchType.STRATEGIC

    @property
    def changes_finalizers(self) -> bool:
        """Whether the step changes finalizers."""
        return bool(self.add_finalizers or self.remove_finalizers or self.empty_finalizers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage."""

    name: str
    kind: str
    """Kind of the objects, one of `KINDS`."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requirements: tuple[Requirement, ...]
    weight: Amount
    delay_seconds: Amount | None
    """The delay before its steps; None for none."""
    jitter_seconds: Amount | None
    """If set, the delay is drawn between ``delay_seconds`` and this."""
    steps: tuple[StageStep, ...]
    immediate: bool
    """Whether the next stage is chosen at once instead of when the watch shows the change."""

    def matches(self, value: Json) -> bool:
        """Return whether the stage applies to an object."""
        metadata = value.get("metadata", {})
        return (
            _covers(self.labels, metadata.get("labels"))
            and _covers(self.annotations, metadata.get("annotations"))
            and all(requirement.holds(value) for requirement in self.requirements)
        )


def _covers(wanted: Mapping[str, str], found: Mapping[str, str] | None) -> bool:
    return not wanted or (found is not None and all(found.get(key) == value for key, value in wanted.items()))


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else None


def read_stages(paths: Sequence[Path]) -> tuple[Stage, ...]:
    """Read the stages in files and in the YAML files of folders; ignores objects of other kinds.

    Raises:
        InvalidInput: Some stages are invalid; all problems are listed.
        UsageError: A file cannot be read.
    """
    documents: list[tuple[str, Any]] = []
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
        for file in files:
            documents += ((str(file), document) for document in _load(file))
    objects = [
        (where, document)
        for where, document in documents
        if isinstance(document, dict) and document.get("kind") == "Stage"
    ]
    if not objects:
        raise UsageError(f"{', '.join(map(str, paths))}: no objects of kind Stage ({API_VERSION})")
    return parse_stages(objects)


def _load(path: Path) -> Iterator[Any]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: more than {_MOST_BYTES >> 20} MiB of stages")
        for document in yamltext.load_all(path.read_bytes()):
            yield from document.get("items") or () if _is_list(document) else (document,)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def _is_list(document: object) -> bool:
    return isinstance(document, dict) and str(document.get("kind", "")).endswith("List")


def parse_stages(objects: Iterable[tuple[str, Json]]) -> tuple[Stage, ...]:
    """Read stages.

    Args:
        objects: Pairs of origin, for messages, and object.

    Raises:
        InvalidInput: Some stages are invalid; all problems are listed.
    """
    problems: list[Problem] = []
    stages = []
    for where, value in objects:
        reader = _Reader(value, where)
        stage = reader.stage()
        problems += reader.problems
        if stage is not None:
            stages.append(stage)
    if problems:
        raise InvalidInput("stages", problems)
    return tuple(stages)


class _Reader:
    """Reads one stage and collects its problems."""

    def __init__(self, value: Json, where: str) -> None:
        metadata = value.get("metadata")
        self._name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
        self._value, self._where = value, f"{where}: stage {self._name or '(without a name)'}"
        self.problems: list[Problem] = []

    def stage(self) -> Stage | None:
        """Return the stage; None if there are problems, or if the stage is valid but has no effect here."""
        if self._value.get("apiVersion") != API_VERSION:
            self._add("apiVersion", f"{self._value.get('apiVersion')!r}: only {API_VERSION} is understood")
        spec = self._object(self._value.get("spec"), "spec", _SPEC)
        kind = self._kind(spec)
        selector = self._object(spec.get("selector"), "spec.selector", _SELECTOR)
        delay = self._object(spec.get("delay"), "spec.delay", _DELAY)
        steps = [*self._next(spec.get("next"), kind), *self._steps(spec.get("steps"))]
        stage = Stage(
            name=self._name,
            kind=kind,
            labels=self._texts(selector.get("matchLabels"), "spec.selector.matchLabels"),
            annotations=self._texts(selector.get("matchAnnotations"), "spec.selector.matchAnnotations"),
            requirements=tuple(self._requirements(selector.get("matchExpressions"))),
            weight=self._amount(spec, "weight", "spec", 1.0) or _ZERO,
            delay_seconds=(self._amount(delay, "durationMilliseconds", "spec.delay", 1e-3) or _ZERO) if delay else None,
            jitter_seconds=self._amount(delay, "jitterDurationMilliseconds", "spec.delay", 1e-3),
            steps=tuple(steps),
            immediate=spec.get("immediateNextStage") is True,
        )
        return None if self.problems or "selector" not in spec else stage

    def _kind(self, spec: Json) -> str:
        reference = self._object(spec.get("resourceRef"), "spec.resourceRef", {"apiGroup", "kind"})
        group, kind = reference.get("apiGroup", ""), str(reference.get("kind", ""))
        if group not in ("v1", "") or kind not in KINDS:
            self._add("spec.resourceRef", f"{group}/{kind}: stages of {' and '.join(KINDS)} (v1) are understood")
        return kind

    def _requirements(self, value: object) -> Iterator[Requirement]:
        for number, one in enumerate(self._list(value, "spec.selector.matchExpressions")):
            where = f"spec.selector.matchExpressions[{number}]"
            found = self._object(one, where, {"key", "operator", "values", "jq"})
            found = self._object(found.get("jq"), f"{where}.jq", {"key", "operator", "values"}) or found
            query = self._query(found.get("key"), f"{where}.key")
            operator, values = str(found.get("operator", "")), self._list(found.get("values"), f"{where}.values")
            if operator not in _OPERATORS:
                self._add(f"{where}.operator", f"{operator!r} is none of {', '.join(_OPERATORS)}")
            elif bool(values) is not _OPERATORS[operator]:
                self._add(f"{where}.values", f"operator {operator} takes {'some' if not values else 'none'}")
            if query is not None:
                yield Requirement(query, operator, frozenset(map(str, values)))

    def _amount(self, holder: Json, name: str, where: str, factor: float) -> Amount | None:
        value, query = holder.get(name), None
        source = name.removesuffix("Milliseconds") + "From"
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            self._add(f"{where}.{name}", f"{value!r} is no number, 0 or more")
            value = None
        if holder.get(source) is not None:
            found = self._object(holder[source], f"{where}.{source}", {"expressionFrom", "jq"})
            inner = self._object(found.get("jq"), f"{where}.{source}.jq", {"expression"})
            query = self._query(inner.get("expression") or found.get("expressionFrom"), f"{where}.{source}")
        if value is None and query is None:
            return None
        without = None if name.startswith("jitter") else 0.0
        return Amount(without if value is None else value * factor, query)

    def _next(self, value: object, kind: str) -> Iterator[StageStep]:
        found = self._object(value, "spec.next", _NEXT)
        step = self._one_step(found, "spec.next")
        if step != StageStep():
            yield step
        for number, patch in enumerate(self._list(found.get("patches"), "spec.next.patches")):
            yield self._patch(patch, f"spec.next.patches[{number}]")
        if found.get("statusTemplate"):
            template = self._template(found["statusTemplate"], "spec.next.statusTemplate")
            yield StageStep(template=template, root="status", subresource=str(found.get("statusSubresource", "status")))

    def _steps(self, value: object) -> Iterator[StageStep]:
        for number, one in enumerate(self._list(value, "spec.steps")):
            where = f"spec.steps[{number}]"
            found = self._object(one, where, {"event", "finalizers", "delete", "patch"})
            step = self._one_step(found, where)
            if step != StageStep():
                yield step
            if found.get("patch") is not None:
                yield self._patch(found["patch"], f"{where}.patch")

    def _one_step(self, found: Json, where: str) -> StageStep:
        event = self._object(found.get("event"), f"{where}.event", {"type", "reason", "message"})
        finalizers = self._object(found.get("finalizers"), f"{where}.finalizers", {"add", "remove", "empty"})
        add, remove = (
            tuple(
                str(self._object(one, f"{where}.finalizers.{name}", {"value"}).get("value", ""))
                for one in self._list(finalizers.get(name), f"{where}.finalizers.{name}")
            )
            for name in ("add", "remove")
        )
        texts = str(event.get("type", "Normal")), str(event.get("reason", "")), str(event.get("message", ""))
        return StageStep(
            event=texts if event else None,
            add_finalizers=add,
            remove_finalizers=remove,
            empty_finalizers=finalizers.get("empty") is True,
            delete=found.get("delete") is True,
        )

    def _patch(self, value: object, where: str) -> StageStep:
        found = self._object(value, where, {"subresource", "root", "template", "type"})
        kind = found.get("type") or "strategic"
        if kind not in _PATCH_TYPES:
            self._add(f"{where}.type", f"{kind!r} is none of {', '.join(_PATCH_TYPES)}")
        return StageStep(
            template=self._template(found.get("template", ""), f"{where}.template"),
            root=str(found.get("root", "")),
            subresource=str(found.get("subresource", "")),
            patch_type=_PATCH_TYPES.get(str(kind), PatchType.STRATEGIC),
        )

    def _template(self, value: object, where: str) -> GoTemplate | None:
        try:
            return GoTemplate(str(value), KNOWN)
        except BadTemplate as error:
            self._add(where, str(error))
            return None

    def _query(self, value: object, where: str) -> Filter | None:
        try:
            return compile_query(str(value or ""))
        except BadQuery as error:
            self._add(where, str(error))
            return None

    def _texts(self, value: object, where: str) -> Mapping[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            self._add(where, "is no map of texts")
            return {}
        return value

    def _list(self, value: object, where: str) -> list[Any]:
        if value is None or isinstance(value, list):
            return value or []
        self._add(where, "is no list")
        return []

    def _object(self, value: object, where: str, known: set[str]) -> Json:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._add(where, "is no object")
            return {}
        for name in sorted(value.keys() - known):
            self._add(f"{where}.{name}", f"is not understood here{nearest(name, known)}")
        return value

    def _add(self, where: str, problem: str) -> None:
        self.problems.append(Problem(f"{self._where}: {where}", problem))


_ZERO: Final = Amount(0.0)
_SPEC: Final = {"resourceRef", "selector", "weight", "weightFrom", "delay", "next", "steps", "immediateNextStage"}
_SELECTOR: Final = {"matchLabels", "matchAnnotations", "matchExpressions"}
_DELAY: Final = {"durationMilliseconds", "durationFrom", "jitterDurationMilliseconds", "jitterDurationFrom"}
_NEXT: Final = {"event", "finalizers", "delete", "patches", "statusTemplate", "statusSubresource"}
_OPERATORS: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""Operator → whether it takes values."""
