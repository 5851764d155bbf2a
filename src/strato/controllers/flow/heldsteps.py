"""When the conditions of waiting steps are checked again: the delay grows with each attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from strato.api.meta import Key
from strato.controllers.flow.conditions import delay_seconds


@dataclass(slots=True)
class _Attempts:
    count: int
    due: float
    """When the next attempt is due, by the controller's clock."""


@dataclass(slots=True)
class HeldSteps:
    """The attempts of each waiting step of each flow, in memory only: after a restart the delays start anew."""

    _flows: dict[Key, dict[str, _Attempts]] = field(default_factory=dict)

    def is_due(self, flow: Key, step: str, now: float) -> bool:
        """Return whether the next attempt is due; else an event has caused the check, and it is not counted."""
        known = self._flows.get(flow, {}).get(step)
        return known is None or now >= known.due

    def note(self, flow: Key, step: str, now: float) -> None:
        """Count an attempt that found a condition unmet."""
        steps = self._flows.setdefault(flow, {})
        count = steps[step].count + 1 if step in steps else 0
        steps[step] = _Attempts(count, now + delay_seconds(count))

    def wait_seconds(self, flow: Key, step: str, now: float) -> float:
        """Return how long until the next attempt."""
        known = self._flows.get(flow, {}).get(step)
        return max(known.due - now, 0.1) if known is not None else delay_seconds(0)

    def forget(self, flow: Key, step: str | None = None) -> None:
        """Forget a step, or all steps of a flow that was deleted."""
        if step is None:
            self._flows.pop(flow, None)
        elif flow in self._flows:
            self._flows[flow].pop(step, None)
