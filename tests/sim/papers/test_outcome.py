"""Tables of papers: what agrees, and how it is written."""

from __future__ import annotations

import json
import math

import click.testing
import pytest

from strato.cli.main import cli
from strato.cli.sim import reproduce as command
from strato.errors import UsageError
from strato.sim.papers import registry
from strato.sim.papers.outcome import Cell, Reproduction
from strato.sim.papers.work import ReproductionOptions, each


def cell(ours: float, reference: float = 10.0, tolerance: float = 0.5) -> Cell:
    return Cell(row="r", column="c", ours=ours, reference=reference, tolerance=tolerance)


def table(*cells: Cell) -> Reproduction:
    return Reproduction(name="x", title="X", source="a paper", unit="s", cells=cells, notes=("A note.",))


CASES = [(10.5, True), (9.5, True), (10.51, False), (math.nan, False)]


@pytest.mark.parametrize(("ours", "agrees"), CASES)
def test_numbers_agree_within_their_tolerance(ours: float, agrees: bool) -> None:
    found = table(cell(10.0), cell(ours))
    assert found.agrees is agrees
    assert (" NO" in found.to_text()) is not agrees
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["agrees"] is agrees


def test_what_is_only_shown_always_agrees() -> None:
    found = table(cell(99.0, tolerance=math.inf))
    assert found.agrees
    assert "0 of 0 numbers agree" in found.to_text()


def test_the_command_knows_every_paper() -> None:
    assert tuple(registry.PAPERS) == command._NAMES


def test_an_unknown_paper_is_named() -> None:
    with pytest.raises(UsageError, match="there is no paper 'x'; choose"):
        registry.reproduce("x", ReproductionOptions(data=None))  # type: ignore[arg-type]  # values of a table


def test_missing_data_is_a_usage_error(tmp_path: object) -> None:
    ran = click.testing.CliRunner().invoke(
        cli, ["sim", "reproduce", "fgd", "--data", str(tmp_path)], standalone_mode=False
    )
    assert isinstance(ran.exception, UsageError)
    assert "cannot be read" in str(ran.exception)


def test_parts_are_done_in_order_and_counted() -> None:
    seen: list[tuple[int, int]] = []
    work = ReproductionOptions(data=None, progress=lambda done, total: seen.append((done, total)))  # type: ignore[arg-type]  # values of a table
    assert each(work, abs, [-3, 2, -1]) == [3, 2, 1]
    assert seen == [(1, 3), (2, 3), (3, 3)]
