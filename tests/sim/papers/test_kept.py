"""Parts of a reproduction that have ended are taken from their folder, whole ones of the same inputs only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click.testing
import pytest

from strato.cli.main import cli
from strato.errors import StateError, UsageError
from strato.sim.papers.kept import KeptParts, kept_parts
from strato.sim.papers.work import ReproductionOptions, each


@dataclass(frozen=True)
class Part:
    data: Path
    number: int


class Result(NamedTuple):
    curve: tuple[float, ...]
    text: str


COMPUTED: list[int] = []


def result_of(part: Part) -> Result:
    COMPUTED.append(part.number)
    if part.number > 90:
        raise RuntimeError("killed")
    return Result((0.1, math.inf, part.number / 3), "é")


def computed(kept: KeptParts, *numbers: int, data: str = "here") -> list[int]:
    """Return which parts were computed, the others taken from the folder; all have the right results."""
    COMPUTED.clear()
    found = each(
        ReproductionOptions(data=Path(data), kept=kept), result_of, [Part(Path(data), number) for number in numbers]
    )
    assert found == [Result((0.1, math.inf, number / 3), "é") for number in numbers]
    return list(COMPUTED)


def kept(folder: Path, data: Path | None = None, *, name: str = "x", resume: bool = True) -> KeptParts:
    return kept_parts(folder, name, data, resume=resume)


def test_a_killed_reproduction_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        computed(kept(tmp_path), 1, 2, 99, 3)
    assert computed(kept(tmp_path), 1, 2, 3) == [3]
    assert computed(kept(tmp_path), 1, 2, 3, data="elsewhere") == []


def test_without_resume_all_is_computed_again(tmp_path: Path) -> None:
    assert computed(kept(tmp_path), 1, 2) == [1, 2]
    assert computed(kept(tmp_path, resume=False), 1, 2) == [1, 2]


DAMAGES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("cut", lambda data: data[:-3]),
    ("emptied", lambda data: b""),
    ("of another part", lambda data: b"x" * 32 + data[32:]),
    ("garbage", lambda data: data[:32] + b"garbage"),
]


@pytest.mark.parametrize("damage", [damage for _, damage in DAMAGES], ids=[name for name, _ in DAMAGES])
def test_a_damaged_file_is_computed_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    computed(kept(tmp_path), 1, 2)
    file = min(tmp_path.iterdir())
    file.write_bytes(damage(file.read_bytes()))
    assert len(computed(kept(tmp_path), 1, 2)) == 1
    assert computed(kept(tmp_path), 1, 2) == []


def test_other_data_and_another_paper_are_other_inputs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "pods.csv").write_text("a")
    assert computed(kept(tmp_path / "out", data), 1) == [1]
    assert computed(kept(tmp_path / "out", data), 1) == []
    assert computed(kept(tmp_path / "out", data, name="y"), 1) == [1]
    (data / "pods.csv").write_text("b")
    assert computed(kept(tmp_path / "out", data), 1) == [1]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"file/out cannot be made: Not a directory"):
        kept(tmp_path / "file" / "out")


def test_resume_needs_a_folder() -> None:
    ran = click.testing.CliRunner().invoke(cli, ["sim", "reproduce", "drf", "--resume"], standalone_mode=False)
    assert isinstance(ran.exception, UsageError)
    assert "--resume needs --out" in str(ran.exception)
