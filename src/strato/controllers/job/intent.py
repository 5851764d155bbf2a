"""A restart is noted on its job before the first pod goes.

Pods are deleted one by one, and only then does the job's status count the try. A controller that dies in between leaves
a running job that lacks pods, which looks like one to be filled up again. The note says what was under way: whoever
comes next finishes it, so that no try is lost.
"""

from __future__ import annotations

from typing import Any

import msgspec

from strato.api.volcano.batch import Job
from strato.controllers.job.requests import Target
from strato.controllers.job.states import Operation, Procedure, restart
from strato.controllers.job.terms import RESTARTING, Phase

_ACTIVE = frozenset(("", Phase.PENDING, Phase.RUNNING))


class Intent(msgspec.Struct, frozen=True):
    """What was under way.

    Attributes:
        retry: ``status.retryCount`` once it is done; a note with another number is an old one.
        action: The action of the policy.
        target: The part of the job it is about.
    """

    retry: int
    action: str
    target: Target


def is_restart(operation: Operation) -> bool:
    """Whether an operation kills pods of an active job to start them again, which costs it a try."""
    return operation.transition is restart and operation.procedure is not Procedure.KILL_UNFINISHED


def note(job: Job, action: str, target: Target) -> dict[str, Any] | None:
    """Return the patch that notes a restart on its job; None when it is noted already."""
    intent = Intent(job.status.retry_count + 1, action, target)
    text = msgspec.json.encode(intent).decode()
    if job.metadata.annotation(RESTARTING) == text:
        return None
    return {"metadata": {"uid": job.metadata.uid, "annotations": {RESTARTING: text}}}


def unfinished(job: Job) -> Intent | None:
    """Return the restart that somebody began and did not finish."""
    text = job.metadata.annotation(RESTARTING)
    if not text or job.status.state.phase not in _ACTIVE:
        return None
    try:
        intent = msgspec.json.decode(text, type=Intent)
    except msgspec.DecodeError:
        return None  # anybody may write annotations
    return intent if intent.retry == job.status.retry_count + 1 else None
