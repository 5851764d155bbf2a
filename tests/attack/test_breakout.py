"""One test for each cell of the table of what a level isolates: a pod really tries to break out."""

import os

import pytest

from tests.attack.breakout import ATTACKS, LEVELS, Attack, arena, attempt

CELLS = [
    pytest.param(attack, level, id=f"{attack.name}, {level}")
    for level in LEVELS
    for attack in ATTACKS
    if level in attack.levels
]


@pytest.mark.attack
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run a node at each level")
@pytest.mark.parametrize(("attack", "level"), CELLS)
async def test_breakout(attack: Attack, level: str) -> None:
    async with arena(level) as outside:
        outcome = await attempt(outside, attack, level)
    assert outcome.got == outcome.want, outcome.detail
