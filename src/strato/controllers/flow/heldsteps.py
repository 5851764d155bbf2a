"""When steps that wait for conditions are looked at again: sooner at first, then less and less often."""

from __future__ import annotations

from dataclasses import dataclass, field

from strato.api.meta import Key
from strato.controllers.flow.conditions import delay_seconds


@dataclass(slots=True)
class _Attempts:
    count: int
    due: float
    """The instant of the next one."""


@dataclass(slots=True)
class HeldSteps:
    """The attempts for each step of each flow; after a restart they begin again."""

    _flows: dict[Key, dict[str, _Attempts]] = field(default_factory=dict)

    def is_due(self, flow: Key, step: str, now: float) -> bool:
        """Return whether an attempt at ``now`` counts as the next one, and not as one that an event caused."""
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
        """Forget a step, or a flow that is gone."""
        if step is None:
            self._flows.pop(flow, None)
        elif flow in self._flows:
            self._flows[flow].pop(step, None)
