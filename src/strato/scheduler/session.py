"""`Session`: one cycle's view of the world, and the operations actions use on it (spec scheduler-core 9)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property

from strato.scheduler.cache.domains import recover_domains
from strato.scheduler.cache.world import World
from strato.scheduler.framework.options import Config
from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import PHASE_INQUEUE, Job, Task
from strato.scheduler.model.nodes import Mask
from strato.scheduler.model.plan import binds
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.tasks import BINDING
from strato.scheduler.ordering.victims import in_order
from strato.scheduler.placement import kernels
from strato.scheduler.placement.placer import Placer
from strato.scheduler.reporting import diagnostics
from strato.scheduler.statement import Statement


class _Isolated:
    """Context manager of `Session.isolated`; a class, because a generator would cost more for every job of a burst."""

    __slots__ = ("_before", "_job", "_ssn")

    def __init__(self, ssn: Session, job: Job, before: int) -> None:
        self._ssn = ssn
        self._job = job
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        text = f"an error while scheduling it: {type(error).__name__}: {error}"
        self._ssn.recover(self._before, "job", error)
        self._ssn.record_verdict(self._job, Verdict("core", "Error", text))
        return True


class Session(PluginAnswers):
    """One cycle.

    Args:
        world, now, rng, uid: As for `CycleContext`.
        config: Plugins and actions.
        placer: Caches that sessions with the same configuration share.

    Attributes:
        job_classes: The job classes, each with the verdict it was given last.
    """

    def __init__(
        self, world: World, config: Config, placer: Placer, *, now: float, rng: random.Random, uid: str
    ) -> None:
        super().__init__(world, config, now=now, rng=rng, uid=uid)
        self.placer = placer
        self._statements: list[Statement] = []
        recover_domains(world)
        world.eviction_rounds.open()
        self.job_classes = placer.job_classes
        self.job_classes.open(world, config)
        self.open_plugins()

    @cached_property
    def kernel_flags(self) -> int:
        """Return the flags that every kernel call of this session gets."""
        return kernels.LIMIT_PODS if any(plugin.limits_pods for plugin in self._asked("filter")) else 0

    def usable_rows(self, task: Task) -> Mask:
        """Return bool[rows known of the task's class]: nodes that pass all filters that do not look at pods."""
        return self.placer.known.of(self, task).mask

    def victims_in_order(self, victims: Sequence[Task], preemptor: Task) -> list[Task]:
        """Return victims in the order in which to evict them."""
        return in_order(self, victims, preemptor)

    def fit_error(self, job: Job) -> str:
        """Return why a job does not fit, as worded in spec scheduler-core 7.4."""
        return diagnostics.fit_error(self, job)

    def statement(self) -> Statement:
        """Open a statement."""
        stmt = Statement(self)
        self._statements.append(stmt)
        return stmt

    def isolated(self, job: Job) -> _Isolated:
        """Run the work on one job; if it raises, undo it and record a verdict on the job, so that other jobs go on."""
        return _Isolated(self, job, len(self._statements))

    def recover(self, before: int, where: str, error: Exception) -> None:
        """Discard the statements opened after the first ``before``, and rebuild the nodes' columns from the tasks."""
        self.guard.note("core", where, error)
        for stmt in reversed(self._statements[before:]):
            stmt.discard()
        del self._statements[before:]
        self.world.nodes.rebuild()
        self.placer.known.forget()

    def release(self) -> None:
        """End the session and drop all its references; it cannot be used afterwards.

        Session and plugins refer to each other, so without this only Python's cycle collector could free them. With
        that much garbage in every cycle, collecting took a sixth of a long simulation's time.
        """
        vars(self).clear()

    def let_in(self, job: Job) -> None:
        """Enqueue a job: set its phase to Inqueue and record that in the plan."""
        self.plan.phases.setdefault(job.key, job.phase)
        self.plan.enqueued.append(job)
        self.world.set_phase(job, PHASE_INQUEUE)

    def dispatch(self, tasks: Sequence[Task]) -> None:
        """Bind tasks of one job that a statement has placed without being committed."""
        if tasks:
            self.world.restatus(tasks, BINDING)
            self.plan.binds.extend(binds(tasks, self.world.nodes.names))
