"""Who is starved: below the fair share, or the queue below its minimum, for longer than the timeouts (spec yarn A8)."""

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
    """What somebody lacks, and when it was last not so."""

    lacking: Amounts
    """Nothing while it is not starved, or not for long enough."""
    satisfied_ms: float
    """When it last had its share."""


def below(calculator: Calculator, cluster: Amounts, usage: Amounts, share: Amounts) -> bool:
    """Return whether a usage is less than a share, by the largest part alone."""
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
    """Return what an application lacks of the threshold of its fair share."""
    due = smallest(times(fair_share, threshold), demand)
    starved = below(calculator, cluster, usage, due)
    since = satisfied_ms if starved else now_ms
    if not starved or now_ms - since < timeout_ms:
        return Starvation((0,) * len(usage), since)
    return Starvation(sub0(due, usage), since)


def of_min_share(
    usage: Amounts, demand: Amounts, min_share: Amounts, *, timeout_ms: int, now_ms: float, satisfied_ms: float
) -> Starvation:
    """Return what a queue lacks of its minimum, as far as it demands it."""
    lacking = sub0(smallest(min_share, demand), usage)
    since = now_ms if is_zero(lacking) else satisfied_ms
    if now_ms - since < timeout_ms:
        return Starvation((0,) * len(usage), since)
    return Starvation(lacking, since)


def spread_min_share(
    lacking: Amounts, unmet: Sequence[tuple[Amounts, Amounts]], calculator: Calculator, cluster: Amounts
) -> list[Amounts | None]:
    """Spread what a queue lacks of its minimum over its applications, in their order.

    Args:
        lacking: What the queue lacks beyond the starvation of its applications.
        unmet: Per application its unmet demand and its own fair-share starvation.
        calculator: The policy's.
        cluster: What there is.

    Returns: What each is to get; None for those that nothing is left for. One that demands more than is left gets the
    difference, not what is left: that is what YARN does.
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
    """Return whether an application stays at its fair share without a container and all that leaves already."""
    return not below(calculator, cluster, sub0(sub0(usage, leaving), container), fair_share)


def comes_after(one: Amounts, other: Amounts) -> bool:
    """Return whether who lacks the one amount is served after who lacks the other: it is no more in any type."""
    return fits(one, other)
