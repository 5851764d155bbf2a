"""`RunGroup`: the runs of one policy and variant, over their seeds; a group has one colour in pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strato.sim.pictures.canvas import colour, shown
from strato.sim.pictures.digest import RunDigest


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The runs of one policy and variant."""

    label: str
    colour: str
    runs: tuple[RunDigest, ...]
    """The runs in the order of their seeds; at least one."""

    @property
    def first(self) -> RunDigest:
        """Return the run that is drawn for the group where a picture shows only one."""
        return self.runs[0]

    def mean(self, values: Sequence[float]) -> float:
        """Return the mean of values, one for each run."""
        return sum(values) / len(values) if values else 0.0


def groups_of(digests: Sequence[RunDigest]) -> tuple[RunGroup, ...]:
    """Return the runs of an experiment grouped by policy and variant, in the order of the experiment."""
    found: dict[tuple[str, str], list[RunDigest]] = {}
    for digest in digests:
        found.setdefault((digest.policy, digest.variant), []).append(digest)
    return tuple(
        RunGroup(", ".join(shown(part) for part in key if part) or "run", colour(number), tuple(runs))
        for number, (key, runs) in enumerate(found.items())
    )
