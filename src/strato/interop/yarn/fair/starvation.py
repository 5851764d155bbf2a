"""Starvation: usage is below the fair share, or a queue's minimum, for longer than the timeouts (spec yarn A8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strato.interop.yarn.resources import (
    Amounts,
    Calculator,
    fits,
    is_zero,
    smallest,
    sub0,
    times,
)


@dataclass(frozen=True, slots=True)
class Starvation:
    """The amount that an application or queue is starved of, and when it was last satisfied."""

    lacking: Amounts
    """The missing amount; 0 while it is satisfied, or not starved for long enough."""
    satisfied_ms: float
    """When usage last reached the share."""


def below(calculator: Calculator, cluster: Amounts, usage: Amounts, share: Amounts) -> bool:
    """Return whether a usage is less than a share, compared by the dominant type alone."""
    return calculator.compare(cluster, usage, share, largest_only=True) < 0


def of_fair_share(
    usage: Amounts,
    demand: Amounts,
    fair_share: Amounts,
    *,
    threshold: float,
    timeout_ms: int,
    calculator: Calculator,
    cluster: Amounts,
    now_ms: float,
    satisfied_ms: float,
) -> Starvation:
    """Return an application's starvation: the difference to the threshold of its fair share."""
    due = smallest(times(fair_share, threshold), demand)
    starved = below(calculator, cluster, usage, due)
    since = satisfied_ms if starved else now_ms
    if not starved or now_ms - since < timeout_ms:
        return Starvation((0,) * len(usage), since)
    return Starvation(sub0(due, usage), since)


def of_min_share(
    usage: Amounts, demand: Amounts, min_share: Amounts, *, timeout_ms: int, now_ms: float, satisfied_ms: float
) -> Starvation:
    """Return a queue's starvation: the difference to its minimum, or to its demand if that is less."""
    lacking = sub0(smallest(min_share, demand), usage)
    since = now_ms if is_zero(lacking) else satisfied_ms
    if now_ms - since < timeout_ms:
        return Starvation((0,) * len(usage), since)
    return Starvation(lacking, since)


def spread_min_share(
    lacking: Amounts, unmet: Sequence[tuple[Amounts, Amounts]], calculator: Calculator, cluster: Amounts
) -> list[Amounts | None]:
    """Distribute a queue's starvation of its minimum over its applications, in their order.

    Args:
        lacking: The queue's starvation beyond that of its applications.
        unmet: Unmet demand and fair-share starvation of each application.
        calculator: The calculator of the queue's policy.
        cluster: Resources of the cluster.

    Returns: The amount for each application; None for those for which nothing is left. An application whose demand
        exceeds the rest gets the difference, not the rest, as in YARN.
    """
    out: list[Amounts | None] = []
    left = lacking
    for wanted, own in unmet:
        if is_zero(left):
            out.append(None)
            continue
        more = sub0(wanted, own)
        if calculator.compare(cluster, more, left) > 0:
            more, left = sub0(more, left), (0,) * len(left)
        else:
            left = sub0(left, more)
        out.append(more)
    return out


def keeps_fair_share(
    usage: Amounts, leaving: Amounts, container: Amounts, fair_share: Amounts, calculator: Calculator, cluster: Amounts
) -> bool:
    """Return whether an application keeps its fair share without a container and those that already leave it."""
    return not below(calculator, cluster, sub0(sub0(usage, leaving), container), fair_share)


def comes_after(one: Amounts, other: Amounts) -> bool:
    """Return whether the starvation ``one`` is served after ``other``, because no type of it is larger."""
    return fits(one, other)
