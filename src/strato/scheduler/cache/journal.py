"""`Journal`: receives every input of a world and every cycle's plan, for recording and replay.

A cycle depends only on the world, the configuration, the instant and the random generator. Applying the same inputs to
an equal world, in the same order, therefore gives the same decisions: `strato.sim.recording` writes the calls of this
class into a log and replays them. By default nothing is recorded (`SchedulerOptions.journal`).
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
    """The state of a scheduler at start: what its decisions depend on besides the inputs that follow.

    Attributes:
        names: Values of ``spec.schedulerName`` served.
        default_queue: Queue of groups that name none.
        shard_mode, shard_name, agent_shard: As for `strato.scheduler.cache.shards.Shards`.
        flow_loaded: Whether the kernels of the action `flow` are loaded.
        config: Text of the configuration; empty for the built-in one.
        base: The directory that relative paths in it start from.
        rng: State of the generator (`random.Random.getstate`) before the seed of the first `Placer` is drawn.
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
    """Receives a world's inputs in the order in which they take effect; this class ignores them.

    Implementations must neither raise nor block.
    """

    def begin(self, beginning: Beginning) -> None:
        """Begin with an empty world."""

    def take(self, kind: Kind, view: Object) -> None:
        """Note that the world takes an object, which may fail; see `strato.scheduler.cache.kinds`."""

    def drop(self, kind: Kind, namespace: str, name: str) -> None:
        """Note that the world forgets an object."""

    def unbind(self, key: str) -> None:
        """Note that a bind failed and its pod is pending again."""

    def hold(self, key: str) -> None:
        """Note `World.hold`."""

    def release(self, key: str) -> None:
        """Note `World.release`."""

    def refuse_eviction(self, key: str, uid: str, now: float) -> None:
        """Note `World.refuse_eviction`."""

    def reopen(self) -> None:
        """Note that the next cycle decides on all jobs again although no object has changed."""

    def load_flow(self) -> None:
        """Note that the kernels of the action `flow` are loaded now."""

    def measure(self, usages: Usages) -> None:
        """Note the measured usage of nodes."""

    def repair(self) -> None:
        """Note that the audit has recomputed wrong sums."""

    def reply(self, where: str, body: bytes, reply: Reply) -> None:
        """Note the reply to a request that the cycle under way has sent; `cycle` is called afterwards."""

    def configure(self, text: str, base: Path) -> None:
        """Note that another configuration is in force; a seed for a new `Placer` is drawn then."""

    def cycle(self, now: float, plan: Plan) -> None:
        """Note the plan of a cycle that was decided at ``now``; called before the plan is carried out."""


NO_JOURNAL: Final = Journal()
"""The journal of a scheduler that is not recorded."""
