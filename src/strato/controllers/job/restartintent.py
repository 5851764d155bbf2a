"""An annotation that records a restart on its job before the first pod is deleted.

The controller deletes the pods one by one, and only then counts the retry in the job's status. A controller that dies
in between leaves a running job that lacks pods; the next controller would just create them. The annotation tells it to
finish the restart, so that the retry is counted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from strato.api.volcano.batch import Job
from strato.controllers.job.requests import Target
from strato.controllers.job.states import PlannedProcedure, Procedure, restart
from strato.controllers.job.terms import RESTARTING, Phase
from strato.decoding import UNDECODABLE

_ACTIVE = frozenset(("", Phase.PENDING, Phase.RUNNING))


class RestartIntent(msgspec.Struct, frozen=True):
    """A restart that has begun.

    Attributes:
        retry: ``status.retryCount`` after the restart; an annotation with another number belongs to an earlier restart.
        action: The action of the policy.
        target: The part of the job that is restarted.
    """

    retry: int
    action: str
    target: Target


def is_restart(operation: PlannedProcedure) -> bool:
    """Whether an operation kills pods of an active job to start them again, which uses one of its retries."""
    return operation.transition is restart and operation.procedure is not Procedure.KILL_UNFINISHED


def note(job: Job, action: str, target: Target) -> dict[str, Any] | None:
    """Return the patch that annotates a job with a restart; None when the annotation is there already."""
    intent = RestartIntent(job.status.retry_count + 1, action, target)
    text = msgspec.json.encode(intent).decode()
    if job.metadata.annotation(RESTARTING) == text:
        return None
    return {"metadata": {"uid": job.metadata.uid, "annotations": {RESTARTING: text}}}


def unfinished(job: Job) -> RestartIntent | None:
    """Return the restart that was begun and not finished, None if there is none."""
    text = job.metadata.annotation(RESTARTING)
    if not text or job.status.state.phase not in _ACTIVE:
        return None
    try:
        intent = msgspec.json.decode(text, type=RestartIntent)
    except UNDECODABLE:
        return None  # users may write annotations too, with any content
    return intent if intent.retry == job.status.retry_count + 1 else None
