"""A slice of the campaign of kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.kills import kill_servers, kill_writers


@pytest.mark.attack
@pytest.mark.parametrize("seed", range(3))
async def test_a_server_killed_in_bursts_of_writes_loses_nothing_acknowledged(tmp_path: Path, seed: int) -> None:
    """Twelve kills each; the campaign has a thousand."""
    wrong, acknowledged = await kill_servers(12, 100 + seed, tmp_path)
    assert wrong == []
    assert acknowledged > 12, "it was killed while it wrote"


@pytest.mark.attack
def test_a_journal_killed_in_the_middle_of_writes_and_folds_loses_nothing_acknowledged(tmp_path: Path) -> None:
    assert kill_writers(50, 7, tmp_path) == []
