"""The runs can fail: faults put into the software, one at a time, are found within a few seeds."""

from __future__ import annotations

import msgspec
import pytest

from strato.testing.chaos.plan import ChaosPlan, FaultKind, PlannedFault, Setting
from strato.testing.chaos.run import draw_plan, play
from tests.testing.chaos import mutations

FOUND: tuple[tuple[mutations.Mutation, range, str], ...] = (
    (mutations.server_binds_again, range(3), "pod bound twice"),
    (mutations.garbage_of_others_stays, range(3), "not settled"),
    (mutations.nodes_forget_their_pods, range(3), "not settled"),
    (mutations.restarted_scheduler_sees_no_pods, range(8, 11), "node overcommitted"),
    (mutations.informer_forgets_what_a_list_brings, range(2, 5), "not settled"),
    (mutations.answers_before_the_commit, range(2, 5), "acknowledged write lost"),
    (mutations.journal_forgets_its_last_row, range(2, 5), "acknowledged write lost"),
)
"""The fault, the seeds of which one finds it, and the rule that it breaks."""


@pytest.mark.parametrize(("mutation", "seeds", "rule"), FOUND, ids=[mutation.__name__ for mutation, _, _ in FOUND])
def test_a_mutation_is_found(
    monkeypatch: pytest.MonkeyPatch, mutation: mutations.Mutation, seeds: range, rule: str
) -> None:
    mutation(monkeypatch)
    assert any(rule in play(draw_plan(seed)).rules for seed in seeds), f"none of {seeds} finds it"


def refusing() -> ChaosPlan:
    """Return a run in which a scheduler that does not compare its cache with the API is refused much for minutes."""
    setting = Setting(nodes={"rack-a": 2, "rack-b": 2}, is_audited=False)
    trouble = PlannedFault(at=5, kind=FaultKind.ERRORS, part="scheduler-0", seconds=190, amount=0.5, seed=1)
    return msgspec.structs.replace(draw_plan(2), setting=setting, faults=[trouble])


def test_a_binder_that_takes_refusals_for_success_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = refusing()
    assert play(plan).findings == []
    mutations.binder_takes_failures_for_success(monkeypatch)
    assert "not settled" in play(plan).rules


def test_a_log_that_lacks_what_decisions_hang_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = refusing()
    plan = msgspec.structs.replace(plan, setting=msgspec.structs.replace(plan.setting, is_recorded=True))
    assert play(plan).findings == []
    mutations.recorder_leaves_out_who_is_held_back(monkeypatch)
    assert play(plan).rules == {"a replay decides otherwise"}
