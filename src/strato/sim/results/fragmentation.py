"""Fragmentation over time: the free amounts on nodes where typical pods of the trace do not fit.

Pods with equal requests and node selector are a class; the classes with most pods are typical. If a class does not fit
on a node, the node's free amount of each resource that the class requests counts as fragmented for this class. A
resource's fragmentation is the mean over the classes that request it, weighted by their pods. The measure is that of
Weng et al., "Beware of Fragmentation" (ATC 2023), section 3, without shares of single GPUs, for every resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strato.sim.results.columns import Floats, RunColumns
from strato.sim.results.overtime import free_by_node

MOST_CLASSES: Final = 24
"""Most typical classes; the pods of further classes are left out."""


@dataclass(frozen=True, slots=True)
class TypicalPods:
    """The typical classes of pods."""

    requests: Mapping[str, Floats]
    """Resource → requested amount per class."""
    weight: Floats
    """Per class, its part of the pods of all typical classes."""
    may_use: NDArray[np.bool_]
    """[class, node]: whether the node has the labels that the class selects."""


def typical_pods(run: RunColumns) -> TypicalPods:
    """Return the classes with the most pods."""
    jobs = run.record.jobs
    kinds: dict[tuple[object, ...], list[int]] = {}
    for row, job in enumerate(jobs):
        key = tuple(sorted(job.requests.items())), tuple(sorted(job.node_selector.items()))
        kinds.setdefault(key, []).append(row)
    pods = {key: sum(jobs[row].replicas for row in rows) for key, rows in kinds.items()}
    chosen = sorted(kinds, key=lambda key: (-pods[key], repr(key)))[:MOST_CLASSES]
    rows = [kinds[key][0] for key in chosen]
    total = max(1, sum(pods[key] for key in chosen))
    names = run.record.nodes.names
    labels = run.record.nodes.labels or tuple({} for _ in names)
    return TypicalPods(
        {name: run.requests[name][rows].astype(np.float64) for name in run.resources},
        np.array([pods[key] / total for key in chosen]),
        np.array([[jobs[row].node_selector.items() <= one.items() for one in labels] for row in rows], bool).reshape(
            len(rows), len(names)
        ),
    )


def fragmented(run: RunColumns, instants: Floats) -> dict[str, Floats]:
    """Return the fragmented part of each resource at ascending instants, as a ratio of the capacity."""
    typical = typical_pods(run)
    free = {name: free_by_node(run, name, instants) for name in run.resources}
    found = {name: np.zeros(len(instants)) for name in run.resources}
    wanted = {name: float(typical.weight[typical.requests[name] > 0].sum()) for name in run.resources}
    for row, weight in enumerate(typical.weight):
        fits: NDArray[np.bool_] = np.broadcast_to(typical.may_use[row], (len(instants), typical.may_use.shape[1]))
        for name in run.resources:
            fits = fits & (free[name] >= typical.requests[name][row])
        for name in run.resources:
            if typical.requests[name][row] > 0:
                lost = np.where(fits, 0.0, np.maximum(free[name], 0.0)).sum(axis=1)
                found[name] += weight / wanted[name] * lost / run.capacity[name]
    return found
