"""`PAPERS`: the papers by the name on the command line; `reproduce` imports a paper's module when it is needed."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from strato.errors import UsageError
from strato.sim.papers.kept import kept_parts
from strato.sim.papers.outcome import Reproduction
from strato.sim.papers.work import ReproductionOptions

PAPERS: Final = {
    "fgd": "fragmentation gradient descent, ATC'23: six policies, 17 workloads, ten seeds",
    "drf": "dominant resource fairness, NSDI'11: the worked example",
    "easy": "EASY backfilling on two logs, beside the textbook's algorithm and the recorded waits",
    "gavel": "Gavel, OSDI'20: mean completion time and makespan on three kinds of GPUs",
    "quincy": "Quincy's policy as Firmament prices it: a small cluster with data",
}
"""Name of a paper, which is also that of its module → what is reproduced."""


def reproduce(
    name: str, work: ReproductionOptions, folder: Path | None = None, *, resume: bool = False
) -> Reproduction:
    """Reproduce a paper's table.

    Args:
        name: The paper's name.
        work: How to run it.
        folder: Folder to keep the results of parts in; None keeps none.
        resume: Whether results in the folder are used if their inputs have not changed.

    Raises:
        UsageError: There is no such paper, or its data is missing.
        InvalidInput: The data has problems.
        StateError: The folder cannot be written.
    """
    if name not in PAPERS:
        raise UsageError(f"there is no paper {name!r}; choose {', '.join(PAPERS)}")
    module = importlib.import_module(f"strato.sim.papers.{name}")
    if folder is not None:
        data_set = getattr(module, "FOLDER", None)  # papers without a data set have none
        data = work.data / data_set if data_set is not None else None
        work = replace(work, kept=kept_parts(folder, name, data, resume=resume))
    found: Reproduction = module.reproduce(work)
    return found
