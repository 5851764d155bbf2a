"""`Shadow`: evaluates a second policy in a scheduler's idle time, and publishes how its decisions differ."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from strato.client.cluster import Cluster
from strato.client.namespaces import ensure_namespace
from strato.clock import Clock, VirtualClock, cpu_timer
from strato.errors import ApiError, Forbidden, InvalidInput, Problem
from strato.filestamps import FileStamp
from strato.metrics import Registry
from strato.scheduler.cache.journal import NO_JOURNAL
from strato.scheduler.cache.world import World
from strato.scheduler.configfile import ConfigFile
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.plugins.extender import EXTENDER
from strato.scheduler.shadow.budget import Budget
from strato.scheduler.shadow.child import Child, ChildAnswer, ChildFailed, CopiedPages
from strato.scheduler.shadow.evaluation import Evaluation, decides, evaluate
from strato.scheduler.shadow.findings import Findings, Summary
from strato.scheduler.shadow.publishing import NAMESPACE, publish

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.02
"""Period of checking whether the scheduler is idle."""
_IDLE_SHARE: Final = 0.0025
"""Share of one CPU that a shadow may take in addition, so that a mostly idle scheduler's decisions are compared too."""
_PUBLISH_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 300.0
_BLANK_BYTES: Final = 64
"""A longer configuration file cannot be an empty one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowOptions:
    """How a shadow policy is run."""

    config: Config | Path
    """The shadow's configuration; a file is read again when it changes, and an empty file means no shadow."""
    share: float = 0.1
    """Largest ratio of the shadow's CPU to that of the scheduler's process. Below the 0.15 that a shadow may cost,
    which leaves room for costs that are not measured."""
    timeout_seconds: float = 30.0
    """An evaluation that takes longer is ended."""
    period_seconds: float = 1.0
    """Shortest time between two evaluations, and between two checks of the file."""


class Decisions(NamedTuple):
    """The scheduler's functions that its shadow calls."""

    is_idle: Callable[[], bool]
    """Whether no cycle is due, and every bind and eviction is written."""
    verdicts: Callable[[], Mapping[str, Sequence[Verdict]]]
    """By job key, why jobs wait."""
    seed: Callable[[], int]
    """Seed by which the policy in force chooses among equal nodes."""
    reconfigured: Callable[[], None]
    """Called when the shadow has another configuration, whose plugins may read kinds that are not watched yet."""


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size < _BLANK_BYTES and not path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return False  # reading it as a configuration reports the error


def check(config: Config) -> None:
    """Refuse a policy that cannot be a shadow.

    Raises:
        InvalidInput: It calls extenders, which may act on what they are asked.
    """
    if any(option.name == EXTENDER for tier in config.tiers for option in tier):
        text = "asks servers outside, which cannot know that nothing is applied; leave it out of a shadow policy"
        raise InvalidInput("the shadow policy", [Problem(f"plugin {EXTENDER}", text)])


