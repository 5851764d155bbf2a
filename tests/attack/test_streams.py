"""A slice of the attack on streams."""

import asyncio

import pytest

from tests.attack.streams import attack


@pytest.mark.attack
def test_mistreated_streams_leave_nothing_behind() -> None:
    found = asyncio.run(attack(150, seed=3))
    assert not found.wrong
    assert found.done["exec 101"] > 20
    assert found.done["attach 101"] > 5
    assert found.done["portforward 101"] > 20
