"""Why an action is done to a job, as ``status.state`` says it to users. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from strato.api.volcano.bus import Command
from strato.controllers.job.requests import Request
from strato.controllers.job.terms import JobEvent, Phase

_ACTED: Final = frozenset({Phase.ABORTING, Phase.TERMINATING, Phase.COMPLETING, Phase.RESTARTING})
"""Phases that an action leads to, so that the action's cause explains them."""


class Cause(NamedTuple):
    """A reason in one word and a message."""

    reason: str
    message: str

    def explains(self, phase: str) -> bool:
        """Whether this cause explains why a job has entered a phase."""
        return bool(self.reason) and phase in _ACTED


UNCAUSED: Final = Cause("", "")


def of_command(command: Command) -> Cause:
    """Return the cause of an action that a command asked for, with the message that its issuer may have given."""
    return Cause("CommandIssued", f"command {command.action}" + (f", {command.message}" if command.message else ""))


def of_policy(action: str, request: Request) -> Cause:
    """Return the cause of an action that a policy asks for."""
    event = request.event or "ExitCode"
    return Cause(event, f"policy {event} → {action}: {_what_happened(request)}")


def of_failures(attempts: int, error: Exception) -> Cause:
    """Return the cause of giving a job up."""
    return Cause("RetryLimitReached", f"the controller gave it up after {attempts} attempts: {error}")


def _what_happened(request: Request) -> str:
    pod, task = f"pod {request.pod}", f"task {request.task}"
    match request.event:
        case JobEvent.POD_FAILED if request.exit_code:
            return f"{pod} failed with exit code {request.exit_code}"
        case JobEvent.POD_FAILED:
            return f"{pod} failed"
        case JobEvent.POD_EVICTED:
            return f"{pod} was evicted or deleted"
        case JobEvent.POD_PENDING:
            return f"{pod} did not start in time"
        case JobEvent.TASK_COMPLETED:
            return f"{task} has completed"
        case JobEvent.TASK_FAILED:
            return f"containers of {task} restarted too often"
        case JobEvent.UNKNOWN:
            return "some of its pods run and others cannot be scheduled"
    return f"{pod} of {task}" if request.pod else "it was met"
