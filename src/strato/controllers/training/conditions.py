"""The list of conditions, in Kubeflow's order: the newest stands last (spec training C2)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from strato.api.kubeflow import TrainingCondition


class Conditions:
    """The conditions of a job while its status is decided.

    Args:
        conditions: The present conditions.
        now: The time for changed conditions, RFC 3339.
    """

    def __init__(self, conditions: Iterable[TrainingCondition], now: str) -> None:
        self._conditions = list(conditions)
        self._now = now

    def holds(self, type_: str) -> bool:
        """Return whether a condition is True."""
        return any(one.type == type_ and one.status == "True" for one in self._conditions)

    def has(self, type_: str) -> bool:
        """Return whether there is a condition of that type."""
        return any(one.type == type_ for one in self._conditions)

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended; its first verdict is final."""
        return self.holds("Succeeded") or self.holds("Failed")

    def set(self, type_: str, status: str, reason: str, message: str) -> bool:
        """Set one condition; returns whether that changed anything. Nothing changes after the end."""
        if self.is_finished:
            return False
        old = next((one for one in self._conditions if one.type == type_), None)
        if old is not None and (old.status, old.reason) == (status, reason):
            return False
        replaced = {type_, {"Restarting": "Running", "Running": "Restarting"}.get(type_, type_)}
        kept = [one for one in self._conditions if one.type not in replaced]
        if type_ in ("Failed", "Succeeded"):
            kept = [self._ended(one) if one.type == "Running" else one for one in kept]
        since = old.last_transition_time if old is not None and old.status == status else self._now
        new = TrainingCondition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            last_update_time=self._now,
            last_transition_time=since,
        )
        self._conditions = [*kept, new]
        return True

    def add_missing(self, type_: str, status: str, reason: str, message: str) -> None:
        """Append a condition that was never set, also after the end."""
        if not self.has(type_):
            new = TrainingCondition(
                type=type_,
                status=status,
                reason=reason,
                message=message,
                last_update_time=self._now,
                last_transition_time=self._now,
            )
            self._conditions.append(new)

    def _ended(self, running: TrainingCondition) -> TrainingCondition:
        if running.status == "False":
            return running
        return msgspec.structs.replace(
            running, status="False", last_update_time=self._now, last_transition_time=self._now
        )

    def to_tuple(self) -> tuple[TrainingCondition, ...]:
        """Return the conditions in the form of the status."""
        return tuple(self._conditions)
