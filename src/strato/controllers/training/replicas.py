"""The pods of a job by role and index: how they are counted, and which are replaced (spec training B2, C1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from strato.api.core import Pod
from strato.api.frameworks import JobShape
from strato.api.kubeflow import ReplacedPods, ReplicaStatus
from strato.controllers.training import labels
from strato.controllers.training.draft import StatusDraft
from strato.controllers.training.events import exit_code

UNKNOWN_EXIT_CODE = 48879
"""Exit code assumed for a failed pod without a status of its training container (evicted, or on a lost node); it is
retryable."""
_FIRST_RETRYABLE = 128

Slots = Mapping[int, Sequence[Pod]]
"""The pods of a role by index."""


def is_retryable(code: int) -> bool:
    """Return whether a pod with this exit code is replaced: after a signal it is, after a code of the program not."""
    return code >= _FIRST_RETRYABLE


def slots_of(pods: Sequence[Pod], shape: JobShape, role: str) -> Slots:
    """Return the pods of a role by index; pods without an index are ignored."""
    slots: dict[int, list[Pod]] = {}
    for pod in pods:
        if labels.role_of(shape, pod) == role and (index := labels.index_of(shape, pod)) is not None:
            slots.setdefault(index, []).append(pod)
    return dict(sorted(slots.items()))


def counted(slots: Slots, terminating: Collection[str]) -> ReplicaStatus:
    """Count pods by phase; a terminating running pod counts as failed, pending pods do not count."""
    active = succeeded = failed = 0
    for pod in (pod for pods in slots.values() for pod in pods):
        phase = pod.status.phase
        succeeded += phase == "Succeeded"
        is_going = pod.metadata.deletion_timestamp is not None or pod.metadata.uid in terminating
        failed += phase == "Failed" or (phase == "Running" and is_going)
        active += phase == "Running" and not is_going
    return ReplicaStatus(active=active, succeeded=succeeded, failed=failed)


def remembered(old: ReplicaStatus, slots: Slots, replicas: int) -> tuple[int, ...]:
    """Return the indexes that have succeeded, including those whose pods are gone."""
    done = {index for index, pods in slots.items() if any(pod.status.phase == "Succeeded" for pod in pods)}
    return tuple(sorted(index for index in {*old.succeeded_indexes, *done} if index < replicas))


def replace_failed(draft: StatusDraft, role: str, slots: Slots) -> Iterator[Pod]:
    """Yield the failed pods of a role that are to be replaced; a permanent failure ends the job.

    Each failed pod is counted once, however long its deletion takes.
    """
    shape = draft.shape
    policy = shape.restart_policy(role)
    for pod in (pod for pods in slots.values() for pod in pods if pod.status.phase == "Failed"):
        code = exit_code(shape.framework, pod)
        if policy == "ExitCode" and not is_retryable(UNKNOWN_EXIT_CODE if code is None else code):
            draft.finish("Failed", f'job "{shape.name}" is failing because "{role}" replica(s) failed.', "Warning")
        elif policy in ("Always", "OnFailure", "ExitCode"):
            is_new = pod.metadata.uid not in draft.replaced.uids
            if is_new:
                uids = (*draft.replaced.uids, pod.metadata.uid)
                draft.replaced = ReplacedPods(count=draft.replaced.count + 1, uids=uids)
            text = f"job {shape.name} is restarting because {role} replica(s) failed."
            draft.note("Restarting", "True", "Restarting", text, "Warning" if is_new else "")
            yield pod
