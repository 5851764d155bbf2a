"""How a group gives way and takes part again, in faked trees of both versions, with ``cpu.idle`` and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.agent.sampling.layouts import ControlGroup
from strato.agent.sampling.weights import give_way, gives_way, read_weight, take_part


def group(folder: Path, *, unified: bool, idle: bool, weight: int = 460) -> ControlGroup:
    (folder / ("cpu.weight" if unified else "cpu.shares")).write_text(f"{weight}\n")
    if idle:
        (folder / "cpu.idle").write_text("0\n")
    return ControlGroup(str(folder), str(folder), str(folder), is_unified=unified)


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("unified", "idle", "given_way"),
    [
        pytest.param(True, True, {"cpu.weight": "460", "cpu.idle": "1"}, id="version 2"),
        pytest.param(False, True, {"cpu.shares": "460", "cpu.idle": "1"}, id="version 1"),
        pytest.param(True, False, {"cpu.weight": "1"}, id="version 2 before Linux 5.15"),
        pytest.param(False, False, {"cpu.shares": "2"}, id="version 1 before Linux 5.15"),
    ],
)
def test_who_gives_way_gets_its_weight_back(
    tmp_path: Path, unified: bool, idle: bool, given_way: dict[str, str]
) -> None:
    one = group(tmp_path, unified=unified, idle=idle)
    before = files(tmp_path)
    assert read_weight(one) == 460
    for _ in range(2):
        give_way(one)
    assert files(tmp_path) == given_way
    assert gives_way(one)
    assert read_weight(one) is None, "what it has now is not what it is to get back"
    for _ in range(2):
        take_part(one, 460)
    assert files(tmp_path) == before


def test_the_weight_is_restored_where_the_kernel_has_reset_it(tmp_path: Path) -> None:
    one = group(tmp_path, unified=False, idle=True)
    give_way(one)
    (tmp_path / "cpu.shares").write_text("3\n")  # what a group with cpu.idle reads
    take_part(one, 460)
    assert files(tmp_path) == {"cpu.shares": "460", "cpu.idle": "0"}


def test_a_group_that_has_gone_is_said_and_not_made(tmp_path: Path) -> None:
    gone = ControlGroup(*[str(tmp_path / "gone")] * 3, is_unified=True)
    assert read_weight(gone) is None
    for change in (give_way, lambda it: take_part(it, 100)):
        with pytest.raises(OSError, match="gone"):
            change(gone)
    assert not (tmp_path / "gone").exists()
