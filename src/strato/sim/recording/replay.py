"""`replay`: decides the cycles of a log again, one after the other, and compares the decisions with the recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.sim.recording import entries as e
from strato.sim.recording.log import Log
from strato.sim.recording.replica import WorldReplica
from strato.sim.recording.state import in_order

_MOMENT_SECONDS: Final = 2.0
"""An observer sees the binds of a cycle, in one or several batches, at most this long after the decision."""


class Placing(NamedTuple):
    """A pod with the node of its recorded and of its replayed bind; "" if it was not bound in that cycle."""

    pod: str
    recorded: str
    replayed: str


class Evicting(NamedTuple):
    """A pod with the beneficiary of its recorded and of its replayed eviction; None if it was not evicted."""

    pod: str
    recorded: str | None
    replayed: str | None


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """A cycle whose replayed decisions differ from the recorded ones.

    Attributes:
        cycle: Its number.
        at: Its instant.
        binds: Pods bound to different nodes, or in only one of recording and replay.
        evictions: Pods evicted in only one of recording and replay.
    """

    cycle: int
    at: float
    binds: Sequence[Placing]
    evictions: Sequence[Evicting]


@dataclass(slots=True)
class ReplayTally:
    """The sums of a replay so far.

    Attributes:
        cycles: Cycles replayed.
        binds, evictions: Recorded decisions.
        same_binds, same_evictions: Recorded decisions that the replay made too, in the same cycle.
        elsewhere: Recorded binds that the replay made in the same cycle, but to another node.
        more_binds, more_evictions: Decisions of the replay that were not recorded.
        differing: Number of cycles that differ.
        first: The first cycle that differs.
        is_exact: Whether the log has all that the scheduler had from its first object on, replies from outside
            included, so that every decision must be the same.
        is_seen: Whether an observer wrote the log; several of its cycles may have been one of the scheduler.
        notes: Sentences for the user about why decisions may differ.
    """

    cycles: int = 0
    binds: int = 0
    evictions: int = 0
    same_binds: int = 0
    same_evictions: int = 0
    elsewhere: int = 0
    more_binds: int = 0
    more_evictions: int = 0
    differing: int = 0
    first: ReplayDifference | None = None
    is_exact: bool = True
    is_seen: bool = False
    notes: list[str] = field(default_factory=list)
    early: dict[str, tuple[float, str]] = field(default_factory=dict)
    """In an observer's log, pods that the replay bound before the observer saw it: key → instant and node."""


def replay(
    log: Log,
    config: Config | None = None,
    *,
    since: float | None = None,
    until: float = float("inf"),
    tally: ReplayTally | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[ReplayDifference]:
    """Decide a log's cycles again, and return one after the other those that differ.

    Args:
        log: The log.
        config: Configuration in place of the recorded ones; None takes the recorded ones.
        since: Begins at the last snapshot before this instant; None begins at the beginning.
        until: The last instant.
        tally: Takes the sums.
        progress: Called with the instant of each cycle.

    Raises:
        BadLog: The log is damaged.
        InvalidInput: A recorded configuration cannot be read on this machine.
    """
    found = tally if tally is not None else ReplayTally()
    start = log.start_for(since) if since is not None else 0
    replica: WorldReplica | None = None
    for entry in in_order(log.entries(start)):
        if isinstance(entry, e.Instant | e.Cycle) and entry.at > until:
            return
        if isinstance(entry, e.Began) and (replica is None or not entry.continues):
            replica = WorldReplica(entry, config)
            _note_beginning(found, entry)
        elif replica is None:
            replica = WorldReplica(log.first(), config)
            _note_beginning(found, None)
            replica.apply(entry)
        elif isinstance(entry, e.Cycle):
            difference = _cycle(replica, entry, found)
            if progress is not None:
                progress(entry.at)
            if difference is not None:
                yield difference
        else:
            if isinstance(entry, e.Repaired):
                _note(found, "the scheduler's self-audit repaired its view, what it decided just before may differ")
            replica.apply(entry)


def _note_beginning(tally: ReplayTally, began: e.Began | None) -> None:
    if began is None or began.continues:
        tally.is_exact = False
        _note(tally, "the replay begins at a snapshot: where nodes are equally good, another may be chosen")
    elif began.origin == e.CLUSTER:
        tally.is_exact, tally.is_seen = False, True
        _note(tally, "recorded outside the scheduler: instants of cycles are those at which pods were seen bound")
    if began is not None and began.anonymised:
        tally.is_exact = False
        _note(tally, "names are hashed: where names decide between equals, others may be chosen")


def _note(tally: ReplayTally, text: str) -> None:
    if text not in tally.notes:
        tally.notes.append(text)


def _cycle(replica: WorldReplica, cycle: e.Cycle, tally: ReplayTally) -> ReplayDifference | None:
    """Decide one cycle again and compare; then the replica's world goes on with the recorded decisions."""
    plan = replica.decide(cycle)
    if replica.replies.missed:
        tally.is_exact = False
        _note(tally, "the log has no answer to some questions of the plugin extender; they count as not answered")
    difference = compare(cycle, plan)
    tally.cycles += 1
    tally.binds += len(cycle.binds)
    tally.evictions += len(cycle.evictions)
    tally.same_binds += len(cycle.binds)
    tally.same_evictions += len(cycle.evictions)
    if difference is None and replica.is_same_otherwise(cycle, plan):
        replica.keep(plan)
        return None
    replica.follow(cycle, plan)
    if difference is None:
        return None
    tally.same_binds -= sum(bool(one.recorded) for one in difference.binds)
    tally.same_evictions -= sum(one.recorded is not None for one in difference.evictions)
    tally.elsewhere += sum(bool(one.recorded and one.replayed) for one in difference.binds)
    tally.more_binds += sum(bool(one.replayed) and not one.recorded for one in difference.binds)
    tally.more_evictions += sum(one.replayed is not None for one in difference.evictions)
    if tally.is_seen:
        _reconcile(difference, tally)
    tally.differing += 1
    tally.first = tally.first or difference
    return difference


def _reconcile(difference: ReplayDifference, tally: ReplayTally) -> None:
    """Count binds that an observer saw shortly after the replay's cycle as decisions of that cycle."""
    for pod, recorded, replayed in difference.binds:
        if recorded and not replayed:
            at, node = tally.early.pop(pod, (-_MOMENT_SECONDS, ""))
            if difference.at - at <= _MOMENT_SECONDS:
                tally.more_binds -= 1
                tally.same_binds += node == recorded
                tally.elsewhere += node != recorded
        elif replayed and not recorded:
            tally.early[pod] = difference.at, replayed


def compare(cycle: e.Cycle, plan: Plan) -> ReplayDifference | None:
    """Return how the decisions of a plan differ from those of a recorded cycle; None if they are the same."""
    then, now = dict(cycle.binds), {bind.task.key: bind.node for bind in plan.binds}
    binds = [
        Placing(pod, then.get(pod, ""), now.get(pod, ""))
        for pod in dict.fromkeys([*then, *now])
        if then.get(pod) != now.get(pod)
    ]
    left = {one.pod: one.beneficiary for one in cycle.evictions}
    leaves = {one.task.key: one.beneficiary for one in plan.evictions}
    evictions = [
        Evicting(pod, left.get(pod), leaves.get(pod))
        for pod in dict.fromkeys([*left, *leaves])
        if (pod in left) != (pod in leaves)
    ]
    return ReplayDifference(cycle.number, cycle.at, binds, evictions) if binds or evictions else None
