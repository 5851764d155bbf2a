"""The scheduler's metrics, by Volcano's names (spec volcano-cli E1 and E2)."""

from __future__ import annotations

from collections.abc import Iterable

from strato.clock import parse_time
from strato.metrics import Registry
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.plan import Bind, Failure, Plan
from strato.scheduler.reporting.evictionrecords import EvictionRecord


def exponential(least: float, most: float, count: int) -> tuple[float, ...]:
    """Return bucket bounds from ``least`` to ``most``, each the same factor above the one before."""
    factor = (most / least) ** (1 / (count - 1))
    return tuple(least * factor**i for i in range(count))


class Measures:
    """Counters and histograms of one scheduler."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._read = "", 0.0
        """The creation time that was parsed last, as text and in seconds since the epoch."""
        self._cycle = registry.histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "Whole session", exponential(1, 5000, 20)
        )
        self._open = registry.histogram(
            "volcano_open_session_duration_milliseconds", "Snapshot and open", exponential(1, 5000, 20)
        )
        self._action = registry.histograms(
            "volcano_action_scheduling_latency_milliseconds", "Per action", ("action",), exponential(1, 2000, 20)
        )
        self._plugin = registry.histograms(
            "volcano_plugin_scheduling_latency_milliseconds",
            "Opening and closing a plugin",
            ("plugin", "OnSession"),
            exponential(0.1, 100, 15),
        )
        self._job = registry.histogram(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            "Job creation to the last of its pods decided",
            exponential(100, 120000, 30),
        )
        self._assumed, self._prepared, self._bound = registry.histograms_of(
            "volcano_task_scheduling_latency_milliseconds",
            "Pod creation to stage",
            "stage",
            ("Assumed", "PreBound", "Bound"),
            exponential(50, 60000, 30),
        )
        self._stages = dict(
            zip(
                ("PreBind", "Bind"),
                registry.histograms_of(
                    "volcano_scheduling_stage_duration_milliseconds",
                    "Duration of a stage for one pod",
                    "stage",
                    ("PreBind", "Bind"),
                    exponential(0.1, 500, 20),
                ),
                strict=True,
            )
        )
        self._attempts = registry.counter("volcano_schedule_attempts", "Pods decided, by result", ("result",))
        self._placed = self._attempts.labels("scheduled")
        self._unplaced = self._attempts.labels("unschedulable")
        self._jobs = registry.gauge("volcano_unschedule_job_count", "Jobs that wait for room")
        self._evictions = registry.counter(
            "volcano_eviction_transactions", "Committed eviction transactions", ("action",)
        )
        self._failures = registry.counter(
            "strato_plugin_failures", "Errors of plugins, which were left out of the cycle", ("plugin", "point")
        )
        self._outcomes = registry.counter(
            "strato_eviction_outcomes", "Evictions by what became of the pod they were for", ("action", "outcome")
        )
        self._preemptions = registry.counter("volcano_total_preemption_attempts", "Cycles that evicted anybody")
        self._victims = registry.gauge("volcano_pod_preemption_victims", "Victims of the last cycle that had any")

    def took(self, part: str, name: str, seconds: float) -> None:
        """Note how long a part of a cycle took; fits `strato.scheduler.cycle.Observe`."""
        if part == "action":
            self._action.of(name).observe(seconds * 1000)
        elif part == "session":
            self._open.observe(seconds * 1000)
        else:
            self._plugin.of(name, part).observe(seconds * 1000)

    def decided(self, binds: Iterable[Bind], now: float) -> None:
        """Note which pods got a node, and which jobs have all of theirs."""
        jobs: dict[str, Job] = {}
        for bind in binds:
            task = bind.task
            created = task.pod.metadata.creation_timestamp
            if created:
                self._assumed.observe(self._since(created, now))
            if task.job is not None and not task.job.pending:
                jobs[task.job.key] = task.job
        for job in jobs.values():
            if job.created:
                self._job.observe(self._since(job.created, now))

    def staged(self, task: Task, stage: str, seconds: float, now: float) -> None:
        """Note how long a stage (``PreBind``, ``Bind``) of a pod took."""
        self._stages[stage].observe(seconds * 1000)
        created = task.pod.metadata.creation_timestamp
        if created:
            reached = self._bound if stage == "Bind" else self._prepared
            reached.observe(self._since(created, now))

    def _since(self, created: str, now: float) -> float:
        """Return milliseconds since a time as text; the last one is cached, as pods of a burst have the same."""
        if created != self._read[0]:
            self._read = created, parse_time(created)
        return max(0.0, now - self._read[1]) * 1000

    def settled(self, entry: EvictionRecord) -> None:
        """Count an eviction by its outcome."""
        self._outcomes.labels(entry.action, entry.outcome).inc()

    def cycle(self, plan: Plan, world: World, seconds: float) -> None:
        """Note a cycle's outcome."""
        self._cycle.observe(seconds * 1000)
        if plan.binds:
            self._placed.inc(len(plan.binds))
        if plan.pods or plan.quiet_pods:
            self._unplaced.inc(len(plan.pods) + plan.quiet_pods)
        self._jobs.set(len(world.with_pending))
        if plan.evictions:
            self._victims.set(len(plan.evictions))
            self._preemptions.inc()
            for action in {e.action for e in plan.evictions}:
                self._evictions.labels(action).inc()

    def failed(self, failure: Failure) -> None:
        """Count an error of a plugin."""
        self._failures.labels(failure.plugin, failure.point).inc()
