"""Why a group was not let into its queue, as the condition its owner reads.

The message holds what is stable between cycles (what is asked, what the limit is), not what is used just now: a long
backlog would otherwise be written again whenever anything started or ended.
"""

from __future__ import annotations

from typing import Final

from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.plan import Condition
from strato.scheduler.model.resources import PODS

_RESOURCE_CODES: Final = frozenset(("Overcommit", "QueueQuota"))


def refusal(ssn: PluginAnswers, job: Job) -> Condition:
    """Return the condition of a group that enqueue left waiting; the last verdict on it is the one that refused."""
    verdicts = ssn.note(job).verdicts
    text = verdicts[-1].text if verdicts else "a plugin does not admit it"
    code = verdicts[-1].code if verdicts else "NotEnoughResources"
    reason = "NotEnoughResources" if code in _RESOURCE_CODES else code
    parts = [f"not admitted to queue {job.queue_name}: {text}"]
    if job.min_resources is not None:
        asked = ssn.world.dims.to_wire(job.min_resources.tolist())
        parts.append(f"the group asks for {_text(asked, job, ssn)} in all, the cluster has {_total(job, ssn)}")
        parts += too_big(ssn, job)
    return Condition("Unschedulable", "True", reason, "; ".join(parts))


def too_big(ssn: PluginAnswers, job: Job) -> list[str]:
    """Say which resource no empty node has enough of for one pod; the largest pod needs at least the mean."""
    nodes = ssn.world.nodes
    if job.min_resources is None or job.min_available <= 0 or not nodes.size:
        return []
    largest = nodes.allocatable[: nodes.size].max(axis=0)
    dims, found = ssn.world.dims, []
    for column in job.min_columns:
        name = dims.names[column]
        unit = 1000 if "/" in name else 1  # extended resources come whole
        mean = -(-int(job.min_resources[column]) // (job.min_available * unit)) * unit
        if column != PODS and mean > largest[column]:
            need, most = dims.zeros(), dims.zeros()
            need[column], most[column] = mean, largest[column]
            wanted = dims.to_wire(need.tolist()).get(name, "0")
            offered = dims.to_wire(most.tolist()).get(name, "0")
            needs = f"the largest pod needs {name} {wanted} at least, the most is {offered}"
            found.append(f"no node is large enough even when empty: {needs}")
    return found


def _total(job: Job, ssn: PluginAnswers) -> str:
    return _text(ssn.world.dims.to_wire(ssn.total.tolist()), job, ssn)


def _text(amounts: dict[str, str], job: Job, ssn: PluginAnswers) -> str:
    names = [ssn.world.dims.names[c] for c in job.min_columns if c != PODS]
    return ", ".join(f"{name} {amounts.get(name, '0')}" for name in names)
