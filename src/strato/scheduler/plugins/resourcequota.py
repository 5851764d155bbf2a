"""resourcequota: let a job in when its minimum fits the namespace's ResourceQuotas (spec volcano-plugins 8)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from strato.api.quantity import milli
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, REJECT, Plugin
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import is_whole, to_text

Amounts = Mapping[str, int]
"""Thousandths by resource name as written."""


class ResourceQuota(Plugin):
    """Do not enqueue jobs whose pods the quota would refuse."""

    name = "resourcequota"
    job_facts = ("namespace", "minimum")

    def open(self, ssn: CycleContext) -> None:
        """Begin a session, in which no job was enqueued yet."""
        self._ssn = ssn
        self._pending: dict[str, dict[str, int]] = {}

    def job_enqueueable(self, job: Job) -> int:
        """Whether the job's minimum fits into what every quota of the namespace has left."""
        requested = _minimum(job)
        quotas = self._ssn.world.quotas.get(job.namespace)
        if requested is None or quotas is None:
            return PERMIT
        pending = self._pending.get(job.namespace, {})
        for quota in quotas.by_name.values():
            hard, used = amounts(quota.status.hard), amounts(quota.status.used)
            asked = {name: amount for name, amount in requested.items() if name in hard}
            if all(used.get(n, 0) + pending.get(n, 0) + amount <= hard[n] for n, amount in asked.items()):
                continue
            text = (
                f"resource quota insufficient: quota {quota.metadata.name}, requested: {_text(asked)}; "
                f"used: {_text({n: used.get(n, 0) for n in hard})}; limited: {_text(hard)}"
            )
            self._ssn.record_verdict(job, Verdict(self.name, "NamespaceQuota", text))
            return REJECT
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the job's minimum as pending in its namespace."""
        pending = self._pending.setdefault(job.namespace, {})
        for name, amount in (_minimum(job) or {}).items():
            pending[name] = pending.get(name, 0) + amount


def _minimum(job: Job) -> Amounts | None:
    given = job.group.spec.min_resources if job.group is not None else None
    return None if given is None else amounts(given)


def amounts(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    """Read a resource list in thousandths, whatever its names mean; what cannot be read is left out."""
    out = {}
    for name, text in resources.items():
        with suppress(ValueError):
            out[name] = milli(text)
    return out


def _text(amounts: Amounts) -> str:
    return ", ".join(f"{name} {_amount_text(name, amount)}" for name, amount in sorted(amounts.items()))


def _amount_text(name: str, thousandths: int) -> str:
    resource = name.removeprefix("requests.").removeprefix("limits.")
    return to_text(resource, thousandths / 1000 if is_whole(resource) else thousandths)
