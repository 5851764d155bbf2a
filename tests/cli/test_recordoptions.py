"""What the options of a scheduler that records its decisions come to."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from strato.cli.recordoptions import RecordOptions, record_options


def given(*words: str) -> RecordOptions:
    taken: list[RecordOptions] = []

    @click.command()
    @record_options
    def command(record: RecordOptions) -> None:
        taken.append(record)

    done = CliRunner().invoke(command, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return taken[0]


@pytest.mark.parametrize("words", [(), ("--record=",), ("--record=", "--record-keep=8")], ids=str)
def test_nothing_is_recorded_without_a_file(words: tuple[str, ...]) -> None:
    """An installation's manifest always has the option, empty where its value is not set."""
    assert given(*words) == RecordOptions()


def test_a_log_is_named_from_where_the_command_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = given("--record", "cluster.log", "--record-file-size", "64Mi", "--record-keep", "3")
    assert found == RecordOptions(file=str(tmp_path / "cluster.log"), file_bytes=64 << 20, keep=3)
