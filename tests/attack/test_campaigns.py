"""The table of campaigns names modules that are there, and every campaign is in it."""

import sys
from pathlib import Path

import pytest

from tests.attack.__main__ import CAMPAIGNS, main


@pytest.mark.attack
def test_every_campaign_is_in_the_table() -> None:
    files = {path.stem for path in Path(__file__).parent.glob("*.py")}
    tested = {name.removeprefix("test_") for name in files if name.startswith("test_")} & files
    assert {name for name, _ in CAMPAIGNS} == tested


def test_asking_for_help_starts_no_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["attack", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "goes" in capsys.readouterr().out
