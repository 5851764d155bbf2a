"""One cycle as a function: a world in, a plan out. The scheduler, the dry run and the tests all call this."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter

from strato.scheduler.cache.world import World
from strato.scheduler.framework.options import Config
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.tasks import ALLOCATED, PENDING, PIPELINED
from strato.scheduler.optimal.action import Flow
from strato.scheduler.placement.placer import Placer
from strato.scheduler.registry import ACTIONS
from strato.scheduler.reporting.status import close_session, settle_groups
from strato.scheduler.session import Session

Observe = Callable[[str, str, float], None]
"""Called with ("action" or "session", name, seconds) or ("OnSessionOpen" or "OnSessionClose", plugin, seconds); for
metrics only, never for a decision."""


def run_cycle(
    world: World,
    config: Config,
    *,
    now: float,
    rng: random.Random,
    uid: str = "",
    placer: Placer | None = None,
    observe: Observe | None = None,
    of_queues: bool = True,
) -> Plan:
    """Decide one cycle.

    Depends on its arguments only, and does no I/O. It changes the world in place to what the plan says: bound tasks
    are Binding, evicted ones Releasing, enqueued groups Inqueue. Changes that did not make it into the plan are undone.

    Args:
        world: The scheduler's view of the cluster.
        config: Plugins and actions.
        now: Seconds since the epoch, for plugins that look at time.
        rng: Decides what the specification leaves to chance.
        uid: Identity of the session.
        placer: Caches from earlier cycles with the same configuration and world; made when absent.
        observe: Called with the duration of each action and plugin call.
        of_queues: Whether the plan contains the statuses of queues.
    """
    ssn = decide(world, config, now=now, rng=rng, uid=uid, placer=placer or Placer(world.nodes), observe=observe)
    ssn.reports_queues = of_queues
    for plugin in ssn.plugins:
        began = perf_counter()
        if type(plugin).close is not Plugin.close:
            ssn.guard.call(plugin, "close", ssn)
        if observe is not None:
            observe("OnSessionClose", plugin.name, perf_counter() - began)
    close_session(ssn, ssn.job_classes, of_queues=of_queues)
    _undo_promises(ssn)
    if ssn.plan.failures:
        ssn.placer.known.forget()  # its answers lack those of the plugin that failed
        ssn.job_classes.forget()
    plan = ssn.plan
    ssn.release()
    return plan


def has_nothing_pending(world: World) -> bool:
    """Whether no task or job waits for a decision and no plugin remembers past use.

    A cycle can then only change statuses, provided that its configuration only serves waiting jobs
    (`Config.serves_waiting`).
    """
    return not (world.with_pending or world.waiting_for_queue or world.usage_averages)


def settle(world: World, placer: Placer) -> Plan:
    """Decide a cycle that can only change statuses (see `has_nothing_pending`); the plan has PodGroups' alone."""
    plan = Plan()
    settle_groups(world, placer.job_classes, plan)
    return plan


def decide(
    world: World,
    config: Config,
    *,
    now: float,
    rng: random.Random,
    uid: str,
    placer: Placer,
    observe: Observe | None = None,
) -> Session:
    """Open a session and run the actions; leave the session open, with its pipelined tasks in place.

    Use `run_cycle`; this half of it is separate for tests that look at a session before it is closed.
    """
    started = perf_counter()
    ssn = Session(world, config, placer, now=now, rng=rng, uid=uid)
    if observe is not None:
        observe("session", "open", perf_counter() - started)
        for plugin, seconds in ssn.opened:
            observe("OnSessionOpen", plugin, seconds)
    for name in config.actions:
        began = perf_counter()
        try:
            if name == "allocate" and world.for_flow and "flow" not in config.actions:
                Flow().place_by_flow(ssn, only=world.for_flow)
            ACTIONS[name](config.action_args.get(name)).execute(ssn)
        except Exception as error:  # a bug in an action must not stop scheduling; `recover` logs and reports it
            ssn.recover(0, f"action {name}", error)
        if observe is not None:
            observe("action", name, perf_counter() - began)
    ssn.job_classes.report(ssn)
    return ssn


def _undo_promises(ssn: Session) -> None:
    """Set tasks that are still Pipelined or Allocated to Pending again; record the pipelined ones in the plan."""
    names = ssn.world.nodes.names
    for task in reversed(ssn.temporary):
        if task.status == PIPELINED:
            ssn.plan.pipelined[task.key] = names[task.row]
            ssn.world.move(task, PENDING)
        elif task.status == ALLOCATED:
            ssn.world.move(task, PENDING)
