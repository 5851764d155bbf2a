"""`Journal`: what is called with everything that enters a world from outside a cycle, and with what each cycle decided.

A cycle depends on the world, the configuration, the instant and the generator alone. So whoever makes the same calls on
an equal world, in the same order, gets the same decisions: `strato.sim.recording` writes the calls into a log and
replays them. A scheduler notes nothing unless it was asked for one (`SchedulerOptions.journal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.scheduler.cache.replies import Reply
from strato.scheduler.cache.usage import Usages
from strato.scheduler.model.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What decisions on an empty world depend on besides its inputs.

    Attributes:
        names: Values of ``spec.schedulerName`` served.
        default_queue: Queue of groups that name none.
        shard_mode, shard_name, agent_shard: As for `strato.scheduler.cache.shards.Shards`.
        flow_loaded: Whether the action `flow` has its kernels.
        config: Text of the configuration; empty for the built-in one.
        base: The directory that relative paths in it start from.
        rng: State of the generator (`random.Random.getstate`) before the seed of the first caches is drawn.
    """

    names: Sequence[str]
    default_queue: str
    shard_mode: str
    shard_name: str
    agent_shard: str
    flow_loaded: bool
    config: str
    base: Path
    rng: tuple[Any, ...]


class Journal:
    """Receives a world's inputs in the order in which they take effect; this one drops them. None may fail or wait."""

    def begin(self, beginning: Beginning) -> None:
        """Begin with an empty world."""

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

    def reply(self, where: str, body: bytes, reply: Reply) -> None:
        """Note what came of a question that a cycle asked; the note on the cycle follows."""

    def configure(self, text: str, base: Path) -> None:
        """Note that another configuration is in force, for whose caches a seed is drawn."""

    def cycle(self, now: float, plan: Plan) -> None:
        """Note a cycle that was decided at ``now``; called before its plan is carried out."""


NO_JOURNAL: Final = Journal()
"""That of a scheduler that nobody records."""
