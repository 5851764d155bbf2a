"""The batch kernel places exactly as the naive loop does, and keeps doing so from a cached tree."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api.core import PodSpec
from strato.scheduler.model.answers import BALANCED, LEAST, MOST, PACK, ResourceTerm
from strato.scheduler.model.ledger import HELD, PROMISED
from strato.scheduler.model.nodes import NodeTable
from strato.scheduler.model.resources import Dimensions
from strato.scheduler.model.tasks import TaskClass
from strato.scheduler.placement import kernels
from strato.scheduler.placement.arrays import RequestRow, Static
from strato.scheduler.placement.scoring import resource_scores, term_arrays
from tests.scheduler.naive import SlowNode, place

TERMS = [
    ResourceTerm(LEAST, 1.0, ((0, 50.0), (1, 50.0))),
    ResourceTerm(MOST, 2.0, ((0, 1.0), (1, 1.0))),
    ResourceTerm(BALANCED, 1.0, ((0, 1.0), (1, 1.0), (3, 1.0))),
    ResourceTerm(PACK, 5.0, ((0, 1.0), (1, 1.0), (3, 8.0))),
    ResourceTerm(PACK, 3.0, ((0, -2.0), (1, -1.0))),
    ResourceTerm(PACK, 2.0, ((0, 2.0), (1, -1.0), (3, 4.0))),
]


class Arena:
    """A table of nodes, the class's kernel state, and the same nodes for the reference."""

    def __init__(self, seed: int, rows: int, terms: list[ResourceTerm], flags: int) -> None:
        rng = random.Random(seed)
        self.rng, self.rows, self.terms, self.flags = rng, rows, terms, flags
        self.table = NodeTable(Dimensions(), rows=max(rows, 1))
        self.table.names = [f"n{i}" for i in range(rows)]
        for row in range(rows):
            capacity = [rng.choice([0, 1000, 4000, 8000]), rng.choice([100, 4096, 8192]), rng.choice([1, 3, 110])]
            capacity.append(rng.choice([0, 0, 2000, 8000]))
            for d, amount in enumerate(capacity):
                used = rng.randint(0, amount)
                self.table.allocatable[row, d] = amount
                self.table.idle[row, d] = amount - used
                self.table.requested[row, d] = used
                self.table.releasing[row, d] = rng.randint(0, used)
                self.table.pipelined[row, d] = rng.choice([0, 0, rng.randint(0, amount)])
            if self.table.pipelined[row].any():  # as every promise takes a pod slot
                self.table.pipelined[row, 2] = max(self.table.pipelined[row, 2], 1)
            self.table.scored[row] = self.table.requested[row, :2]
            self.table.pods[row] = rng.randint(0, 3)
        self.mask = np.array([rng.random() < 0.9 for _ in range(rows)] or [False])
        self.base = np.array([float(rng.choice([0, 10, 20])) for _ in range(rows)] or [0.0])
        leaves = 1
        while leaves < rows:
            leaves *= 2
        self.offset = rng.randrange(max(rows, 1))
        self.tree = np.full(2 * leaves, -np.inf)
        self.head = np.array([leaves, self.offset, 0, 0], np.int64)
        self.request = np.zeros(8, np.int64)
        self.request[:4] = [rng.choice([0, 100, 500]), rng.choice([0, 64, 512]), 1, rng.choice([0, 0, 1000])]
        self.scored = np.array([max(int(self.request[0]), 100), max(int(self.request[1]), 200)], np.int64)

    def slow(self) -> list[SlowNode]:
        t = self.table
        return [
            SlowNode(
                row,
                t.allocatable[row].tolist(),
                t.idle[row].tolist(),
                t.releasing[row].tolist(),
                t.pipelined[row].tolist(),
                t.requested[row].tolist(),
                t.scored[row].tolist(),
                int(t.pods[row]),
                bool(self.mask[row]),
                float(self.base[row]),
            )
            for row in range(self.rows)
        ]

    def run(self, count: int) -> list[int]:
        t = self.table
        out = np.zeros(max(count, 1), np.int32)
        placed = kernels.place_batch(
            count,
            self.flags,
            self.rows,
            RequestRow(self.request, self.scored),
            np.array(PROMISED if self.flags & kernels.FUTURE else HELD),
            t.columns,
            Static(self.mask, self.base, np.zeros(len(self.mask), np.bool_)),
            term_arrays(self.terms),
            self.tree,
            self.head,
            out,
        )
        return [int(row) for row in out[:placed]]

    def expected(self, count: int) -> list[int]:
        return place(
            self.slow(),
            count,
            self.request.tolist(),
            self.scored.tolist(),
            self.terms,
            future=bool(self.flags & kernels.FUTURE),
            limit_pods=bool(self.flags & kernels.LIMIT_PODS),
            offset=self.offset,
        )

    def disturb(self) -> None:
        """Somebody else changes a row, as another class's placement or an event would."""
        row = self.rng.randrange(self.rows)
        self.table.idle[row] = self.rng.randint(0, 4000)
        self.table.touch(row)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    rows=st.integers(0, 12),
    counts=st.lists(st.integers(0, 15), min_size=1, max_size=4),
    chosen=st.lists(st.sampled_from(range(len(TERMS))), max_size=3, unique=True),
    flags=st.sampled_from([0, kernels.FUTURE, kernels.LIMIT_PODS, kernels.FUTURE | kernels.LIMIT_PODS]),
)
def test_batches_equal_the_naive_loop(seed: int, rows: int, counts: list[int], chosen: list[int], flags: int) -> None:
    arena = Arena(seed, rows, [TERMS[i] for i in chosen], flags)
    for count in counts:
        expected = arena.expected(count)
        assert arena.run(count) == expected
        if rows:
            arena.disturb()


def test_small_lag_updates_the_tree_instead_of_building_it() -> None:
    arena = Arena(3, 100, TERMS[:1], 0)
    arena.run(3)
    for _ in range(5):
        arena.disturb()
        expected = arena.expected(2)
        assert arena.run(2) == expected


@pytest.mark.parametrize("term", TERMS, ids=["least", "most", "balanced", "pack", "spread", "mixed"])
def test_numpy_scores_equal_the_kernel(term: ResourceTerm) -> None:
    arena = Arena(11, 40, [term], kernels.KEEP)
    arena.mask[:] = True
    arena.base[:] = 0.0
    arena.table.idle[:] += 100_000
    arena.run(0)
    cls = TaskClass(0, PodSpec(), "ns", arena.request, (int(arena.scored[0]), int(arena.scored[1])))
    got = resource_scores(arena.table, cls, np.arange(40), [term])
    leaves = int(arena.head[kernels.PLACES])
    assert np.roll(arena.tree[leaves : leaves + 40], arena.offset).tolist() == got.tolist()


def test_kernels_of_the_cache_are_loaded_without_the_compiler() -> None:
    script = "import sys; from strato.scheduler.placement.placer import warm_up; warm_up(); print(*sys.modules)"
    runs = [subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, check=True) for _ in "12"]
    assert "numba.typed.typeddict" not in runs[1].stdout.split()  # whoever compiles needs it
