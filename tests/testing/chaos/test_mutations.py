"""The runs can fail: faults put into the software, one at a time, are found within a few seeds."""

from __future__ import annotations

import pytest

from strato.testing.chaos.run import draw_plan, play
from tests.testing.chaos import mutations

FOUND: tuple[tuple[mutations.Mutation, range, str], ...] = (
    (mutations.server_binds_again, range(3), "pod bound twice"),
    (mutations.garbage_of_others_stays, range(3), "not settled"),
    (mutations.nodes_forget_their_pods, range(3), "not settled"),
    (mutations.restarted_scheduler_sees_no_pods, range(1, 4), "node overcommitted"),
    (mutations.informer_forgets_what_a_list_brings, range(2, 5), "not settled"),
    (mutations.journal_forgets_its_last_row, range(2, 5), "acknowledged write lost"),
)
"""The fault, the seeds of which one finds it, and the rule that it breaks."""


@pytest.mark.parametrize(("mutation", "seeds", "rule"), FOUND, ids=[mutation.__name__ for mutation, _, _ in FOUND])
def test_a_mutation_is_found(
    monkeypatch: pytest.MonkeyPatch, mutation: mutations.Mutation, seeds: range, rule: str
) -> None:
    mutation(monkeypatch)
    assert any(rule in play(draw_plan(seed)).rules for seed in seeds), f"none of {seeds} finds it"
