"""`Session`: one cycle's view of the world, and what may be done in it (spec scheduler-core 9)."""

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
    """The work on one job, see `Session.isolated`; a class because it is entered for every job of a burst."""

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
        placer: Caches of the configuration, kept between sessions.

    Attributes:
        job_classes: Which jobs are the same to all plugins and actions, and which verdicts they were given.
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
        """Flags of the kernels that hold for whatever they place."""
        return kernels.LIMIT_PODS if any(plugin.limits_pods for plugin in self._asked("filter")) else 0

    def usable_rows(self, task: Task) -> Mask:
        """Return bool[rows known of the task's class]: nodes that filters allow whatever runs there."""
        return self.placer.known.of(self, task).mask

    def victims_in_order(self, victims: Sequence[Task], preemptor: Task) -> list[Task]:
        """Return victims, the one to evict first first."""
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
        """Run the work on one job: an error in it is noted on the job, undone, and costs no other job its turn."""
        return _Isolated(self, job, len(self._statements))

    def recover(self, before: int, where: str, error: Exception) -> None:
        """Undo the statements opened since there were ``before``, and bring the nodes' columns in step again."""
        self.guard.note("core", where, error)
        for stmt in reversed(self._statements[before:]):
            stmt.discard()
        del self._statements[before:]
        self.world.nodes.rebuild()
        self.placer.known.forget()

    def release(self) -> None:
        """End the session, with all that only it holds; nobody can ask it anything any more.

        It and its plugins hold one another: without this they stay until Python looks for garbage, of which there is
        much with every cycle, and looking through it took a sixth of a long simulation.
        """
        vars(self).clear()

    def let_in(self, job: Job) -> None:
        """Let a job into its queue."""
        self.plan.phases.setdefault(job.key, job.phase)
        self.plan.enqueued.append(job)
        self.world.set_phase(job, PHASE_INQUEUE)

    def dispatch(self, tasks: Sequence[Task]) -> None:
        """Bind tasks of one job that were placed by a statement which was left open."""
        if tasks:
            self.world.restatus(tasks, BINDING)
            self.plan.binds.extend(binds(tasks, self.world.nodes.names))
