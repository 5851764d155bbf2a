"""The papers by the name of their command; their modules are imported when one is asked for."""

from __future__ import annotations

import importlib
from typing import Final

from strato.errors import UsageError
from strato.sim.papers.outcome import Reproduction
from strato.sim.papers.work import Work

PAPERS: Final = {
    "fgd": "fragmentation gradient descent, ATC'23: six policies, 17 workloads, ten seeds",
    "drf": "dominant resource fairness, NSDI'11: the worked example",
    "easy": "EASY backfilling on two logs, beside the textbook's algorithm and the recorded waits",
    "gavel": "Gavel, OSDI'20: mean completion time and makespan on three kinds of GPUs",
    "quincy": "Quincy's policy as Firmament prices it: a small cluster with data",
}
"""Name, which is its module's too -> what is computed."""


def reproduce(name: str, work: Work) -> Reproduction:
    """Compute a paper's table anew.

    Raises:
        UsageError: There is no such paper, or its data is not where it should be.
        InvalidInput: The data has problems.
    """
    if name not in PAPERS:
        raise UsageError(f"there is no paper {name!r}; choose {', '.join(PAPERS)}")
    found: Reproduction = importlib.import_module(f"strato.sim.papers.{name}").reproduce(work)
    return found
