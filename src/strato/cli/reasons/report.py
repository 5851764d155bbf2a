"""The report on one object, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strato.api.counted import counted


@dataclass(frozen=True, slots=True)
class StateReason:
    """Why a pod is as it is.

    Attributes:
        code: A word for a column: ``exit code 3``, ``OOMKilled``; empty when all is as it should be.
        text: The reason as a sentence whose subject is "it", without the pod's name.
        hint: What to do about it.
        waits: Whether the pod waits to be scheduled.
    """

    code: str
    text: str
    hint: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class ReasonReport:
    """Why an object is as it is.

    Attributes:
        key: Kind, namespace and name of the object: ``job default/train``.
        state: Its phase.
        code: A word for a column; empty when all is as it should be.
        summary: The sentence with the reason.
        pods: The reason of each pod that failed, cannot start or waits, by the pod's name.
        notes: Further sentences.
        hints: Commands to type or changes to make next.
        waits: Whether the object waits to be scheduled, so that the scheduler's engine can explain more.
        stuck: Whether ``summary`` is about pods that have been scheduled and cannot start, while others wait to be.
    """

    key: str
    state: str
    code: str
    summary: str
    pods: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    hints: Sequence[str] = ()
    waits: bool = False
    stuck: bool = False

    @property
    def question(self) -> str:
        """Return the command that explains the object."""
        kind, _, key = self.key.partition(" ")
        namespace, _, name = key.partition("/")
        return f"strato explain {kind}/{name}" + ("" if namespace == "default" else f" -n {namespace}")

    def details(self) -> list[str]:
        """Return the lines under the first one."""
        lines = counted(self.pods, "pod")
        if len(lines) == 1:
            lines = []  # the summary holds the only pod's reason
        return [*(f"  {line}" for line in [*lines, *self.notes]), *(f"next: {hint}" for hint in self.hints)]

    def render(self) -> str:
        """Return the text a person reads."""
        return "\n".join([f"{self.key} ({self.state}): {self.summary}", *self.details()])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, with the same members as a `Diagnosis` of the engine."""
        found = {"key": self.key, "state": self.state, "reason": self.code, "summary": self.summary, "verdicts": []}
        return {**found, "pods": dict(self.pods), "notes": list(self.notes), "next": list(self.hints)}
