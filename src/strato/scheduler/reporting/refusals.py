"""The condition of a PodGroup that was not enqueued, with the reason for its owner.

The message contains what is stable between cycles (the request, the limit), not what is used at the moment: otherwise
the conditions of a long backlog would be written again whenever a pod starts or ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.plan import GroupCondition
from strato.scheduler.model.reasons import FULL, TOO_SMALL
from strato.scheduler.model.resources import PODS, to_text

_RESOURCE_CODES: Final = frozenset(("Overcommit", "QueueQuota"))


def refusal(ssn: PluginAnswers, job: Job) -> GroupCondition:
    """Return the condition of a group that enqueue refused, by the last verdict on it."""
    verdicts = ssn.note(job).verdicts
    text = verdicts[-1].text if verdicts else "a plugin does not admit it"
    code = verdicts[-1].code if verdicts else "NotEnoughResources"
    if code == "Overcommit" and job.min_resources is not None:
        large = any(job.min_resources[c] > ssn.total[c] for c in job.min_columns if c != PODS)
        text = f"{TOO_SMALL if large else FULL} ({text})"
    reason = "NotEnoughResources" if code in _RESOURCE_CODES else code
    parts = [f"not admitted to queue {job.queue_name}: {text}"]
    if job.min_resources is not None:
        asked, there = _text(job.min_resources.tolist(), job, ssn), _text(ssn.total.tolist(), job, ssn)
        parts.append(f"the group asks for {asked} in all, the cluster has {there}")
        parts += too_big(ssn, job)
    return GroupCondition("Unschedulable", "True", reason, "; ".join(parts))


def too_big(ssn: PluginAnswers, job: Job) -> list[str]:
    """Return which resources no empty node has enough of for the largest pod, which needs at least the mean."""
    nodes = ssn.world.nodes
    if job.min_resources is None or job.min_available <= 0 or not nodes.size:
        return []
    largest = nodes.allocatable[: nodes.size].max(axis=0)
    found = []
    for column in job.min_columns:
        name = ssn.world.dims.names[column]
        unit = 1000 if "/" in name else 1  # extended resources come whole
        mean = -(-int(job.min_resources[column]) // (job.min_available * unit)) * unit
        if column != PODS and mean > largest[column]:
            offered = to_text(name, int(largest[column]))
            needs = f"the largest pod needs {name} {to_text(name, mean)} at least, the most is {offered}"
            found.append(f"no node is large enough even when empty: {needs}")
    return found


def _text(amounts: Sequence[float], job: Job, ssn: PluginAnswers) -> str:
    names = ssn.world.dims.names
    return ", ".join(f"{names[c]} {to_text(names[c], amounts[c])}" for c in job.min_columns if c != PODS)
