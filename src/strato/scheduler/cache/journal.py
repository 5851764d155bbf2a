"""`Journal`: what is called with everything that enters a world from outside a cycle, and with what each cycle decided.

A cycle depends on the world, the configuration, the instant and the generator alone. So whoever makes the same calls on
an equal world, in the same order, gets the same decisions: `strato.sim.recording` writes the calls into a log and
replays them. A scheduler has no journal unless it was asked for one (`SchedulerOptions.journal`).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.scheduler.cache.usage import Usages

if TYPE_CHECKING:
    from strato.scheduler.cache.world import World
    from strato.scheduler.framework.options import Config
    from strato.scheduler.model.plan import Plan
    from strato.scheduler.options import SchedulerOptions


class Journal(Protocol):
    """Receives a world's inputs in the order in which they take effect; no method may fail or wait."""

    def begin(self, world: World, options: SchedulerOptions, config: Config, rng: Random) -> None:
        """Begin with an empty world, before the first number is drawn from ``rng``."""

    def take(self, kind: Kind, view: Object) -> None:
        """Note that an object is taken, which may be refused; see `strato.scheduler.cache.kinds`."""

    def drop(self, kind: Kind, namespace: str, name: str) -> None:
        """Note that an object is forgotten."""

    def unbind(self, key: str) -> None:
        """Note that a bind did not come about: its pod is pending again."""

    def hold(self, key: str) -> None:
        """Note `World.hold`."""

    def release(self, key: str) -> None:
        """Note `World.release`."""

    def refuse_eviction(self, key: str, uid: str, now: float) -> None:
        """Note `World.refuse_eviction`."""

    def reopen(self) -> None:
        """Note that decisions are made anew although no object changed."""

    def load_flow(self) -> None:
        """Note that the action `flow` has its kernels from now on."""

    def measure(self, usages: Usages) -> None:
        """Note what nodes use, as measured."""

    def repair(self) -> None:
        """Note that sums were wrong and have been computed anew."""

    def configure(self, config: Config) -> None:
        """Note that another configuration is in force, and that a seed was drawn for its caches."""

    def cycle(self, now: float, plan: Plan, world: World) -> None:
        """Note a cycle that was decided at ``now``; called before its plan is carried out."""
