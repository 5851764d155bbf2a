"""A slice of the campaign `tests.attack.goes`: few objects, two rounds (the first one loads code), and more room."""

import pytest
import uvloop

from tests.attack.goes import KINDS, measure


@pytest.mark.attack
def test_no_request_holds_the_loop_for_long() -> None:
    rows = uvloop.run(measure(list(KINDS), objects=1000, rounds=2, room=8.0))
    assert len(rows) > 40
    assert [f"{row.name}: {row.wrong}" for row in rows if row.wrong] == []
