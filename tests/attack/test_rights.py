"""A slice of the attack on rights, other sequences in each."""

import pytest

from tests.attack.rights import Campaign, attack, granted


@pytest.mark.attack
@pytest.mark.parametrize("seed", [101, 102, 103, 104])
async def test_nobody_gains_a_right(seed: int) -> None:
    counts = await attack(500, seed)
    assert counts["sequences"] == 500
    assert counts["accepted"] > 2000
    assert counts["refused as escalation"] > 40


@pytest.mark.attack
async def test_the_attack_finds_a_server_without_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strato.server.auth.escalation.missing", lambda held, wanted: [])
    with pytest.raises(Exception, match=r"more was granted|gained what"):
        await attack(500, 1)


@pytest.mark.attack
async def test_the_attack_finds_wrong_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strato.server.auth.policy.PolicyRule.allows_path", lambda *_: True)
    with pytest.raises(Exception, match="decides otherwise"):
        await attack(500, 1)


def test_the_reference_grants_what_rules_say() -> None:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["n0"]}
    assert granted([rule], "a").bit_count() == 1
    assert granted([rule], "").bit_count() == 3
    assert granted([{**rule, "resourceNames": []}], "a").bit_count() == 4
    assert Campaign.__doc__
