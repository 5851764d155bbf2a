"""A slice of the campaign of damaged files."""

import pytest

from tests.attack.files import attack


@pytest.mark.attack
def test_no_damaged_file_does_harm() -> None:
    counts, findings = attack(1_500, seed=100_000)
    assert findings == []
    assert len(counts) >= 31
    assert sum(counts.values()) == 1_500
