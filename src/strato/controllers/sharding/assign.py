"""Which scheduler gets which nodes, and whether that is worth a write. Pure.

Source: volcano-controllers Part I, Assignment and Sync.
"""

from __future__ import annotations

from collections.abc import Sequence

from strato.controllers.sharding.policies import NodeMetrics
from strato.controllers.sharding.settings import SchedulerShare


def assign(shares: Sequence[SchedulerShare], nodes: Sequence[NodeMetrics]) -> dict[str, list[str]]:
    """Give every node to at most one scheduler, in the order of the configuration; returns sorted names.

    The limits of a scheduler apply to all nodes; Volcano applies them to each batch of fifty nodes anew.
    """
    free = list(nodes)
    given: dict[str, list[str]] = {}
    for share in shares:
        chosen: Sequence[NodeMetrics] = [node for node in free if all(policy.passes(node) for policy in share.policies)]
        scorers = [policy for policy in share.policies if policy.scores]
        if scorers:
            chosen = sorted(chosen, key=lambda node: -sum(p.weight * p.score(node) for p in scorers))
        for policy in share.policies:
            chosen = policy.select(chosen)
        taken = {node.name for node in chosen}
        given[share.name] = sorted(taken)
        free = [node for node in free if node.name not in taken]
    return given


def is_worth_writing(present: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether a shard changed enough: in number, or by a tenth of its nodes."""
    if len(present) != len(wanted):
        return True
    added = len(set(wanted) - set(present))
    return added > 0 and added >= max(1, len(wanted) // 10)
