"""Choose containers that get more CPU than their limit while the host has spare CPU, and those that lose it again.

Online containers come first; training containers have a lower line. A container's quota is raised while its limit
throttles it. It is lowered step by step when the container no longer needs it, when its saved tokens are used up, or
when the host needs the CPU.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from strato.agent.decisions.tokens import TokenBucket
from strato.agent.events import ContainerEvent, Workload

_ENOUGH_CORES = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstOptions:
    """Lines and steps of bursts; fractions of the host relate to its capacity without overcommitment."""

    online: bool = True
    """Whether online containers may burst."""
    training: bool = False
    """Whether training containers may, which also must not be suppressed."""
    up: float = 0.9
    """Fraction of its quota that a container must use to get more. Range (down, 1]."""
    down: float = 0.6
    """Fraction of its limit under which it no longer needs the burst. Range (0, up)."""
    growth: float = 1.2
    """Factor by which a step raises the quota. Above 1."""
    shrinkage: float = 0.8
    """Factor by which a step lowers the quota. Range (0, 1)."""
    online_most: float = 3.0
    """The most an online container gets, as a multiple of its limit. At least 1."""
    training_most: float = 2.0
    """The most a training container gets, as a multiple of its limit. At least 1."""
    alarm: float = 0.80
    """Fraction of the host's CPU up to which online containers may take more. Range (0, overload)."""
    training_margin: float = 0.10
    """Training containers may take more only up to ``alarm`` less this fraction."""
    overload: float = 0.90
    """Fraction of the host's CPU at which bursts are taken back."""
    down_rounds: int = 12
    """Consecutive rounds in which a container must not need its burst before a step down."""
    token_period_seconds: int = 0
    """How long a container may use its maximum, out of tokens saved before; 0: without limit."""


_WINDOW, _NEEDED = 3, 2
"""A container counts as held back if its quota was too small in `_NEEDED` of the last `_WINDOW` rounds."""


@dataclass(slots=True)
class BurstMemory:
    """A container's need of CPU in the last rounds."""

    held_back: deque[bool] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    idle_rounds: int = 0
    bucket: TokenBucket | None = None
    may_burst: bool = True

    def note(self, one: ContainerEvent, options: BurstOptions) -> None:
        """Record a round."""
        quota, base = (one.limit_milli or 0) / 1000, (one.base_milli or 0) / 1000
        self.held_back.append(one.throttled_ratio > 0 or one.used_cores >= options.up * quota)
        self.idle_rounds = self.idle_rounds + 1 if one.used_cores < options.down * base else 0
        if self.bucket is not None and base:
            self.may_burst = self.bucket.allows(one.at, int(one.used_cores / base * 100))

    @property
    def is_held_back(self) -> bool:
        """Whether the container's quota is too small for it."""
        return sum(self.held_back) >= _NEEDED


def choose_bursts(
    capacity_cores: float,
    cpu: float,
    containers: Iterable[tuple[ContainerEvent, BurstMemory]],
    options: BurstOptions,
) -> Mapping[str, int]:
    """Return the quotas to change, in millicores by key.

    Args:
        capacity_cores: Logical CPUs of the host.
        cpu: Fraction of them that is used.
        containers: Containers with their need in the rounds up to this one.
        options: Lines and steps.
    """
    pairs = [
        (one, memory)
        for one, memory in containers
        if one.base_milli is not None and one.limit_milli is not None and one.suppression is None
    ]
    bursting = [(one, memory) for one, memory in pairs if _limit(one) > _base(one)]
    quotas = {
        one.key: _step_down(one, options)
        for one, memory in bursting
        if memory.idle_rounds >= options.down_rounds or not memory.may_burst or not _most(one, options)
    }
    if cpu >= options.overload:
        need = (cpu - options.alarm) * capacity_cores - _freed(bursting, quotas)
        for one, _ in sorted(bursting, key=lambda pair: (pair[0].priority, -pair[0].used_cores, pair[0].key)):
            if need <= _ENOUGH_CORES:
                break
            if one.key not in quotas:
                quotas[one.key] = _step_down(one, options)
                need -= max(0.0, one.used_cores - quotas[one.key] / 1000)
        return quotas
    taken = 0.0
    for one, memory in sorted(pairs, key=_burst_order):
        most = _most(one, options)
        margin = options.training_margin if one.workload is Workload.TRAINING else 0.0
        room = (options.alarm - margin - cpu) * capacity_cores - taken
        if one.key in quotas or not most or not memory.is_held_back or not memory.may_burst or room <= _ENOUGH_CORES:
            continue
        quota = int(min(_limit(one) * options.growth, _base(one) * most, _limit(one) + room * 1000))
        if quota > _limit(one):
            quotas[one.key] = quota
            taken += (quota - _limit(one)) / 1000
    return quotas


def _freed(bursting: Iterable[tuple[ContainerEvent, BurstMemory]], quotas: Mapping[str, int]) -> float:
    return sum(max(0.0, one.used_cores - quotas[one.key] / 1000) for one, _ in bursting if one.key in quotas)


def _limit(one: ContainerEvent) -> int:
    return one.limit_milli or 0


def _base(one: ContainerEvent) -> int:
    return one.base_milli or 0


def _most(one: ContainerEvent, options: BurstOptions) -> float:
    """Return the most a container may get, as a multiple of its limit; 0 if it may not burst."""
    if one.workload is Workload.TRAINING:
        return options.training_most if options.training else 0.0
    return options.online_most if options.online and one.workload is Workload.ONLINE else 0.0


def _step_down(one: ContainerEvent, options: BurstOptions) -> int:
    return max(_base(one), int(_limit(one) * options.shrinkage))


def _burst_order(pair: tuple[ContainerEvent, BurstMemory]) -> tuple[bool, int, float, str]:
    one = pair[0]
    return one.workload is Workload.TRAINING, -one.priority, -one.throttled_ratio, one.key
