"""`advise`: gives the recorded rows to `strato.advice.roles`. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from strato.advice import roles
from strato.advice.estimators import Amounts
from strato.advice.roles import ReplicaUse, RoleAdvice, RoleKey
from strato.history.rows import JobRun, PodContainer


def advise(
    runs: Iterable[JobRun],
    replicas: Iterable[PodContainer],
    policy: str,
    now: float,
    *,
    queue: str = "",
    namespace: str = "",
    job: str = "",
) -> list[RoleAdvice]:
    """Return advice for every role with samples, in the order of queues, jobs and roles.

    Args:
        runs: The recorded runs.
        replicas: The replicas of these runs.
        policy: ``vpa`` or ``autopilot``.
        now: The present instant.
        queue: Name of the only queue to take; empty takes all.
        namespace: Name of the only namespace to take; empty takes all.
        job: Name of the only job or template to take; empty takes all.
    """
    known = {
        run.run_id: run
        for run in runs
        if (not queue or run.queue == queue)
        and (not namespace or run.namespace == namespace)
        and (not job or job in (run.job, run.template))
    }
    members: dict[RoleKey, list[PodContainer]] = defaultdict(list)
    for one in replicas:
        run = known.get(one.run_id)
        if run is not None and one.seen and one.started is not None:
            members[RoleKey(run.queue, run.namespace, run.template, one.role, one.container)].append(one)
    return [
        roles.advise(key, [_use(one) for one in found], policy, max(one.containers for one in found), now)
        for key, found in sorted(members.items())
    ]


def _use(one: PodContainer) -> ReplicaUse:
    assert one.started is not None
    until = one.ended if one.ended is not None else one.seen
    return ReplicaUse(
        run=one.run_id,
        index=one.index,
        requests=Amounts(one.cpu_req, one.mem_req),
        ended=one.seen,
        seconds=max(until - one.started, 0.0),
        cpu_samples=one.cpu_samples,
        cpu_core_seconds=one.cpu_core_s,
        memory_peak_bytes=one.mem_peak,
        ooms=one.oom,
        throttled_samples=one.throttled,
    )
