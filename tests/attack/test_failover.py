"""A slice of the failover campaign: a few kills on a real kube-apiserver."""

import pytest

from tests.attack import failover


@pytest.mark.attack
@pytest.mark.kube
def test_leaders_that_are_killed_or_stopped_leave_nothing_wrong() -> None:
    if not (failover.Failover.find_binaries() / "kube-apiserver").exists():
        pytest.skip("no control plane; build it with tests/e2e/kube/controlplane/build.sh")
    campaign = failover.play(count=6, seed=3, minutes=3.0)
    assert campaign.findings == []
    assert sum(campaign.kills.values()) == 6
    assert campaign.bound > 0
