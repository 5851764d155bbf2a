"""Why a container has no log yet, in the words of a kubelet."""

from __future__ import annotations

import re
from typing import Any

import pytest

from strato.errors import BadRequest
from strato.server.rest.logs import container_of, why_waiting

TERMINATED = {"terminated": {"exitCode": 1}}


def of(state: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": state, "lastState": last or {}}]}


CASES = [
    pytest.param({}, {}, "ContainerCreating", id="just bound"),
    pytest.param({"initContainers": [{"name": "i"}]}, {}, "PodInitializing", id="just bound, others come first"),
    pytest.param({}, {"phase": "Failed"}, "", id="a pod that was refused never runs"),
    pytest.param({}, of({"waiting": {"reason": "ContainerCreating"}}), "ContainerCreating", id="being made"),
    pytest.param({}, of({"waiting": {"reason": "ErrImageNeverPull"}}), "ErrImageNeverPull", id="without an image"),
    pytest.param({}, of({"waiting": {"reason": "ErrImagePull"}}), "image can't be pulled", id="an image that fails"),
    pytest.param({}, of({"waiting": {"reason": "CrashLoopBackOff"}}, TERMINATED), "", id="it ran before"),
    pytest.param({}, of({"running": {}}), "", id="it runs"),
    pytest.param({}, of(TERMINATED), "", id="it ran"),
    pytest.param({}, of({}), "ContainerCreating", id="a status that says nothing"),
]


@pytest.mark.parametrize(("spec", "status", "why"), CASES)
def test_why_a_container_waits(spec: dict[str, Any], status: dict[str, Any], why: str) -> None:
    assert why_waiting({"spec": spec, "status": status}, "main") == why


def pod(*names: str, init: tuple[str, ...] = (), debug: tuple[str, ...] = (), default: str = "") -> dict[str, Any]:
    members = {"containers": names, "initContainers": init, "ephemeralContainers": debug}
    spec = {member: [{"name": name} for name in given] for member, given in members.items() if given}
    annotations = {"annotations": {"kubectl.kubernetes.io/default-container": default}} if default else {}
    return {"metadata": annotations, "spec": spec}


CHOSEN = [
    pytest.param(pod("a"), "", "a", id="the only one"),
    pytest.param(pod("a"), "a", "a", id="the only one by its name"),
    pytest.param(pod("a", init=("i",)), "", "a", id="the only one that stays"),
    pytest.param(pod("a", init=("i",)), "i", "i", id="one that came first"),
    pytest.param(pod("a", debug=("d",)), "d", "d", id="one that was added"),
    pytest.param(pod("a", debug=("d",)), "", "a", id="one that was added is not chosen"),
    pytest.param(pod("a", "b", default="b"), "", "b", id="an annotation says it"),
    pytest.param(pod("a", "b", default="b"), "a", "a", id="a name comes before an annotation"),
    pytest.param(pod("a", init=("i",), default="i"), "", "a", id="an annotation that names one that came first"),
]


@pytest.mark.parametrize(("of", "asked", "chosen"), CHOSEN)
def test_which_container_is_meant(of: dict[str, Any], asked: str, chosen: str) -> None:
    assert container_of(of, "p", asked) == chosen


UNCHOSEN = [
    pytest.param(pod("a"), "z", "container z is not valid for pod p", id="another name"),
    pytest.param(pod("a", "b"), "", "pod p, choose one of: [a b]", id="two"),
    pytest.param(
        pod("a", "b", init=("i",), debug=("d",), default="z"), "", "choose one of: [i a b d]", id="an unknown default"
    ),
]


@pytest.mark.parametrize(("of", "asked", "problem"), UNCHOSEN)
def test_a_container_has_to_be_named(of: dict[str, Any], asked: str, problem: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(problem)):
        container_of(of, "p", asked)
