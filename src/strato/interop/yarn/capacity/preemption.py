"""A round of preemption: choose containers, keep since when each is chosen, and kill those chosen long enough.

The selectors choose containers, one after another. A container that is chosen for the first time is *marked* (its
application is asked to release it); one that is still chosen after the wait is *killed*. Marks older than twice the
wait are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strato.interop.yarn.capacity.arithmetic import Arithmetic, scaled
from strato.interop.yarn.capacity.idealassignment import Assignments, IdealRules
from strato.interop.yarn.capacity.intraqueue import IntraQueueSelector, QueueReassignment
from strato.interop.yarn.capacity.preemptionmodel import ClusterState, Container, PreemptionSettings
from strato.interop.yarn.capacity.priorityreservations import PriorityReservationSelector
from strato.interop.yarn.capacity.victims import QueueOrderSelector, ReservedSelector, Selection


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen container, and how long its application has to release it."""

    container: Container
    wait_ms: int


@dataclass(frozen=True, slots=True)
class PreemptionRound:
    """The decisions of one round of preemption."""

    choices: tuple[Choice, ...]
    dropped_reservations: tuple[Container, ...]
    assignments: Assignments
    reassigned: Mapping[tuple[str, str], QueueReassignment]
    """Ideal assignments of applications by queue and partition, for queues examined by intra-queue preemption."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """For reservations to be moved: the new node, by the reservation's key."""


def decide(state: ClusterState, settings: PreemptionSettings, arithmetic: Arithmetic) -> PreemptionRound:
    """Choose the containers to preempt."""
    assignments = Assignments(state, settings, arithmetic)
    selection = Selection(scaled(state.total, settings.total_preemption_per_round))
    waits: dict[str, int] = {}

    def note(wait_ms: int) -> None:
        for key in selection.chosen:
            waits.setdefault(key, wait_ms)

    moved: Mapping[str, str] = {}
    if settings.priority_reservations:
        important = PriorityReservationSelector(assignments)
        important.select(selection)
        moved = important.moved
    if settings.select_based_on_reserved_containers:
        ReservedSelector(assignments).select(selection)
    counts_reserved = settings.additional_res_balance_based_on_reserved_containers
    QueueOrderSelector(assignments, IdealRules(counts_reserved=counts_reserved)).select(selection)
    note(settings.max_wait_before_kill_ms)
    if settings.balance_after_satisfied:
        QueueOrderSelector(assignments, IdealRules(balances=True)).select(selection)
        note(settings.balance_max_wait_before_kill_ms)
    within = IntraQueueSelector(assignments)
    if settings.intra_queue:
        within.select(selection)
        note(settings.max_wait_before_kill_ms)
    choices = tuple(Choice(container, waits[key]) for key, container in selection.chosen.items())
    dropped = tuple(selection.dropped_reservations.values())
    return PreemptionRound(choices, dropped, assignments, within.reassigned, moved)


@dataclass(frozen=True, slots=True)
class Marks:
    """Chosen containers that still run, with the time since when each is chosen."""

    since_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreemptionActions:
    """The actions that follow from a round: containers marked for the first time, containers killed."""

    marked: tuple[Container, ...]
    killed: tuple[Container, ...]
    marks: Marks


def advance(marks: Marks, found: PreemptionRound, settings: PreemptionSettings, now_ms: int) -> PreemptionActions:
    """Return the actions that follow from a round's choices and the marks of earlier rounds."""
    if settings.observe_only:
        return PreemptionActions((), (), marks)
    since = dict(marks.since_ms)
    marked: list[Container] = []
    killed: list[Container] = []
    for choice in found.choices:
        key = choice.container.key
        if key not in since:
            since[key] = now_ms
            marked.append(choice.container)
        elif since[key] + choice.wait_ms <= now_ms:
            killed.append(choice.container)
            del since[key]
    # one that is chosen again keeps its mark: balancing waits longer before it kills than marks are kept
    chosen = {choice.container.key for choice in found.choices}
    kept_ms = 2 * settings.max_wait_before_kill_ms
    kept = {key: at for key, at in since.items() if key in chosen or at + kept_ms >= now_ms}
    return PreemptionActions(tuple(marked), tuple(killed), Marks(kept))
