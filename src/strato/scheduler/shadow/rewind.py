"""Undoes a plan in a world, so that another policy decides on the view the plan was decided on.

Runs in the child process, whose world is a copy of the scheduler's as of the fork.
"""

from __future__ import annotations

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PHASE_INQUEUE, PHASE_RUNNING, Job, Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.tasks import BINDING, PENDING, RELEASING


def rewind(world: World, plan: Plan, now: float) -> None:
    """Undo a plan's binds, evictions and enqueued jobs, as far as pods have not ended since.

    Args:
        world: Changed in place.
        plan: The last plan decided on it.
        now: Seconds since the epoch.
    """
    begun: dict[str, Job] = {}
    for bind in plan.binds:
        task = _current(world, bind.task)
        if task is not None and task.row >= 0 and ON_NODE[task.status]:
            if task.status != BINDING and task.job is not None:
                begun[task.job.key] = task.job
            world.move(task, PENDING)
            task.grants = None
    for eviction in plan.evictions:
        beneficiary = world.tasks.get(eviction.beneficiary)
        if beneficiary is not None and beneficiary.job is not None:
            world.eviction_rounds.undo(beneficiary.job.key)
        task = _current(world, eviction.task)
        if task is not None and task.status == RELEASING and world.evictions.awaits(task.key, task.uid):
            world.refuse_eviction(task.key, task.uid, now)
            world.evictions.refusals.pop(task.key, None)  # a refusal would spare the pod from the other policy
    for job in begun.values():
        if job.phase == PHASE_RUNNING and job.allocated_count < job.min_available:
            world.set_phase(job, PHASE_INQUEUE)  # it is Running by now, because its pods have started since
    for key, phase in plan.phases.items():
        if key in world.jobs:
            world.set_phase(world.jobs[key], phase)


def _current(world: World, task: Task) -> Task | None:
    """Return the current task of a pod, which `World` may have replaced since."""
    found = world.tasks.get(task.key)
    return found if found is not None and found.uid == task.uid else None
