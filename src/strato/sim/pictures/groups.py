"""Runs of one policy and variant, over their seeds: what pictures give one colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strato.sim.pictures.canvas import colour, shown
from strato.sim.pictures.digest import RunDigest


@dataclass(frozen=True, slots=True)
class Group:
    """See the module."""

    label: str
    colour: str
    runs: tuple[RunDigest, ...]
    """At least one, by seed."""

    @property
    def first(self) -> RunDigest:
        """Return the run that stands for the group where only one can be drawn."""
        return self.runs[0]

    def mean(self, values: Sequence[float]) -> float:
        """Return the mean of one value per run."""
        return sum(values) / len(values) if values else 0.0


def groups_of(digests: Sequence[RunDigest]) -> tuple[Group, ...]:
    """Return the runs of an experiment by policy and variant, in its order."""
    found: dict[tuple[str, str], list[RunDigest]] = {}
    for digest in digests:
        found.setdefault((digest.policy, digest.variant), []).append(digest)
    return tuple(
        Group(", ".join(shown(part) for part in key if part) or "run", colour(number), tuple(runs))
        for number, (key, runs) in enumerate(found.items())
    )
