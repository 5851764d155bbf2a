"""A slice of the campaign of random faults; the seeds include those that once found something."""

import pytest

from strato.api.core import Pod, PodSpec
from strato.api.meta import ObjectMeta
from strato.api.volcano.scheduling import PodGroup, PodGroupSpec
from tests.attack import faults


@pytest.mark.attack
@pytest.mark.parametrize("seed", [4, 5, 9, 17, 1001, 1002, 1003, 1004, 1005, 1006])
def test_round_ends_as_without_faults(seed: int) -> None:
    findings, met = faults.play(seed)
    assert findings == []
    assert met


@pytest.mark.attack
def test_campaign_notices_a_gang_that_stays_half_started() -> None:
    """The look-out of a campaign that can find nothing is worth nothing."""
    one = faults.Round(1, faulty=False)
    group = PodGroup(metadata=ObjectMeta(name="g"), spec=PodGroupSpec(min_member=2))
    belongs = ObjectMeta(name="p", annotations={"scheduling.k8s.io/group-name": "g"})
    half = Pod(metadata=belongs, spec=PodSpec(node_name="n"))
    one._clock.advance(faults.FAULTY_SECONDS + 2 * faults.GRACE_SECONDS)
    one._look_at_gangs([group], [half])
    one._clock.advance(faults.GRACE_SECONDS + 1)
    one._look_at_gangs([group], [half])
    assert one.findings == ["gang g has been half-started for 61 s"]
