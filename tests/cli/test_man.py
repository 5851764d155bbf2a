"""Manual pages are made from the commands: every command has one, and man reads them without a complaint."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from strato.cli.main import cli, main
from strato.cli.man import page


def commands(command: click.Command, ctx: click.Context) -> Iterator[str]:
    yield ctx.command_path.replace(" ", "-")
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None and not below.hidden:
                yield from commands(below, click.Context(below, parent=ctx, info_name=name))


def test_every_command_has_a_page_that_man_can_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["man", str(tmp_path / "man1")])
    assert not ended.value.code
    assert str(tmp_path / "man1") in capfd.readouterr().out
    wanted = set(commands(cli, click.Context(cli, info_name="strato")))
    assert {path.stem for path in (tmp_path / "man1").iterdir()} == wanted
    assert {"strato", "strato-job-run", "strato-up", "strato-doctor"} <= wanted
    up = (tmp_path / "man1" / "strato-up.1").read_text()
    assert "\\-\\-hollow\\-nodes" in up
    assert ".SH NAME\nstrato\\-up \\- Start the embedded cluster" in up
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed, which reads the pages")
    for path in sorted((tmp_path / "man1").iterdir()):
        done = subprocess.run(
            ["groff", "-k", "-man", "-ww", "-Tutf8", "-z", str(path)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), path.name


def test_what_man_would_take_as_its_own_is_escaped() -> None:
    @click.command(help=".TH is a request, 'so too, and C:\\new is a path\n\nA second paragraph.")
    def odd() -> None:
        """."""

    text = page(odd, click.Context(odd, info_name="odd"))
    assert "\n\\&.TH is a request, 'so too, and C:\\enew is a path\n.PP\nA second paragraph.\n" in text


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["man", str(tmp_path / "file" / "below")])
    assert ended.value.code == 1
    assert "Not a directory" in capfd.readouterr().err
