"""A slice of the campaign of damages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.damage import run


@pytest.mark.attack
async def test_no_damage_of_a_journal_goes_unseen(tmp_path: Path) -> None:
    """Each kind of damage to each file, twice."""
    findings, table = await run(74, 5, tmp_path, served=37, hows=("folded", "stopped"))
    assert findings == [], table
