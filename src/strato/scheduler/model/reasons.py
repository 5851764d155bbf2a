"""Structured reasons: why a node, a task or a job was turned down. Everything that explains renders these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reason:
    """One way in which a plugin (or the core) says no.

    Attributes:
        plugin: Who says so; ``core`` for the scheduler itself.
        text: The text users see, as Kubernetes and Volcano word them.
        curable: Whether evicting pods may cure it (Unschedulable); otherwise nothing done to pods helps
            (UnschedulableAndUnresolvable).
    """

    plugin: str
    text: str
    curable: bool = True


FULL = "the cluster is full"
TOO_SMALL = "the cluster is too small even when empty"
"""How texts for people begin that blame the cluster."""
QUEUE_SHARE = "QueueShare"
"""Code of the verdict that a queue has no share left for a pod; its text names queue and pod and nothing else."""
INSUFFICIENT = "Insufficient {}"
POD_NUMBER_EXCEEDED = Reason("predicates", "node(s) pod number exceeded")
ALL_UNAVAILABLE = "all nodes are unavailable"
MOST_REASONS = 50
"""Of reasons that one message names, the most frequent."""


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why one task class fits nowhere: number of nodes by reason.

    Attributes:
        nodes: How many nodes were looked at.
        counts: Nodes by reason.
        note: Said instead of node counts, when the task was turned down before any node was looked at.
        role: The role of the task, when another task of it was turned down before: this is why it was not tried.
        domain: The HyperNode whose nodes were looked at; empty when all were.
    """

    nodes: int = 0
    counts: Mapping[Reason, int] = field(default_factory=dict)
    note: str = ""
    plugin: str = "core"
    domain: str = ""
    role: str = ""
    _text: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def message(self, task: str) -> str:
        """Return why the task of that name fits nowhere: ``0/3 nodes are unavailable: 2 …, 1 ….``.

        Source: spec scheduler-core 7.4.
        """
        if self.role:
            return f"Task {task} with role spec {self.role} has already predicated failed, skip"
        if self.note:
            return self.note
        if not self._text:  # a thousand waiting pods of one class share this text
            self._text.append(self._message())
        return self._text[0]

    def _message(self) -> str:
        by_text: Counter[str] = Counter()
        for reason, count in self.counts.items():
            by_text[reason.text] += count
        shown = by_text.most_common(MOST_REASONS)
        parts = sorted(f"{count} {text}" for text, count in shown)
        if not parts:
            return ALL_UNAVAILABLE
        # each of a thousand nodes may have a taint of its own, and this stands in every waiting pod's condition
        if len(by_text) > len(shown):
            rest = by_text.total() - sum(count for _, count in shown)
            parts.append(f"{rest} for {len(by_text) - len(shown)} other reasons")
        where = f"In hyperNode {self.domain}: " if self.domain else ""
        return f"{where}0/{self.nodes} nodes are unavailable: {', '.join(parts)}."


@dataclass(frozen=True, slots=True)
class Verdict:
    """What held a job or queue back, with its numbers.

    Attributes:
        plugin: Who decided.
        code: Machine-readable: ``QueueShare``, ``Overcommit``, ``Gang``, ``NodeFit``, ….
        text: The sentence for people.
        numbers: What was compared, in internal units by name.
    """

    plugin: str
    code: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)
