"""What to type about an embedded cluster's directory."""

from __future__ import annotations

import pytest

from strato.cli.home import Home


@pytest.mark.parametrize(
    ("chosen", "command"),
    [
        (None, "strato down"),
        ("/data/strato", "strato down"),
        ("/srv/a", "strato --home /srv/a down"),
        ("/srv/a b", "strato --home '/srv/a b' down"),
    ],
)
def test_a_command_names_its_home_unless_it_is_the_usual_one(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, command: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert Home.locate(chosen).command("down") == command
