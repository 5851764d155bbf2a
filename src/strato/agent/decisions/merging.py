"""One list of actions out of those of all handlers: of a container the lowest quota, suppression before burst."""

from __future__ import annotations

from collections.abc import Iterable

from strato.agent.events import RESTORED, SUPPRESSED, Action, ActionKind

_QUOTAS = (ActionKind.SET_QUOTA, ActionKind.CLEAR)


def merge(actions: Iterable[Action]) -> list[Action]:
    """Return one action on a container's quota at most, and of the others each kind and target once."""
    quotas: dict[str, Action] = {}
    others: dict[tuple[ActionKind, str, str], Action] = {}
    for action in actions:
        if action.kind not in _QUOTAS:
            others.setdefault((action.kind, action.target, action.reason), action)
        elif action.target not in quotas or _strength(action) < _strength(quotas[action.target]):
            quotas[action.target] = action
    return [*quotas.values(), *others.values()]


def _strength(action: Action) -> tuple[int, float]:
    """Order actions on one quota; the first wins."""
    order = {SUPPRESSED: 0, RESTORED: 1}.get(action.reason, 2)
    return order, float("inf") if action.value is None else action.value
