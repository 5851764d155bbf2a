"""A slice of the campaign that holds the server's short ways to the general one."""

import pytest

from tests.attack.fastpaths import attack


@pytest.mark.attack
async def test_short_ways_decide_and_store_what_the_general_one_does() -> None:
    run = await attack(8000, seed=7)
    assert run.findings == []
    assert all(run.counts[f"{method} accepted"] > 300 for method in ("POST", "PATCH", "DELETE"))
    assert all(run.counts[f"{method} refused"] > 10 for method in ("POST", "PATCH", "DELETE"))
