"""When a job runs, succeeds or fails (spec training D). The leader is looked at first; the first verdict counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from strato.api.core import Pod
from strato.api.frameworks import WORKER
from strato.controllers.training import labels
from strato.controllers.training.draft import StatusDraft
from strato.controllers.training.events import exit_code


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict is decided from, besides the counters of the draft."""

    draft: StatusDraft
    pods: Sequence[Pod]
    replaced: Collection[str]
    """Roles with a failed pod that is being replaced."""

    def expected(self, role: str) -> int:
        """Return how many pods of a role have yet to succeed."""
        return self.draft.shape.count(role) - self.draft.count(role).succeeded


Judge = Callable[[Evidence], None]
"""Writes the verdict into the draft."""


def tensorflow(evidence: Evidence) -> None:
    """D1: a chief or master decides; without one the workers do. Any failed pod that stays fails the job."""
    draft, shape = evidence.draft, evidence.draft.shape
    decides = shape.leader or WORKER
    for role in shape.roles:
        count = draft.count(role)
        if role == decides:
            if evidence.expected(role) <= 0 or (not shape.leader and _first_worker_decides(evidence)):
                _succeed(draft)
            elif count.active > 0:
                _run(draft)
        if role not in shape.framework.roles or not count.failed:
            continue
        if role in evidence.replaced:
            _restart(draft, f"job {shape.name} is restarting because {role} replica(s) failed.")
        elif not (role == WORKER and shape.spec.enable_dynamic_worker):
            text = f"{draft.kind} {draft.qualified_name} has failed because {count.failed} {role} replica(s) failed."
            draft.finish("Failed", text)


def _first_worker_decides(evidence: Evidence) -> bool:
    return evidence.draft.shape.spec.success_policy != "AllWorkers" and first_worker_completed(evidence)


def first_worker_completed(evidence: Evidence) -> bool:
    """Return whether worker 0 has ended with exit code 0; True for a job without workers."""
    shape = evidence.draft.shape
    if WORKER not in shape.roles:
        return True
    return any(
        pod.status.phase == "Succeeded" and exit_code(shape.framework, pod) == 0
        for pod in evidence.pods
        if labels.role_of(shape, pod) == WORKER and labels.index_of(shape, pod) == 0
    )


def collective(evidence: Evidence) -> None:
    """D2: a master decides; without one all workers have to succeed, in an elastic job one of them."""
    draft, shape = evidence.draft, evidence.draft.shape
    decides = shape.leader or WORKER
    for role in shape.roles:
        count = draft.count(role)
        if role == decides:
            elastic = not shape.leader and shape.framework.first_success_ends and shape.spec.elastic_policy is not None
            if evidence.expected(role) <= 0 or (elastic and count.succeeded > 0):
                _succeed(draft)
                return
            if count.active > 0:
                _run(draft)
        if count.failed > 0 and shape.count(role) > count.succeeded + count.active:
            _fail_or_restart(draft, role, restarts=shape.restart_policy(role) != "Never")


def led(evidence: Evidence) -> None:
    """D3: the leader decides; a failed pod without an exit code fails the job."""
    draft, shape = evidence.draft, evidence.draft.shape
    for role in shape.roles:
        count = draft.count(role)
        if role == shape.leader:
            if count.active > 0 or evidence.expected(role) <= 0:
                _run(draft)
            if evidence.expected(role) <= 0:
                _succeed(draft)
                return
        if count.failed > 0:
            _run(draft)
            _fail_or_restart(draft, role, restarts=shape.restart_policy(role) == "ExitCode")


def _fail_or_restart(draft: StatusDraft, role: str, *, restarts: bool) -> None:
    failed = draft.count(role).failed
    because = f"because {failed} {role} replica(s) failed."
    if restarts:
        _restart(draft, f"{draft.kind} {draft.shape.name} is restarting {because}", "Warning")
    else:
        draft.finish("Failed", f"{draft.kind} {draft.shape.name} is failed {because}")


def _run(draft: StatusDraft) -> None:
    name = draft.shape.name if _led(draft) else draft.qualified_name
    draft.note("Running", "True", "Running", f"{draft.kind} {name} is running.")


def _restart(draft: StatusDraft, message: str, event: str = "") -> None:
    draft.note("Restarting", "True", "Restarting", message, event)


def _succeed(draft: StatusDraft) -> None:
    if _led(draft):
        text = f"{draft.kind} {draft.shape.name} is successfully completed."
    else:
        text = f"{draft.kind} {draft.qualified_name} successfully completed."
    draft.finish("Succeeded", text)


def _led(draft: StatusDraft) -> bool:
    """Return whether messages name the job without its namespace, as those of jobs with a master do."""
    return bool(draft.shape.leader) and not draft.shape.framework.names_are_qualified
