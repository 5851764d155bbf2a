"""What the run of the conformance suite makes of the suite's words; the suite itself needs Go and root."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.__main__ import SLICE
from tests.conformance.images import RECIPES
from tests.conformance.report import BAR, BARS, page, table
from tests.conformance.suite import Result, Spec, _pattern, _result

NODE = Spec("[sig-node] Pods should be updated [NodeConformance] [Conformance]")
STORAGE = Spec("[sig-storage] A volume [Serial] is mounted | twice [Conformance]")
FAILED = Result(
    name=STORAGE.name,
    passed=False,
    seconds=3.0,
    reason="pod 0f2de877-f353-4e20-8d90-1bc9691be183 at 10.0.0.1:80\n  is <not> | ready `now`" + " and more" * 60,
)


def test_a_spec_knows_its_group_and_whether_it_wants_the_cluster_alone() -> None:
    assert (NODE.sig, NODE.is_serial) == ("node", False)
    assert (STORAGE.sig, STORAGE.is_serial) == ("storage", True)


def test_a_name_is_matched_as_it_is() -> None:
    for name in (NODE.name, STORAGE.name, r"a.b*c+(d)?{1}^$|\e"):
        assert re.fullmatch(_pattern(name), name)


def test_the_table_counts_what_ran_beside_the_bar() -> None:
    rows = table([NODE, STORAGE], {STORAGE.name: FAILED}).splitlines()
    assert f"| node | 0 | 0 | 1 | {BARS['node']} |" in rows
    assert f"| storage | 0 | 1 | 1 | {BARS['storage']} |" in rows
    assert f"| all | 0 | 1 | 2 | {BAR} |" in rows


def test_the_page_has_a_reason_for_each_failure_that_the_next_run_gives_again() -> None:
    text = page(
        "v1", [NODE, STORAGE], {NODE.name: Result(name=NODE.name, passed=True, seconds=1), STORAGE.name: FAILED}
    )
    (row,) = [line for line in text.splitlines() if STORAGE.name.replace("|", "\\|") in line]
    assert "pod UID at ADDRESS is &lt;not> \\| ready 'now'" in row
    assert row.endswith(" … |")
    assert NODE.name not in text
    for recipe in RECIPES:
        assert recipe.stands_for in text


@pytest.mark.parametrize(
    ("ran", "passed", "reason"),
    [
        ([], False, "the suite did not begin"),
        ([{"State": "passed", "RunTime": 2_000_000_000}], True, ""),
        ([{"State": "failed", "RunTime": 1, "Failure": {"Message": "no"}}], False, "no"),
        ([{"State": "skipped", "RunTime": 0}], False, "ended as skipped"),
    ],
)
def test_a_result_is_read_from_the_report(ran: list[dict[str, object]], passed: bool, reason: str) -> None:
    found = _result(NODE, ran)
    assert (found.passed, found.reason) == (passed, reason)


def test_the_slice_has_sixty_specs_of_all_groups() -> None:
    names = SLICE.read_text().splitlines()
    assert len(set(names)) == len(names) == 60
    assert {Spec(name).sig for name in names} >= BARS.keys() - {"architecture"}
    assert not any(Spec(name).is_serial for name in names)
    assert Path(SLICE).name == "slice.txt"
