"""resourcequota: up to the last of what every quota of the namespace has left."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler import worlds
from tests.scheduler.plugins import asking
from tests.scheduler.rules.deciding import decided

Json = dict[str, Any]


def quota(name: str = "q", namespace: str = "ns", hard: Json | None = None, used: Json | None = None) -> Json:
    status = {"hard": {"cpu": "2"} if hard is None else hard, "used": {"cpu": "1"} if used is None else used}
    return {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": namespace}, "status": status}


def asks(name: str = "g", **amounts: str) -> Json:
    return worlds.group(name, 1, phase="Pending", **({"minResources": amounts} if amounts else {}))


CASES: list[Any] = [
    pytest.param([quota(), asks(cpu="1")], ["g"], id="just what is left"),
    pytest.param([quota(), asks(cpu="1001m")], [], id="a thousandth more"),
    pytest.param([quota(used={}), asks(cpu="2")], ["g"], id="nothing used"),
    pytest.param([quota(hard={"cpu": "0"}, used={}), asks(cpu="1m")], [], id="a quota of nothing"),
    pytest.param([quota(hard={"cpu": "0"}, used={}), asks(cpu="0")], ["g"], id="nothing of a quota of nothing"),
    pytest.param([quota(hard={"memory": "1"}), asks(cpu="9")], ["g"], id="what it does not name"),
    pytest.param([quota(), asks()], ["g"], id="who says nothing"),
    pytest.param([quota(namespace="other"), asks(cpu="9")], ["g"], id="another namespace's"),
    pytest.param([quota(), quota("r", hard={"cpu": "9"}), asks(cpu="2")], [], id="the first of two"),
    pytest.param([quota("a", hard={"cpu": "9"}), quota("b"), asks(cpu="2")], [], id="the second of two"),
    pytest.param([quota(hard={"cpu": "4"}), asks("g", cpu="2"), asks("h", cpu="1")], ["g", "h"], id="both fit"),
    pytest.param([quota(hard={"cpu": "4"}), asks("g", cpu="2"), asks("h", cpu="2")], ["g"], id="who was let in counts"),
    pytest.param([quota(hard={"cpu": "x"}), asks(cpu="9")], ["g"], id="what cannot be read limits nothing"),
    pytest.param(
        [quota(hard={"cpu": "4", "memory": "1"}, used={}), asks(cpu="1", memory="2")], [], id="one of two resources"
    ),
]


@pytest.mark.parametrize(("objects", "let_in"), CASES)
def test_who_is_let_in(objects: list[Json], let_in: list[str]) -> None:
    phases = decided("enqueue", [["resourcequota"]], worlds.node("n"), worlds.queue(), *objects).phases
    assert sorted(name for name, phase in phases.items() if phase == "Inqueue") == let_in


def test_a_refusal_says_what_is_asked_used_and_allowed() -> None:
    objects = [quota(hard={"cpu": "2", "pods": "3"}, used={"cpu": "1500m"}), asks(cpu="1", memory="1")]
    ssn = asking.session(worlds.world(worlds.node("n"), worlds.queue(), *objects), "resourcequota")
    job = ssn.world.jobs["ns/g"]
    assert not ssn.job_enqueueable(job)
    assert [verdict.text for verdict in ssn.note(job).verdicts] == [
        "resource quota insufficient: quota q, requested: cpu 1; used: cpu 1.5, pods 0; limited: cpu 2, pods 3"
    ]
