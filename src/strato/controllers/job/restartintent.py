"""A restart is noted on its job before the first pod is deleted.

Pods are deleted one by one, and only then does the job's status count the retry. A controller that dies in between
leaves a running job that lacks pods, which looks like one whose pods are to be created. By the note the next controller
finishes the restart, so that the retry is counted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from strato.api.volcano.batch import Job
from strato.controllers.job.requests import Target
from strato.controllers.job.states import Operation, Procedure, restart
from strato.controllers.job.terms import RESTARTING, Phase

_ACTIVE = frozenset(("", Phase.PENDING, Phase.RUNNING))


class RestartIntent(msgspec.Struct, frozen=True):
    """A restart that has begun.

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
    intent = RestartIntent(job.status.retry_count + 1, action, target)
    text = msgspec.json.encode(intent).decode()
    if job.metadata.annotation(RESTARTING) == text:
        return None
    return {"metadata": {"uid": job.metadata.uid, "annotations": {RESTARTING: text}}}


def unfinished(job: Job) -> RestartIntent | None:
    """Return the restart that was begun and not finished."""
    text = job.metadata.annotation(RESTARTING)
    if not text or job.status.state.phase not in _ACTIVE:
        return None
    try:
        intent = msgspec.json.decode(text, type=RestartIntent)
    except (msgspec.DecodeError, RecursionError):
        return None  # users may write annotations
    return intent if intent.retry == job.status.retry_count + 1 else None
