"""Structured reasons why a node, task or job was rejected; conditions, events and explanations render these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for which a plugin (or the core) rejects a node or task.

    Attributes:
        plugin: Name of the plugin; ``core`` for the scheduler itself.
        text: The text users see, in the words of Kubernetes and Volcano.
        curable: Whether evicting pods may help (Unschedulable) or not (UnschedulableAndUnresolvable).
    """

    plugin: str
    text: str
    curable: bool = True


FULL = "the cluster is full"
TOO_SMALL = "the cluster is too small even when empty"
"""Beginnings of the texts for people whose cause is the cluster's size."""
QUEUE_SHARE = "QueueShare"
"""Code of the verdict that a queue has no share left for a pod; its text varies in the names of queue and pod only."""
INSUFFICIENT = "Insufficient {}"
POD_NUMBER_EXCEEDED = Reason("predicates", "node(s) pod number exceeded")
ALL_UNAVAILABLE = "all nodes are unavailable"
MOST_REASONS = 50
"""Most reasons in one message; the most frequent are chosen."""


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why one task class fits nowhere: number of nodes by reason.

    Attributes:
        nodes: How many nodes were tried.
        counts: Nodes by reason.
        note: The message instead of node counts, when the task was rejected before any node was tried.
        role: The task's role if it was not tried because another task of that role had fitted nowhere; else empty.
        domain: The HyperNode whose nodes were tried; empty when all were.
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
        if not self._text:  # built once, as a thousand waiting pods of one class share it
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
        # a thousand nodes may each have a taint of their own, and the text is written to every waiting pod's condition
        if len(by_text) > len(shown):
            rest = by_text.total() - sum(count for _, count in shown)
            parts.append(f"{rest} for {len(by_text) - len(shown)} other reasons")
        where = f"In hyperNode {self.domain}: " if self.domain else ""
        return f"{where}0/{self.nodes} nodes are unavailable: {', '.join(parts)}."


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job was not placed or enqueued, with the numbers that decided.

    Attributes:
        plugin: Name of the plugin that decided.
        code: Machine-readable: ``QueueShare``, ``Overcommit``, ``Gang``, ``NodeFit``, ….
        text: The sentence for people.
        numbers: The amounts that were compared, in internal units by name.
    """

    plugin: str
    code: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)