class Shadow:
    """See the module. The scheduler calls `decided`; `run` is a task beside it.

    Args:
        options: How it is run.
        scheduler: Name of the scheduler.
        world: The scheduler's world; only copies of it are changed.
        decisions: The scheduler's functions.
    """

    def __init__(
        self,
        options: ShadowOptions,
        scheduler: str,
        world: World,
        decisions: Decisions,
        cluster: Cluster,
        clock: Clock,
        registry: Registry,
    ) -> None:
        self._options = options
        self._scheduler = scheduler
        self._world = world
        self._decisions = decisions
        self._cluster = cluster
        self._clock = clock
        self._path = options.config if isinstance(options.config, Path) else None
        self._source: ConfigFile | None = None
        self._tried: FileStamp | None = None
        self._budget = Budget(options.share)
        self._plan: tuple[Plan, float] | None = None
        self._last: tuple[Plan, float] | None = None
        self._decided = asyncio.Event()
        self._failures_in_a_row = 0
        self._copied = CopiedPages()
        self._published = Summary()
        self.findings = Findings(registry)
        try:
            self._source = self._read()
        except InvalidInput as error:  # a shadow must not keep the scheduler from its work
            self._refuse(error)

    def _read(self) -> ConfigFile | None:
        """Return where the configuration comes from; None while the file is empty.

        Raises:
            InvalidInput: It is bad.
        """
        if self._path is not None:
            self._tried = FileStamp.of(self._path)
            if _is_empty(self._path):
                return None
        source = ConfigFile(self._options.config)
        check(source.config)
        return source

    @property
    def config(self) -> Config | None:
        """The shadow's configuration; None while there is none."""
        return self._source.config if self._source is not None else None

    @property
    def plugin_names(self) -> frozenset[str]:
        """Names of the plugins it runs."""
        tiers = self._source.config.tiers if self._source is not None else ()
        return frozenset(option.name for tier in tiers for option in tier)

    @property
    def runs_flow(self) -> bool:
        """Whether it needs the kernels of the action `flow`."""
        return self._source is not None and "flow" in self._source.config.actions

    def decided(self, plan: Plan, now: float) -> None:
        """Note a plan that was decided at ``now`` and is being carried out; has no cost until the scheduler is idle.

        Later plans without decisions do not replace it, as they leave its decisions in place to compare.
        """
        self._last = plan, now
        if self._source is None:
            return
        if self._plan is not None:
            self.findings.skipped += 1
        if self._plan is None or decides(plan) or not decides(self._plan[0]):
            self._plan = self._last
        self._decided.set()

    async def run(self) -> None:
        """Run until cancelled; errors of the shadow policy do not end it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.evaluate_all(), name="shadow evaluations")
            group.create_task(self._publish_all(), name="shadow findings")
            if self._path is not None:
                group.create_task(self._reread_all(), name="shadow configuration")

    # -- evaluations ---------------------------------------------------------------------------------------------------

    async def evaluate_all(self) -> None:
        """Evaluate the last plan with decisions whenever the scheduler is idle, until cancelled."""
        while True:
            await self._decided.wait()
            await self._until_idle()
            self._decided.clear()
            plan, self._plan = self._plan, None
            if plan is not None and self.config is not None:
                await self.evaluate(self.config, *plan)
            await self._clock.sleep(self._pause_seconds())

    async def _until_idle(self) -> None:
        """Wait until the scheduler has nothing to do and the shadow's share of CPU allows a turn."""
        while True:
            if not self._decisions.is_idle():
                await self._clock.sleep(_LOOK_SECONDS)
                continue
            self._budget.worked(self._work_seconds())
            if self._in_virtual_time or self._budget.allows:
                return
            await self._clock.sleep(self._options.period_seconds)

    def _work_seconds(self) -> float:
        """Return the scheduler's CPU seconds, plus an allowance per second of wall time for an idle scheduler."""
        own = cpu_timer() - self.findings.fork_seconds
        return own + self._clock.monotonic() * _IDLE_SHARE / self._options.share

    async def evaluate(self, config: Config, plan: Plan, now: float) -> None:
        """Decide by the shadow, in a child, what the plan decided at ``now``, and record the differences."""
        limit = self._options.timeout_seconds
        child = Child(functools.partial(self._work, config, plan, now), limit, yields=not self._in_virtual_time)
        cost = child.fork_seconds + self._copied.forked()
        self.findings.fork_seconds += cost
        seconds = 0.0
        try:
            if self._in_virtual_time:
                answer: ChildAnswer = child.answer_at_once(limit)
            else:
                answer = await child.answer(limit)
            seconds = answer.cpu_seconds
            self.findings.take(msgspec.msgpack.decode(answer.body, type=Evaluation), self._clock.now())
            self._failures_in_a_row = 0
        except ChildFailed as error:
            seconds = error.seconds
            self._failures_in_a_row += 1
            self.findings.fail(error.kind, f"the shadow policy gave no answer: {error}")
            _log.warning(
                "shadow policy gave no answer: kind=%s failures=%d: %s", error.kind, self._failures_in_a_row, error
            )
        self.findings.cpu_seconds += seconds
        self._budget.spend(seconds + cost)

    def _work(self, config: Config, plan: Plan, now: float) -> bytes:
        """Run in the child, on its copy."""
        world, asked = self._world, self._decisions
        world.journal = NO_JOURNAL  # only decisions of the scheduler itself are recorded
        found = evaluate(world, plan, config, now=now, seed=asked.seed(), verdicts=asked.verdicts())
        return msgspec.msgpack.encode(found)

    def _pause_seconds(self) -> float:
        """Return how long to wait before the next evaluation: longer with each failure in a row."""
        pause = self._options.period_seconds * 2.0 ** min(self._failures_in_a_row, 20)
        return min(pause, _LONGEST_PAUSE_SECONDS)

    @property
    def _in_virtual_time(self) -> bool:
        return isinstance(self._clock, VirtualClock)

    # -- configuration and findings ------------------------------------------------------------------------------------

    async def _reread_all(self) -> None:
        while True:
            await self._clock.sleep(self._options.period_seconds)
            before = self.config
            try:
                found = await self._off_loop(self._reread)
            except InvalidInput as error:
                self._refuse(error)
                continue
            if isinstance(found, Config) and self._source is not None:
                self._source.config = found
            elif not isinstance(found, Config):
                self._source = found
            if self.config is not before:
                self._reconfigured()

    def _reread(self) -> ConfigFile | Config | None:
        """Return the new source of the configuration, or the changed configuration; may run in a thread.

        Raises:
            InvalidInput: It is bad.
        """
        source = self._source
        if self._path is not None and (source is None or _is_empty(self._path)):
            return self._read() if FileStamp.of(self._path) != self._tried else source
        config = source.reread() if source is not None else None
        if isinstance(config, InvalidInput):
            raise config
        if config is not None:
            check(config)
        return config or source

    def _refuse(self, error: InvalidInput) -> None:
        _log.error("shadow configuration not taken: %s", error)
        self.findings.problem = f"configuration not taken: {error}"

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """Run work that reads a disk in a thread; in virtual time run it here, to keep the order deterministic."""
        return work() if self._in_virtual_time else await asyncio.to_thread(work)

    def _reconfigured(self) -> None:
        self._failures_in_a_row = 0
        self._budget.start_over(self._work_seconds())
        self._copied = CopiedPages()
        self.findings.forget()
        self._decisions.reconfigured()
        self._plan = self._last
        self._decided.set()
        _log.info("shadow configuration reloaded: file=%s", self._path)

    async def _publish_all(self) -> None:
        await ensure_namespace(self._cluster, self._clock, NAMESPACE, _PUBLISH_SECONDS)
        while True:
            summary = self.summary()
            if _content(summary) != _content(self._published):
                await self._publish(summary)
            await self._clock.sleep(_PUBLISH_SECONDS)

    async def _publish(self, summary: Summary) -> None:
        try:
            await publish(self._cluster, summary)
        except Forbidden as error:
            _log.warning("findings of the shadow policy not published; allow to create and patch configmaps: %s", error)
        except ApiError as error:
            _log.warning("findings of the shadow policy not published yet: %s", error)
            return
        self._published = summary

    def summary(self) -> Summary:
        """Return the summary as published."""
        policy = str(self._path or "given") if self._source is not None else "none"
        return self.findings.summary(self._scheduler, policy, cpu_timer() - self.findings.fork_seconds)


def _content(summary: Summary) -> Summary:
    """Return the part of a summary whose changes are worth publishing it again."""
    return msgspec.structs.replace(summary, cpu_ratio=0.0, skipped=0)
