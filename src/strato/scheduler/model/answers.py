"""Types of plugins' answers: verdicts and scores of rows, and the reason why a job cannot run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strato.scheduler.model.jobs import Job
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import FloatArray

LEAST, MOST, BALANCED, PACK = 0, 1, 2, 3
"""Kinds of `ResourceTerm`."""


class Verdicts(NamedTuple):
    """Answer of a filter.

    Attributes:
        codes: uint16 per row asked for: 0 passes, else 1 + index into ``reasons``.
        reasons: Why rows are rejected.
    """

    codes: npt.NDArray[np.uint16]
    reasons: tuple[Reason, ...]

    @classmethod
    def reject_where(cls, rejected: npt.NDArray[np.bool_], reason: Reason) -> Verdicts:
        """Reject the rows that are True, all for one reason."""
        return cls(rejected.astype(np.uint16), (reason,))


class ResourceTerm(NamedTuple):
    """A score that depends on the class's request and one node's columns only, so that kernels can compute it.

    Attributes:
        kind: `LEAST` (Kubernetes LeastAllocated), `MOST`, `BALANCED`, or `PACK` (weighted mean of the used fraction
            after placing, over requested dimensions; 0 when one overflows).
        weight: Factor of the term, whose value is in [0, 100] before.
        weights: Weight by column; in PACK a negative one takes the free fraction instead of the used one.
    """

    kind: int
    weight: float
    weights: tuple[tuple[int, float], ...]


class StaticScore(NamedTuple):
    """A score that depends on the class and the node object only.

    Attributes:
        raw: float64 per row asked for.
        weight: Factor.
        normalise: Whether raw scores are scaled so that the highest candidate gets 100 (Kubernetes' default).
        reverse: Whether a higher raw score is worse (then 100 minus the scaled score counts).
    """

    raw: FloatArray
    weight: float
    normalise: bool = False
    reverse: bool = False


class Validity(NamedTuple):
    """Answer of ``job_valid`` when a job cannot run as it is.

    Attributes:
        reason: Machine-readable: the reason of the group's condition.
        message: The sentence for people.
    """

    reason: str
    message: str


class Evictor(NamedTuple):
    """The job that a gang action evicts bundles for.

    Attributes:
        kind: ``gangpreempt`` or ``gangreclaim``.
        job: The job that is to be placed.
        domain: The network domain in which room is made.
    """

    kind: str
    job: Job
    domain: int
