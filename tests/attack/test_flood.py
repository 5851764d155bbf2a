"""A slice of the campaign `tests.attack.flood`: every attack twice."""

import asyncio

import pytest

from tests.attack.flood import ATTACKS, Campaign


@pytest.mark.attack
def test_one_user_who_floods_holds_nobody_else() -> None:
    findings = asyncio.run(Campaign(seed=7).run(2 * len(ATTACKS)))
    assert findings.wrong == []
    assert findings.counts["rounds"] == 2 * len(ATTACKS)
    assert findings.counts["mallory 200"] > 100
    assert findings.counts["mallory 429"] > 100
