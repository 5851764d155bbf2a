"""The agent's metrics, ``strato_agent_*``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strato.agent.events import RESTORED, STILL_OVERLOADED, SUPPRESSED, Action, ActionKind, HostEvent
from strato.metrics import Registry

_PREFIX = "strato_agent_"


class AgentMetrics:
    """The metrics of one node's agent."""

    def __init__(self, registry: Registry, node: str) -> None:
        self._node = node
        self._suppressed = registry.gauge(
            f"{_PREFIX}suppressed_cores", "Cores below the limits they had, by priority", ("node", "priority")
        )
        self._cpu = registry.gauge(f"{_PREFIX}host_cpu_utilisation", "CPU in use, as a fraction", ("node",))
        self._memory = registry.gauge(f"{_PREFIX}host_memory_utilisation", "Memory in use, as a fraction", ("node",))
        self.suppressions = registry.counter(f"{_PREFIX}suppressions_total", "Containers that were cut")
        self.released = registry.counter(f"{_PREFIX}released_total", "Containers that were given CPU back")
        self._burst = registry.gauge(f"{_PREFIX}burst_cores", "Cores above the limits that are asked for")
        self._unmet = registry.gauge(f"{_PREFIX}unmet_cores", "Cores that should be freed and cannot be cut")
        self._rewrites = registry.counter(f"{_PREFIX}quota_rewrites_total", "Quotas that somebody else had written")
        self._errors = registry.counter(f"{_PREFIX}handler_errors_total", "Handlers skipped because they raised")
        self._calls = registry.counter(f"{_PREFIX}traffic_calls_total", "Calls to the load balancer", ("code",))
        self.round_seconds = registry.gauge(f"{_PREFIX}round_seconds", "How long the last decision took")
        self.cordoned = registry.gauge(f"{_PREFIX}cordoned", "Whether the agent keeps new pods off the node")
        self._counted: dict[str, int] = {}
        self._priorities: set[int] = set()

    def count_round(
        self, host: HostEvent, actions: Iterable[Action], rewrites: int, errors: int, codes: Mapping[str, int]
    ) -> None:
        """Record a round: the host's utilisation, the actions, and the totals so far."""
        self._cpu.labels(self._node).set(host.cpu)
        self._memory.labels(self._node).set(host.memory)
        cut: dict[int, float] = dict.fromkeys(self._priorities, 0.0)
        for one in host.containers:
            if one.suppression is not None:
                origin = one.suppression.from_milli or one.suppression.used_milli
                cores = max(0, origin - one.suppression.to_milli) / 1000
                cut[one.priority] = cut.get(one.priority, 0.0) + cores
        self._priorities |= cut.keys()
        for priority, cores in cut.items():
            self._suppressed.labels(self._node, str(priority)).set(cores)
        over = [(one.limit_milli or 0) - (one.base_milli or 0) for one in host.containers if one.base_milli]
        self._burst.set(sum(milli for milli in over if milli > 0) / 1000)
        self._unmet.set(sum(one.value or 0.0 for one in actions if one.reason == STILL_OVERLOADED))
        self._rewrites.inc(self._news("rewrites", rewrites))
        self._errors.inc(self._news("errors", errors))
        for code, count in codes.items():
            self._calls.labels(code).inc(self._news(f"code {code}", count))

    def count_done(self, actions: Iterable[Action]) -> None:
        """Count actions that succeeded."""
        for action in actions:
            if action.reason == SUPPRESSED:
                self.suppressions.inc()
            elif action.reason == RESTORED and action.kind is ActionKind.CLEAR:
                self.released.inc()

    def _news(self, name: str, total: int) -> int:
        """Return the growth of a total since the last call."""
        grown = total - self._counted.get(name, 0)
        self._counted[name] = total
        return grown
