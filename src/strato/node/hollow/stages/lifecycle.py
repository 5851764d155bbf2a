"""Which stage an object comes to next, after which delay, and its patches. Pure: time and draws are arguments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from strato.api import yamltext
from strato.api.meta import Json
from strato.client.cluster import PatchType
from strato.node.hollow.distributions import Random
from strato.node.hollow.stages.gotemplate import Functions, Number, TemplateFailed
from strato.node.hollow.stages.jq import execute
from strato.node.hollow.stages.model import Amount, Stage, StageStep
from strato.units import duration_seconds


class Patch(NamedTuple):
    """A change to write."""

    body: Any
    type: PatchType
    subresource: str


def next_stage(stages: Sequence[Stage], value: Json, draws: Random) -> Stage | None:
    """Return the stage that an object comes to; if several match, draw one by weight.

    A stage whose weight expression yields nothing for the object is not drawn, unless that is so for all stages.
    """
    matching = [stage for stage in stages if stage.matches(value)]
    if len(matching) < 2:
        return matching[0] if matching else None
    weights = [_weight(stage.weight, value) for stage in matching]
    total = sum(weight for weight in weights if weight is not None)
    if total > 0:
        shares = [max(0.0, weight or 0.0) for weight in weights]
        left = draws.random() * sum(shares)
        for stage, share in zip(matching, shares, strict=True):
            left -= share
            if left < 0:
                return stage
        return matching[-1]
    known = [stage for stage, weight in zip(matching, weights, strict=True) if weight is not None] or matching
    return known[int(draws.random() * len(known))]


def delay_seconds(stage: Stage, value: Json, now: float, draws: Random) -> float:
    """Return the seconds that an object waits before a stage's steps; an instant in the past gives 0."""
    if stage.delay_seconds is None:
        return 0.0
    least = _seconds(stage.delay_seconds, value, now)
    if least is None:
        return 0.0
    most = _seconds(stage.jitter_seconds, value, now) if stage.jitter_seconds is not None else None
    if most is None:
        return max(0.0, least)
    return max(0.0, most if most <= least else least + draws.random() * (most - least))


def patch_of(step: StageStep, value: Json, functions: Functions) -> Patch:
    """Return the patch of a step.

    Args:
        step: A step with a template.
        value: The object.
        functions: The template functions for the object.

    Raises:
        TemplateFailed: The template cannot be rendered with the object, or its text is not YAML.
    """
    assert step.template is not None
    text = step.template.render(numbered(value), functions)
    try:
        body = yamltext.load(text)
    except ValueError as error:
        raise TemplateFailed(f"it makes no YAML: {error}") from error
    if step.patch_type is PatchType.JSON:
        if not isinstance(body, list) or not all(isinstance(one, dict) for one in body):
            raise TemplateFailed("it makes no list of operations")
        if step.root:
            body = [{**one, "path": f"/{step.root}{one.get('path', '')}"} for one in body]
    else:
        body = {step.root: body} if step.root else body
        if not isinstance(body, dict):
            raise TemplateFailed("it makes no object")
    return Patch(body, step.patch_type, step.subresource)


def finalizer_patch(step: StageStep, held: Sequence[str]) -> list[Json]:
    """Return the JSON patch that changes an object's finalizers as a step says; empty if nothing changes."""
    kept = [] if step.empty_finalizers else [one for one in held if one not in step.remove_finalizers]
    wanted = [*kept, *(one for one in step.add_finalizers if one not in kept)]
    if wanted == list(held):
        return []
    if not wanted:
        return [{"op": "remove", "path": "/metadata/finalizers"}]
    return [{"op": "add", "path": "/metadata/finalizers", "value": wanted}]


def numbered(value: Any) -> Any:
    """Return a JSON value with its numbers as `Number`, as templates need them."""
    if isinstance(value, dict):
        return {key: numbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbered(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(msgspec.json.encode(value).decode())
    return value


def _weight(amount: Amount, value: Json) -> float | None:
    found = _found(amount, value)
    if found is None:
        return amount.value
    if isinstance(found, str):
        try:
            return float(int(found, 0)) if found else None
        except ValueError:
            return None
    return float(found) if isinstance(found, int | float) else amount.value


def _seconds(amount: Amount, value: Json, now: float) -> float | None:
    found = _found(amount, value)
    if found == "":
        return None
    if isinstance(found, str):
        try:
            return datetime.fromisoformat(found).timestamp() - now if "T" in found else duration_seconds(found)
        except (ValueError, OverflowError):
            return amount.value
    return amount.value


def _found(amount: Amount, value: Json) -> Any:
    """Return the first result of an amount's query; None if it has none."""
    if amount.query is None:
        return None
    found = execute(amount.query, value)
    return found[0] if found else None


__all__ = ["Patch", "delay_seconds", "finalizer_patch", "next_stage", "numbered", "patch_of"]
