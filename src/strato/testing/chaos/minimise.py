"""Minimise a failing run: leave out users' steps and faults as long as the same rule is broken first.

Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), the algorithm ddmin, over the
steps and faults of a plan together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from strato.testing.chaos.plan import ChaosPlan, PlannedFault, UserRequest
from strato.testing.chaos.run import ChaosResult, play

T = TypeVar("T")

MOST_RUNS: Final = 150
"""Most runs for minimising; the smallest failing plan so far is then returned."""
_Event = UserRequest | PlannedFault


def minimise(
    outcome: ChaosResult, *, most_runs: int = MOST_RUNS, run: Callable[[ChaosPlan], ChaosResult] = play
) -> ChaosResult:
    """Return a smaller run whose first finding is of the same rule; the run itself if it has no findings.

    Steps of the first instant stay, as other steps refer to the objects that they create, and would be refused for ever
    without these.
    """
    if not outcome.findings:
        return outcome
    rule, best = outcome.findings[0].rule, outcome
    left = most_runs

    def fails(events: Sequence[_Event]) -> bool:
        nonlocal best, left
        if left <= 0:
            return False
        left -= 1
        tried = run(with_events(outcome.plan, [*kept, *events]))
        if tried.findings and tried.findings[0].rule == rule:
            best = tried
            return True
        return False

    steps = outcome.plan.steps
    kept = [step for step in steps if step.at == 0]
    events: list[_Event] = [*(step for step in steps if step.at > 0), *outcome.plan.faults]
    smallest(events, fails)
    return best


def with_events(plan: ChaosPlan, events: Sequence[_Event]) -> ChaosPlan:
    """Return a plan reduced to these steps and faults."""
    steps = [event for event in events if isinstance(event, UserRequest)]
    faults = [event for event in events if isinstance(event, PlannedFault)]
    return msgspec.structs.replace(plan, steps=steps, faults=faults)


def smallest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return a minimal failing subset of ``items``, which must fail themselves."""
    parts = 2
    while len(items) >= 1:
        size = max(1, len(items) // parts)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        for number in range(len(chunks)):
            rest = [item for other, chunk in enumerate(chunks) if other != number for item in chunk]
            if fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(items))
    return items
