"""Whether two pieces of a manifest mean the same, by Kubernetes' semantic equality.

A client with Go's types writes an object back with members that were absent (``resources: {}``,
``creationTimestamp: null``), without some that were present (``hostNetwork: false``) and with quantities in another
form (``1`` for ``1000m``). None of these counts as a change.
"""

from __future__ import annotations

from typing import Any

from strato.api.quantity import InvalidQuantity, parse

_TRUE_WHEN_ABSENT = frozenset(
    ("allowPrivilegeEscalation", "automountServiceAccountToken", "enableServiceLinks", "hostUsers")
)
_ZERO_IS_ABSENT = frozenset(
    (
        "failureThreshold",
        "hostPort",
        "initialDelaySeconds",
        "maxRetry",
        "minPartitions",
        "periodSeconds",
        "successThreshold",
        "timeoutSeconds",
    )
)
_LISTS_OF_AMOUNTS = frozenset(("limits", "requests"))
_AMOUNTS = frozenset(("divisor", "sizeLimit"))


def same(one: Any, other: Any) -> bool:
    """Whether two values mean the same."""
    return bool(one == other) or meaning(one) == meaning(other)


def meaning(value: Any, name: str = "") -> Any:
    """Return a value without empty and default members, quantities as numbers; None when nothing is left.

    Args:
        value: Any JSON.
        name: The member it is of.
    """
    if isinstance(value, dict):
        amounts = name in _LISTS_OF_AMOUNTS
        kept = {
            key: amount
            for key, inner in value.items()
            if (amount := _amount(inner) if amounts or key in _AMOUNTS else meaning(inner, key)) is not None
        }
        return kept or None
    if isinstance(value, list):
        return [meaning(item) for item in value] or None
    if value is False:
        return False if name in _TRUE_WHEN_ABSENT else None
    if value == "" or (value == 0 and value is not True and name in _ZERO_IS_ABSENT):
        return None
    return value


def _amount(value: Any) -> Any:
    try:
        return parse(value).nanos
    except (InvalidQuantity, TypeError):
        return meaning(value)
