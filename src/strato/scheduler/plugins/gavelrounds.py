"""Rounds of Gavel: allocates time to jobs, and chooses the jobs of each round so that all get their allocation.

A job's priority on a kind of machines is the fraction of the time that it should have there, relative to the fraction
that it has had since the accounts were last cleared. In each round the jobs of highest priority run, kind by kind. The
allocation is computed again when jobs have arrived or left, at most every `RESET_SECONDS`.

Source: Narayanan et al., OSDI 2020, sections 4 and 5, and the order of ties in its implementation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from strato.scheduler.plugins.maxmin import Floats, max_min_shares

RESET_SECONDS: Final = 1920.0
"""Least time between two allocations."""
_FRESH: Final = 1e9
"""Factor of the priority of a job that has had no time at all."""


@dataclass(slots=True)
class Account:
    """The account of a job.

    Attributes:
        speed: float64[kinds], steps per second on each kind; 0 where it cannot run.
        held: Machines that it holds together.
        weight: Its share relative to others'.
        steps_left: Only for the makespan.
        received: float64[kinds], seconds that it ran since the accounts were cleared, and half a round.
        owed: float64[kinds], seconds that it should have had before that, less those it had.
        time: float64[kinds], its allocation; None before the first.
    """

    speed: Floats
    held: int = 1
    weight: float = 1.0
    steps_left: float = 1.0
    received: Floats = field(default_factory=lambda: np.zeros(0))
    owed: Floats = field(default_factory=lambda: np.zeros(0))
    time: Floats | None = None


class Objective(Protocol):
    """Defines the gains of jobs; an allocation maximises the least of them."""

    def __call__(self, accounts: Sequence[Account], machines: Floats) -> Floats:
        """Return float64[jobs, kinds], what each job gains from all of its time on each kind."""


def fairness(accounts: Sequence[Account], machines: Floats) -> Floats:
    """Return gains relative to what jobs had if all shared every kind equally: max-min fairness, by speed."""
    speed = np.array([account.speed for account in accounts])
    average = speed @ (machines / machines.sum())
    held = np.array([account.held for account in accounts], np.float64)
    weight = np.array([account.weight for account in accounts])
    gains: Floats = speed * (held / (weight * np.maximum(average, 1e-300)))[:, None]
    return gains


def blind_fairness(accounts: Sequence[Account], machines: Floats) -> Floats:
    """Return gains of time as such: max-min fairness that does not know how fast machines are."""
    held = np.array([account.held for account in accounts], np.float64)
    weight = np.array([account.weight for account in accounts])
    gains: Floats = np.repeat((held / weight)[:, None], len(machines), axis=1)
    return gains


def makespan(accounts: Sequence[Account], machines: Floats) -> Floats:
    """Return the parts of the work that is left: the least of them ends last."""
    left = np.array([max(account.steps_left, 1e-9) for account in accounts])
    gains: Floats = np.array([account.speed for account in accounts]) / left[:, None]
    return gains


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "max-min": fairness,
    "max-min-blind": blind_fairness,
    "makespan": makespan,
}
"""By their names in a configuration."""


class Rounds:
    """The accounts of all jobs.

    Args:
        machines: float64[kinds], how many there are of each; all above 0.
        objective: What is shared fairly.
        round_seconds: Length of a round.
    """

    def __init__(self, machines: Floats, objective: Objective, round_seconds: float) -> None:
        self.machines = machines
        self._objective = objective
        self._half = round_seconds / 2.0
        self._accounts: dict[Hashable, Account] = {}
        self._worked = np.zeros(len(machines))
        self._cleared_at = 0.0
        self._is_stale = False
        self.solved = 0
        """How many allocations were computed."""

    def __contains__(self, job: Hashable) -> bool:
        return job in self._accounts

    def __iter__(self) -> Iterator[Hashable]:
        return iter(list(self._accounts))

    def account(self, job: Hashable) -> Account:
        """Return the account of a job."""
        return self._accounts[job]

    def add(self, job: Hashable, account: Account) -> None:
        """Open an account."""
        kinds = len(self.machines)
        account.received, account.owed = np.full(kinds, self._half), np.zeros(kinds)
        self._accounts[job] = account
        self._is_stale = True

    def remove(self, job: Hashable) -> None:
        """Close an account."""
        del self._accounts[job]
        self._is_stale = True

    def resize(self, machines: Floats) -> None:
        """Take another number of machines of each kind."""
        if not np.array_equal(machines, self.machines):
            self.machines = machines
            self._is_stale = True

    def ran(self, job: Hashable, kind: int, seconds: float) -> None:
        """Note that a job ran."""
        self._accounts[job].received[kind] += seconds
        self._worked[kind] += seconds

    def allocate(self, now: float) -> None:
        """Clear the accounts and compute a new allocation, if that is due."""
        elapsed = now - self._cleared_at
        if not self._is_stale or (elapsed < RESET_SECONDS and self._cleared_at):
            return
        accounts = list(self._accounts.values())
        for account in accounts:
            due = account.time * elapsed if account.time is not None else 0.0
            account.owed = account.owed + due - (account.received - self._half)
            account.received = np.full(len(self.machines), self._half)
        self._worked = np.full(len(self.machines), self._half * len(accounts))
        self._cleared_at, self._is_stale = now, False
        able = [account for account in accounts if account.speed.max(initial=0.0) > 0]
        if not able:
            return
        held = np.array([account.held for account in able], np.float64)
        shares = max_min_shares(self._objective(able, self.machines), self.machines, held)
        for account, time in zip(able, shares.time, strict=True):
            account.time = time
        self.solved += 1

    def priority(self, account: Account) -> Floats:
        """Return float64[kinds]; 0 where a job has no allocation."""
        if account.time is None:
            return np.zeros(len(self.machines))
        worked = self._worked > 0
        part = np.where(worked, account.received / np.where(worked, self._worked, 1.0), 0.0)
        relative = np.where(part > 0, account.time / np.where(part > 0, part, 1.0), account.time * _FRESH)
        priorities: Floats = np.where((account.time > 0) & (account.speed > 0), relative, 0.0)
        return priorities

    def next_round(self, order: Sequence[int] | None = None) -> dict[Hashable, int]:
        """Return the jobs of the next round with the kind each runs on.

        Args:
            order: Order in which the kinds are filled; None is that of their numbers.
        """
        kinds = range(len(self.machines)) if order is None else order
        jobs, accounts = list(self._accounts), list(self._accounts.values())
        if not jobs:
            return {}
        priority = np.array([self.priority(account) for account in accounts])
        owed = np.array([account.owed for account in accounts])
        time = np.array(
            [account.time if account.time is not None else np.zeros(len(self.machines)) for account in accounts]
        )
        chosen: dict[Hashable, int] = {}
        taken: set[int] = set()
        for kind in kinds:
            left = int(self.machines[kind])
            for row in np.lexsort((np.arange(len(jobs)), -time[:, kind], -owed[:, kind], -priority[:, kind])).tolist():
                account = accounts[row]
                if left == 0:
                    break
                if row in taken or account.speed[kind] <= 0 or account.held > left:
                    continue
                left -= account.held
                taken.add(row)
                if account.time is not None:  # a job too new for an allocation keeps its place until it has one
                    chosen[jobs[row]] = kind
        return chosen
