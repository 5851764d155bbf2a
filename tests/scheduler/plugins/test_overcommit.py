"""overcommit: up to the last of what the cluster has, times the factor, less what is used and was let in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins import asking
from tests.scheduler.rules.deciding import decided, running

Json = dict[str, Any]


def asks(name: str = "g", phase: str = "Pending", **amounts: str) -> Json:
    return worlds.group(name, 1, phase=phase, **({"minResources": amounts} if amounts else {}))


USED = [worlds.group("r", 1, phase="Running"), running("r1", "r", "n", cpu="4")]
CASES: list[Any] = [
    pytest.param(1.5, [asks(cpu="15")], ["g"], id="just what there is"),
    pytest.param(1.5, [asks(cpu="15001m")], [], id="a thousandth more"),
    pytest.param(1, [asks(cpu="10")], ["g"], id="a factor of 1"),
    pytest.param(1, [asks(cpu="10001m")], [], id="a thousandth more than there is"),
    pytest.param(1, [*USED, asks(cpu="6")], ["g"], id="what is used is not there"),
    pytest.param(1, [*USED, asks(cpu="6001m")], [], id="a thousandth more than is idle"),
    pytest.param(1, [asks("g", cpu="5"), asks("h", cpu="5")], ["g", "h"], id="both fit"),
    pytest.param(1, [asks("g", cpu="5"), asks("h", cpu="6")], ["g"], id="who was let in counts"),
    pytest.param(1, [asks("a", "Inqueue", cpu="5"), asks("g", cpu="6")], ["a"], id="also who was let in before"),
    pytest.param(1, [asks("a", "Inqueue", cpu="5"), asks("g", cpu="5")], ["a", "g"], id="and not twice"),
    pytest.param(1, [asks()], ["g"], id="who says nothing"),
    pytest.param(1, [asks(cpu="1", memory="9Gi")], [], id="one of two resources"),
    pytest.param(1, [asks(pods="999")], ["g"], id="pods are not counted"),
    pytest.param(1, [asks(**{"nvidia.com/gpu": "1"})], [], id="what no node has"),
]


@pytest.mark.parametrize(("factor", "objects", "let_in"), CASES)
def test_who_is_let_in(factor: float, objects: list[Json], let_in: list[str]) -> None:
    tiers = [[{"name": "overcommit", "arguments": {"overcommit-factor": factor}}]]
    phases = decided("enqueue", tiers, worlds.node("n", cpu="10"), worlds.queue(), *objects).phases  # type: ignore[arg-type]  # values of a table
    assert sorted(name for name, phase in phases.items() if phase == "Inqueue") == let_in


def test_a_refusal_says_what_is_wanted_and_there() -> None:
    world = worlds.world(worlds.node("n", cpu="10"), worlds.queue(), asks(cpu="13", memory="1Gi"))
    ssn = asking.session(world, "overcommit")
    job = ssn.world.jobs["ns/g"]
    assert not ssn.job_enqueueable(job)
    (verdict,) = ssn.note(job).verdicts
    assert verdict.text == "resource in cluster is overused: overused cpu"
    assert verdict.numbers == {"wanted cpu": 13000.0, "available cpu": 12000.0}
