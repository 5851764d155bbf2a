"""``burst``: raise the quotas of containers that need more CPU than their limit, while the host has spare CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from strato.agent.decisions.burst import BurstMemory, BurstOptions, choose_bursts
from strato.agent.decisions.tokens import TokenBucket, capacity_of
from strato.agent.events import BURST, Action, ActionKind, ContainerEvent, HostEvent, Workload
from strato.agent.handlers.handler import Handler
from strato.agent.options import between


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstHandlerOptions(BurstOptions):
    """Options of ``burst``."""

    def problems(self) -> list[tuple[str, str]]:
        """Return contradictions between options."""
        found = list(between(self, {"online_most": (1, 100), "training_most": (1, 100), "growth": (1.01, 10)}))
        found += between(self, {"shrinkage": (0.1, 0.99), "up": (0.01, 1), "overload": (0.01, 1)})
        found += between(self, {"down_rounds": (1, 1e6), "token_period_seconds": (0, 1e6)})
        found += between(self, {"training_margin": (0, self.alarm)})
        if not 0 < self.down < self.up:
            found.append(("down", f"{self.down:g} must be above 0 and below up, {self.up:g}"))
        if not 0 < self.alarm < self.overload:
            found.append(("alarm", f"{self.alarm:g} must be above 0 and below overload, {self.overload:g}"))
        return found


class Burst(Handler):
    """See the module."""

    name: ClassVar[str] = "burst"
    defaults: ClassVar[BurstHandlerOptions] = BurstHandlerOptions()
    options: BurstHandlerOptions

    def __init__(self, options: BurstHandlerOptions, random: Random) -> None:
        super().__init__(options, random)
        self._memories: dict[tuple[str, str], BurstMemory] = {}
        """Memories by the container's key and id, so that a restarted container begins with a new one."""
        self._has_bursts = False

    def on_host(self, event: HostEvent) -> Sequence[Action]:
        """Raise and lower quotas."""
        kept = {}
        for one in event.containers:
            memory = self._memories.get((one.key, one.id)) or self._new(one)
            memory.note(one, self.options)
            kept[one.key, one.id] = memory
        self._memories = kept
        pairs = [(one, kept[one.key, one.id]) for one in event.containers]
        bases = {one.key: one.base_milli for one in event.containers}
        self._has_bursts = any((one.limit_milli or 0) > (one.base_milli or 0) for one in event.containers)
        quotas = choose_bursts(event.capacity_cores, event.cpu, pairs, self.options)
        return [
            Action(
                kind=ActionKind.SET_QUOTA,
                target=key,
                value=quota,
                reason=BURST,
                message=f"CPU limit {quota}m beside the {bases[key]}m that are asked for",
            )
            for key, quota in quotas.items()
        ]

    def may_skip(self) -> bool:
        """Return whether no container bursts or is held back, and no counter of rounds is running."""
        if self.options.token_period_seconds or self._has_bursts:
            return False
        return not any(
            any(memory.held_back) or 0 < memory.idle_rounds < self.options.down_rounds
            for memory in self._memories.values()
        )

    def _new(self, one: ContainerEvent) -> BurstMemory:
        options, memory = self.options, BurstMemory()
        if options.token_period_seconds:
            is_training = one.workload is Workload.TRAINING
            most = options.training_most if is_training else options.online_most
            capacity = capacity_of(options.token_period_seconds, int(most * 100))
            memory.bucket = TokenBucket.new(capacity, one.at, self.random)
        return memory
