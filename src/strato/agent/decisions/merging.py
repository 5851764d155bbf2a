"""Merge the actions of all handlers: for each container the lowest quota, suppression before burst."""

from __future__ import annotations

from collections.abc import Iterable

from strato.agent.events import RESTORED, SUPPRESSED, Action, ActionKind

_QUOTAS = (ActionKind.SET_QUOTA, ActionKind.CLEAR)


def merge(actions: Iterable[Action]) -> list[Action]:
    """Return at most one action on each container's quota, and the other actions once per kind and target."""
    quotas: dict[str, Action] = {}
    others: dict[tuple[ActionKind, str, str], Action] = {}
    for action in actions:
        if action.kind not in _QUOTAS:
            others.setdefault((action.kind, action.target, action.reason), action)
        elif action.target not in quotas or _strength(action) < _strength(quotas[action.target]):
            quotas[action.target] = action
    return [*quotas.values(), *others.values()]


def _strength(action: Action) -> tuple[int, float]:
    """Return a sort key for actions on one quota, of which the first is kept."""
    order = {SUPPRESSED: 0, RESTORED: 1}.get(action.reason, 2)
    return order, float("inf") if action.value is None else action.value
