from __future__ import annotations

import msgspec
import pytest

from strato.sim.experiments.results import Results, RunResult, differences, summaries
from strato.sim.pictures.digest import RunDigest, digest_run
from tests.sim.results.build import Ran, job, record

JOBS = [job("a", queue="x"), job("b", 10, queue="y")]


def digest(policy: str, seed: int, wait: float, variant: str = "") -> RunDigest:
    ran = [Ran(0, wait, wait + 100), Ran(1, 10 + wait, 110 + wait)]
    return digest_run(record(JOBS, ran), policy=policy, seed=seed, variant=variant, trace="t.csv", nodes="n")


def results(digests: list[RunDigest]) -> Results:
    runs = [RunResult(one.policy, one.variant, one.seed, {}, one.report) for one in digests]
    return Results("e", "t.csv", "objects", len(runs), runs, summaries(runs), differences(digests), {})


def test_policies_stand_side_by_side_over_seeds() -> None:
    found = results(
        [digest(policy, seed, 10 * seed + add) for seed in (0, 1, 2) for policy, add in (("p", 0), ("q", 5))]
    )
    by_policy = {one.policy: one.metrics["mean wait, s"] for one in found.summaries}
    assert by_policy["p"].mean == 10.0
    assert by_policy["q"].mean == 15.0
    assert by_policy["p"].high == pytest.approx(10 + 4.303 * 10 / 3**0.5)
    lines = found.to_table().splitlines()
    assert lines[0].split()[:3] == ["POLICY", "SEEDS", "DONE"]
    assert lines[1].split()[:3] == ["p", "3", "6/6"]
    assert "±24.84s" in lines[1]
    assert "JOB BY JOB" not in found.to_table()


def test_jobs_are_compared_pair_by_pair_with_the_first_policy() -> None:
    found = results([digest("p", 0, 10), digest("q", 0, 4), digest("p", 0, 3, "wide"), digest("q", 0, 3, "wide")])
    assert [(one.variant, one.waits.second, one.waits.shorter) for one in found.differences] == [
        ("", "q", 2),
        ("wide", "q", 0),
    ]
    table = found.to_table()
    assert "q against p  " in table
    assert "-6s" in table
    assert "MEAN WAIT IN  x   y" in table or "MEAN WAIT IN" in table
    assert "VARIANT" in table


def test_variants_of_one_policy_are_compared_where_their_jobs_are_the_same() -> None:
    found = results([digest("p", 0, 10, "as it is"), digest("p", 0, 4, "+1")])
    assert [(one.waits.first, one.waits.second, one.waits.shorter) for one in found.differences] == [
        ("as it is", "+1", 2)
    ]
    other = digest_run(record([job("x", 3)], [Ran(0, 5, 9)]), policy="p", variant="another trace")
    assert results([digest("p", 0, 10, "as it is"), other]).differences == []


def test_one_run_is_reported_by_itself() -> None:
    found = results([digest("p", 0, 10)])
    assert found.to_table() == found.runs[0].report.to_table()
    assert msgspec.json.decode(found.to_json(), type=Results) == found


def test_an_experiment_of_which_nothing_ended_has_a_table() -> None:
    assert results([]).to_table() == "no run has ended\n"
