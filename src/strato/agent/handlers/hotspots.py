"""``hotspots``: request less traffic for a host that stays hot; cordon the node if its memory does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from strato.agent.decisions.hotspots import CPU, MEMORY, NETWORK, HotspotOptions, HotspotState, after_cut, next_state
from strato.agent.events import (
    HOTSPOT_CLEARED,
    MEMORY_HOTSPOT,
    Action,
    ActionKind,
    HostEvent,
    Level,
    ResourceLevel,
)
from strato.agent.handlers.handler import Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class HotspotHandlerOptions:
    """Options of ``hotspots``; fractions relate to the host's CPU, the link's speed and the memory."""

    cpu_enter: float = CPU.enter
    cpu_leave: float = CPU.leave
    network_enter: float = NETWORK.enter
    network_leave: float = NETWORK.leave
    memory_enter: float = MEMORY.enter
    memory_leave: float = MEMORY.leave
    cordon: bool = True
    """Whether to cordon a node whose memory is hot."""

    def problems(self) -> list[tuple[str, str]]:
        """Return pairs of lines that are in the wrong order."""
        found = []
        for resource in ("cpu", "network", "memory"):
            enter, leave = getattr(self, f"{resource}_enter"), getattr(self, f"{resource}_leave")
            if not 0 < enter <= 1:
                found.append((f"{resource}_enter", f"{enter:g} must be above 0 and at most 1"))
            if not 0 < leave < enter:
                found.append((f"{resource}_leave", f"{leave:g} must be above 0 and below {resource}Enter, {enter:g}"))
        return found

    def lines(self) -> Mapping[str, HotspotOptions]:
        """Return the lines by resource."""
        return {
            resource: HotspotOptions(
                enter=getattr(self, f"{resource}_enter"),
                enter_seconds=usual.enter_seconds,
                leave=getattr(self, f"{resource}_leave"),
                leave_seconds=usual.leave_seconds,
            )
            for resource, usual in (("cpu", CPU), ("network", NETWORK), ("memory", MEMORY))
        }


class Hotspots(Handler):
    """See the module."""

    name: ClassVar[str] = "hotspots"
    defaults: ClassVar[HotspotHandlerOptions] = HotspotHandlerOptions()
    options: HotspotHandlerOptions

    def __init__(self, options: HotspotHandlerOptions, random: Random) -> None:
        super().__init__(options, random)
        self._states: dict[str, HotspotState] = {}
        self._is_settled = False
        """Whether memory was hot, or cool long enough, since the start: an earlier process's cordon is handled."""

    @property
    def levels(self) -> dict[str, ResourceLevel]:
        """Return each resource's level."""
        return {name: ResourceLevel(level=one.level, since=one.since) for name, one in self._states.items()}

    def on_host(self, event: HostEvent) -> Sequence[Action]:
        """Compare utilisation with the lines; report resources that have become hot or cooled down."""
        values = {
            "cpu": event.cpu,
            "memory": event.memory,
            "network": max(event.network_receive, event.network_send),
        }
        latest_cut = max((one.suppression.at for one in event.containers if one.suppression), default=0.0)
        actions: list[Action] = []
        for resource, lines in self.options.lines().items():
            before = self._states.get(resource) or HotspotState(since=event.at)
            if resource == "cpu":
                before = after_cut(before, latest_cut)
            after = self._states[resource] = next_state(before, values[resource], event.at, lines)
            was, is_ = before.level is Level.HOT, after.level is Level.HOT
            if resource == "memory":
                actions += self._on_memory(values[resource], event.at, after, was_hot=was)
            elif was or is_:
                actions.append(
                    Action(kind=ActionKind.TRAFFIC, target=resource, value=values[resource] if is_ else None)
                )
            if was and not is_:
                text = f"{resource} is down to {values[resource]:.0%}"
                actions.append(Action(kind=ActionKind.EVENT, target="", reason=HOTSPOT_CLEARED, message=text))
        return actions

    def _on_memory(self, value: float, at: float, state: HotspotState, *, was_hot: bool) -> list[Action]:
        if state.level is Level.HOT:
            self._is_settled = True
            text = f"memory at {value:.0%}"
            event = Action(kind=ActionKind.EVENT, reason=MEMORY_HOTSPOT, message=text)
            cordon = [Action(kind=ActionKind.CORDON, target="memory", message=text)] if self.options.cordon else []
            return [*([] if was_hot else [event]), *cordon]
        has_cooled = state.level is Level.OK and at - state.since >= self.options.lines()["memory"].leave_seconds
        if was_hot or (has_cooled and not self._is_settled):
            self._is_settled = True
            return [Action(kind=ActionKind.UNCORDON, target="memory")]
        return []
