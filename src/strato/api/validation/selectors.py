"""Rules of label selectors."""

from __future__ import annotations

from collections.abc import Iterator

from strato.api import names
from strato.api.meta import Json
from strato.api.status import forbidden_field, invalid_value, required
from strato.api.validation.metadata import validate_labels
from strato.errors import Cause


def label_selector_problems(selector: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a label selector."""
    causes: list[Cause] = []
    validate_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels", causes)
    yield from causes
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        place, operator = f"{field}.matchExpressions[{index}]", expression.get("operator") or ""
        values, key = expression.get("values") or (), expression.get("key") or ""
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator not in ("Exists", "DoesNotExist"):
            yield invalid_value(f"{place}.operator", operator, "not a valid selector operator")
        elif values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{place}.values", text)
        for text in names.check_qualified_name(key):
            yield invalid_value(f"{place}.key", key, text)
        for at, value in enumerate(values):
            for text in names.check_label_value(value):
                yield invalid_value(f"{place}.values[{at}]", value, text)
