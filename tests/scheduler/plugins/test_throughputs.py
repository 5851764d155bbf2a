"""Tables of throughputs: what is refused, and why."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from strato.scheduler.plugins import throughputs
from strato.scheduler.plugins.throughputs import parse_throughputs, read_throughputs


@pytest.mark.parametrize(
    "speeds",
    [
        pytest.param([4, 5, 6], id="three speeds"),
        pytest.param([4, -5], id="a speed below zero"),
        pytest.param("45", id="text of two characters"),
        pytest.param(4, id="one speed"),
        pytest.param([4, 10**400], id="a speed that no number holds"),
    ],
)
def test_beside_another_kind_there_is_a_pair_of_speeds(speeds: Any) -> None:
    with pytest.raises(ValueError, match="is neither steps per second nor a pair of them"):
        parse_throughputs({"v100": {"('a', 1)": {"('b', 1)": speeds}}}, "t")


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
def test_a_table_has_a_largest_size(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'{"v100": {"(\'a\', 1)": {"null": 4}}}'.ljust(1000)
    file = tmp_path / "table.json"
    file.write_bytes(gzip.compress(data) if packed else data)
    monkeypatch.setattr(throughputs, "_MOST_BYTES", len(data))
    assert read_throughputs(file).alone["v100"]
    monkeypatch.setattr(throughputs, "_MOST_BYTES", len(data) - 1)
    with pytest.raises(ValueError, match=r"table\.json holds more than 0 MiB"):
        read_throughputs(file)
