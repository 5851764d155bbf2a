"""What is found out about one object, and how it reads."""

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
        text: The same as a sentence without the pod's name.
        hint: What to do about it.
        waits: Whether it is the scheduler's turn.
    """

    code: str
    text: str
    hint: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Why an object is as it is.

    Attributes:
        key: What it is about: ``job default/train``.
        state: Its phase.
        code: A word for a column; empty when all is as it should be.
        summary: The sentence with the reason.
        pods: What is said of each pod that is not as it should be.
        notes: Further sentences.
        hints: What to type or to change next.
        waits: Whether it is the scheduler's turn, so that the engine knows more.
        stuck: Whether ``summary`` is about pods that do not wait for the scheduler, though others do.
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
        """Return the command that asks about it."""
        kind, _, key = self.key.partition(" ")
        namespace, _, name = key.partition("/")
        return f"strato explain {kind}/{name}" + ("" if namespace == "default" else f" -n {namespace}")

    def details(self) -> list[str]:
        """Return the lines under the first one."""
        lines = counted(self.pods, "pod")
        if len(lines) == 1:
            lines = []  # the summary says it
        return [*(f"  {line}" for line in [*lines, *self.notes]), *(f"next: {hint}" for hint in self.hints)]

    def render(self) -> str:
        """Return the text a person reads."""
        return "\n".join([f"{self.key} ({self.state}): {self.summary}", *self.details()])

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, with the members that an answer of the engine has."""
        found = {"key": self.key, "state": self.state, "reason": self.code, "summary": self.summary, "verdicts": []}
        return {**found, "pods": dict(self.pods), "notes": list(self.notes), "next": list(self.hints)}
