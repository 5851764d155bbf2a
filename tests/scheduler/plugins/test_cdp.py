"""cdp: who may be evicted while pods cool down."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins import asking

KEY = "volcano.sh/cooldown-time"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:13:10Z"}
"""Ten seconds ago."""

COOL: list[Any] = [
    pytest.param({"labels": {KEY: "11s"}}, {}, True, id="by label"),
    pytest.param({"annotations": {KEY: "11s"}}, {}, True, id="by annotation"),
    pytest.param({"labels": {KEY: "11s"}, "annotations": {KEY: "1s"}}, {}, True, id="the label counts"),
    pytest.param({"labels": {KEY: "10s"}}, {}, False, id="just over"),
    pytest.param({"labels": {KEY: "9s"}}, {}, False, id="over"),
    pytest.param({"labels": {KEY: "0s"}}, {}, False, id="zero"),
    pytest.param({"labels": {KEY: "soon"}}, {}, False, id="a word"),
    pytest.param({}, {}, False, id="nothing said"),
    pytest.param({"labels": {KEY: "11s"}}, {"conditions": []}, False, id="no condition"),
    pytest.param(
        {"labels": {KEY: "11s"}}, {"conditions": [{**SCHEDULED, "status": "False"}]}, False, id="not scheduled"
    ),
    pytest.param(
        {"labels": {KEY: "11s"}}, {"conditions": [{**SCHEDULED, "type": "Ready"}]}, False, id="another condition"
    ),
    pytest.param(
        {"labels": {KEY: "11s"}}, {"conditions": [{"type": "PodScheduled", "status": "True"}]}, False, id="no time"
    ),
    pytest.param(
        {"labels": {KEY: "11s"}},
        {"conditions": [{**SCHEDULED, "type": "Ready"}, SCHEDULED]},
        True,
        id="the second condition",
    ),
    pytest.param({"labels": {KEY: "11s"}}, {"phase": "Pending"}, False, id="it does not run yet"),
]


@pytest.mark.parametrize(("says", "status", "cools"), COOL)
def test_pods_that_cool_down_are_spared(says: dict[str, Any], status: dict[str, Any], cools: bool) -> None:
    victim = worlds.pod("v", phase="Running", nodeName="n", **says)
    victim["status"] |= {"conditions": [SCHEDULED], **status}
    ssn = asking.session(worlds.world(worlds.node("n"), worlds.queue(), victim, worlds.pod("p")), "cdp")
    waiting, candidates = asking.task(ssn, "p"), [asking.task(ssn, "v")]
    assert (ssn.preemptable(waiting, candidates) == []) is cools
    assert (ssn.reclaimable(waiting, candidates) == []) is cools
