"""What users write into messages, names and annotations commands no terminal of who reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.cli.job.view import render_job
from strato.cli.main import main
from strato.cli.output import fitted_table, fixed_table
from strato.errors import harmless

HOSTILE = "\x1b]0;owned\x07 \x1b[2J\x9b1A\r\x08\x7f done"


@given(st.text())
def test_only_lines_and_tabs_are_left_of_control_characters(text: str) -> None:
    left = {sign for sign in harmless(text) if sign < " " or "\x7f" <= sign < "\xa0"}
    assert left <= {"\n", "\t"}
    if text.isprintable():
        assert harmless(text) == text


def test_a_row_stays_a_row() -> None:
    assert harmless(HOSTILE) == "^[]0;owned^G ^[[2J\ufffd1A^M^H^? done"
    text = fitted_table(("A", "B"), [(f"{HOSTILE}\nmore", "b")])
    assert text.splitlines()[1:] == [f"{harmless(HOSTILE)} more   b"]
    assert fixed_table(("A",), (50,), [(HOSTILE,)]).splitlines()[1] == harmless(HOSTILE)


def test_a_jobs_page_shows_them_as_text() -> None:
    event = {"metadata": {"name": "j.1"}, "type": "Warning", "reason": HOSTILE, "message": HOSTILE}
    job = {"metadata": {"name": "j", "namespace": "n"}, "spec": {"schedulerName": HOSTILE}}
    page = render_job(job, [event], None)
    assert page.count("^[[2J") == 3
    assert "\x1b" not in page


def test_an_error_shows_them_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["schedule", "-f", f"/none/{HOSTILE}"])
    shown = capsys.readouterr().err
    assert "^[[2J" in shown
    assert "\x1b" not in shown
