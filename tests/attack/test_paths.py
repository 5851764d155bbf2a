"""A slice of the campaign against paths that lead out of volumes, images and pods' directories."""

import pytest

from strato.node import beneath
from tests.attack.paths import attack


@pytest.mark.attack
@pytest.mark.skipif(not beneath._openat2_works(), reason="compares with openat2, which this kernel lacks")
def test_no_path_leads_out() -> None:
    counts, findings = attack(8_000, seed=100_000)
    assert findings == []
    kinds = ("resolutions", "resolutions raced", "makings", "payloads", "removals", "archives", "archives refused")
    assert all(counts[name] > 0 for name in kinds)
