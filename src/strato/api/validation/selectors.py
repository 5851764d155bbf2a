"""Rules of label selectors."""

from __future__ import annotations

from collections.abc import Iterator

from strato.api import names
from strato.api.meta import Json
from strato.api.status import forbidden_field, invalid_value, invalid_values, required
from strato.api.validation.metadata import validate_labels
from strato.errors import Cause


def label_selector_problems(selector: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with a label selector."""
    causes: list[Cause] = []
    validate_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels", causes)
    yield from causes
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from expression_problems(expression, f"{field}.matchExpressions[{index}]")


def expression_problems(
    expression: Json, field: str, *, compares: bool = False, checks_values: bool = True
) -> Iterator[Cause]:
    """Yield what is wrong with an expression over labels.

    Args:
        expression: Key, operator and values.
        field: Where it is.
        compares: Whether it may compare numbers, with ``Gt`` and ``Lt``.
        checks_values: Whether its values have to be valid labels.
    """
    operator = expression.get("operator") or ""
    values, key = expression.get("values") or (), expression.get("key") or ""
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{field}.values", text)
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid_value(f"{field}.operator", operator, "not a valid selector operator")
    yield from invalid_values(f"{field}.key", key, names.check_qualified_name(key))
    if checks_values:
        for at, value in enumerate(values):
            yield from invalid_values(f"{field}.values[{at}]", value, names.check_label_value(value))
