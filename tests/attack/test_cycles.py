"""A slice of the campaign against a scheduler that decides on what nobody meant."""

import pytest

from tests.attack.cycles import attack


@pytest.mark.attack
def test_no_object_switches_a_plugin_off() -> None:
    counts, findings = attack(400, seed=100_000)
    assert findings == []
    assert counts["binds"] > 100
    assert counts["evictions"] > 5
