"""A slice of the campaign against evictions that are decided twice or in vain."""

import pytest

from tests.attack.evictions import attack


@pytest.mark.attack
def test_nobody_is_evicted_twice_or_in_vain() -> None:
    counts, findings = attack(300, seed=100_000)
    assert findings == []
    assert counts["evictions"] > 300
    assert all(counts[name] > 0 for name in ("refused", "answers lost", "restarts", "lists", "replaced", "taken back"))
