"""A pod's phase, conditions and container statuses, as a kubelet writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.node.podstatus import ContainerRecord, Ending, PodRecord, initialized, phase_of, pod_status
from strato.node.records import unmet_gates
from strato.node.restarts import Backoff
from tests.node.fake_api import object_merged, status_of

RAN = Ending(0, "Completed", 1.0, 2.0)
BROKE = Ending(1, "Error", 1.0, 2.0)
READY = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"}


def record(name: str, does: str = "waits", **more: Any) -> ContainerRecord:
    """Return a container that ``waits``, ``runs``, is ``unready``, has ``passed``, ``failed``, or will ``retry``."""
    made = ContainerRecord(name, "image", **more)
    if does in ("runs", "unready"):
        made.run(1.0, f"id-{name}", ready=does == "runs")
    elif does in ("passed", "failed", "retry"):
        made.end(RAN if does == "passed" else BROKE)
    if does == "retry":
        made.wait("CrashLoopBackOff")
    return made


def init(name: str, does: str = "waits") -> ContainerRecord:
    return record(name, does, init=True)


def sidecar(name: str, does: str = "waits") -> ContainerRecord:
    return record(name, does, init=True, sidecar=True)


PHASES = [
    ("Never", [init("i", "passed"), record("c")], "Pending", "passed init container, nothing begun"),
    ("Never", [init("i", "failed"), init("j"), record("c")], "Failed", "one of two init containers failed"),
    ("Never", [init("i", "passed"), init("j"), record("c")], "Pending", "one of two init containers is still to come"),
    ("Never", [init("i", "runs"), record("c")], "Pending", "an init container runs"),
    ("Never", [init("i", "passed"), record("c", "failed")], "Failed", "the container failed"),
    ("OnFailure", [init("i", "failed"), record("c")], "Pending", "an init container will run again"),
    ("Always", [init("i", "failed"), record("c")], "Pending", "an init container of a service will run again"),
    ("Never", [sidecar("s", "failed"), record("c", "runs")], "Running", "a sidecar failed while the container runs"),
    ("Never", [sidecar("s", "failed"), record("c", "passed")], "Succeeded", "a sidecar that failed does not count"),
    ("Never", [sidecar("s"), record("c")], "Pending", "a sidecar is still to start"),
    (
        "OnFailure",
        [init("i"), record("c", "runs")],
        "Running",
        "a record of init containers was lost after they passed",
    ),
    ("OnFailure", [init("i"), record("c", "retry")], "Running", "the same while the container waits for its next run"),
    ("Never", [record("c", "passed"), record("d", "runs")], "Running", "the first of two containers ended"),
    ("Never", [record("c", "failed"), record("d", "passed")], "Failed", "the first of two failed, the last passed"),
    ("Never", [record("c", "passed"), record("d", "failed")], "Failed", "the last of two failed"),
    ("OnFailure", [record("c", "passed"), record("d", "retry")], "Running", "one passed, one waits for its next run"),
]


@pytest.mark.parametrize(("policy", "containers", "phase"), [pytest.param(*row[:3], id=row[3]) for row in PHASES])
def test_phase(policy: str, containers: list[ContainerRecord], phase: str) -> None:
    assert phase_of(PodRecord(policy, containers)) == phase


STOPPED = [
    ([record("c", "passed")], "Succeeded", [0], "a service that passed"),
    ([record("c", "passed"), record("d", "failed")], "Failed", [0, 1], "one of two failed"),
    ([record("c", "retry")], "Failed", [1], "it waited for its next run"),
    ([record("c")], "Failed", [137], "it never ran, as far as is known"),
    ([init("i", "passed"), record("c")], "Failed", [0, 137], "the same after its init container"),
    ([init("i"), record("c")], "Failed", [None, None], "nothing of it has begun"),
    ([sidecar("s", "failed"), record("c", "passed")], "Succeeded", [1, 0], "a sidecar does not count"),
]


@pytest.mark.parametrize(("containers", "phase", "codes"), [pytest.param(*row[:3], id=row[3]) for row in STOPPED])
def test_a_pod_that_was_deleted_ends_as_a_kubelet_says(
    containers: list[ContainerRecord], phase: str, codes: list[int | None]
) -> None:
    pod = PodRecord("Always", containers)
    pod.stop(9.0)
    assert phase_of(pod) == phase
    assert [one.ending.exit_code if one.ending is not None else None for one in pod.containers] == codes
    assert not any(one.last is not None for one in pod.containers)


def test_pod_ended_by_the_node_has_failed_and_says_why() -> None:
    pod = PodRecord("Always", [record("c", "runs")], reason="Evicted", message="the node was low on memory")
    status = pod_status(pod, 9.0)
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", "the node was low on memory")


STARTS = [
    ([], True),
    ([init("i", "passed"), init("j", "passed")], True),
    ([init("i", "passed"), init("j", "runs")], False),
    ([init("i", "runs"), init("j", "passed")], False),
    ([sidecar("s", "runs"), init("i", "passed")], True),
    ([sidecar("s", "unready"), init("i", "passed")], False),
    ([sidecar("s", "passed")], False),
]


@pytest.mark.parametrize(("inits", "may"), STARTS)
def test_containers_start_when_every_init_container_passed_and_every_sidecar_started(
    inits: list[ContainerRecord], may: bool
) -> None:
    assert initialized(inits) is may


def told(
    containers: list[ContainerRecord], policy: str = "Never", ip: str = "10.0.0.1"
) -> dict[str, tuple[str, str, str]]:
    conditions = status_of(pod_status(PodRecord(policy, containers, pod_ip=ip), 9.0))["conditions"]
    return {one["type"]: (one["status"], one.get("reason", ""), one.get("message", "")) for one in conditions}


YES, NO = ("True", "", ""), ("False", "", "")
UNREADY = "ContainersNotReady"
CONDITIONS = [
    pytest.param([record("c", "runs"), record("d", "runs")], YES, YES, YES, id="all run"),
    pytest.param(
        [record("c", "runs"), record("d", "unready")],
        YES,
        YES,
        ("False", UNREADY, "containers with unready status: [d]"),
        id="one of two is not ready",
    ),
    pytest.param(
        [sidecar("s", "unready"), init("i", "passed"), record("c", "runs"), record("d")],
        YES,
        YES,
        ("False", UNREADY, "containers with unready status: [s d]"),
        id="sidecars count, other init containers do not",
    ),
    pytest.param(
        [init("i", "passed"), init("j", "runs"), sidecar("s"), record("c")],
        YES,
        ("False", "ContainersNotInitialized", "containers with incomplete status: [j s]"),
        ("False", UNREADY, "containers with unready status: [s c]"),
        id="those that are still to pass or to start",
    ),
    pytest.param(
        [sidecar("s", "runs"), init("i"), record("c")],
        YES,
        ("False", "ContainersNotInitialized", "containers with incomplete status: [i]"),
        ("False", UNREADY, "containers with unready status: [c]"),
        id="a sidecar that has started is complete",
    ),
    pytest.param(
        [init("i", "passed"), record("c")],
        YES,
        YES,
        ("False", UNREADY, "containers with unready status: [c]"),
        id="a pod whose containers may start is initialized",
    ),
    pytest.param(
        [init("i"), init("j"), record("c", "runs"), record("d", "unready")],
        YES,
        YES,
        ("False", UNREADY, "containers with unready status: [d]"),
        id="a pod that has begun is initialized",
    ),
    pytest.param(
        [init("i", "passed"), record("c", "passed")],
        NO,
        ("True", "PodCompleted", ""),
        ("False", "PodCompleted", ""),
        id="completed",
    ),
    pytest.param([record("c", "failed")], NO, YES, ("False", "PodFailed", ""), id="failed"),
]


@pytest.mark.parametrize(("containers", "network", "start", "ready"), CONDITIONS)
def test_conditions(
    containers: list[ContainerRecord],
    network: tuple[str, str, str],
    start: tuple[str, str, str],
    ready: tuple[str, str, str],
) -> None:
    assert told(containers) == {
        "PodReadyToStartContainers": network,
        "Initialized": start,
        "Ready": ready,
        "ContainersReady": ready,
    }


def test_pod_whose_container_waits_for_its_next_run_is_initialized() -> None:
    assert told([init("i"), record("c", "retry")], "OnFailure")["Initialized"] == YES


def test_pod_without_an_address_has_no_network() -> None:
    pod = PodRecord("Never", [record("c", "runs")], host_ip="9.9.9.9")
    status = pod_status(pod, 9.0)
    assert told([record("c", "runs")], ip="")["PodReadyToStartContainers"] == NO
    assert "podIP" not in status
    assert "podIPs" not in status
    pod.pod_ip = "10.0.0.1"
    status = pod_status(pod, 9.0)
    assert (status["podIP"], status["podIPs"]) == ("10.0.0.1", [{"ip": "10.0.0.1"}])
    assert (status["hostIP"], status["hostIPs"]) == ("9.9.9.9", [{"ip": "9.9.9.9"}])


def test_conditions_of_others_stay_and_their_words_about_ours_go() -> None:
    """While a node was away the node controller wrote that the pod is not ready; the scheduler said where it is."""
    scheduled = {"type": "PodScheduled", "status": "True", "reason": "Bound"}
    unready = {"type": "Ready", "status": "False", "reason": "NodeNotReady", "message": "the node is away"}
    stored = {"status": {"conditions": [scheduled, unready]}}
    status = object_merged(stored, {"status": pod_status(PodRecord("Never", [record("c", "runs")]), 9.0)})["status"]
    conditions = {one["type"]: one for one in status["conditions"]}
    assert conditions.keys() == READY | {"PodScheduled"}
    assert conditions["PodScheduled"] == scheduled
    assert {key: conditions["Ready"].get(key) for key in ("status", "reason", "message")} == {
        "status": "True",
        "reason": None,
        "message": None,
    }


def test_a_pod_whose_address_has_changed_has_only_the_new_one() -> None:
    stored = {"status": {"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.1"}], "podIPs": [{"ip": "10.0.0.9"}]}}
    pod = PodRecord("Never", [record("c", "runs")], "2.2.2.2", "10.0.0.1", known_ips=("1.1.1.1", "10.0.0.9"))
    status = object_merged(stored, {"status": pod_status(pod, 9.0)})["status"]
    assert (status["hostIPs"], status["podIPs"]) == ([{"ip": "2.2.2.2"}], [{"ip": "10.0.0.1"}])


GATES = [
    pytest.param([], 'corresponding condition of pod readiness gate "G" does not exist.', id="nobody has spoken"),
    pytest.param(["False"], 'the status of pod readiness gate "G" is not "True", but False', id="somebody said no"),
    pytest.param(["True"], "", id="it is met"),
]


@pytest.mark.parametrize(("said", "problem"), GATES)
def test_a_pod_is_ready_once_its_readiness_gates_are_met(said: list[str], problem: str) -> None:
    conditions = [{"type": "G", "status": status} for status in said]
    body = {"spec": {"readinessGates": [{"conditionType": "G"}]}, "status": {"conditions": conditions}}
    waits = unmet_gates(msgspec.convert(body, Pod))
    status = status_of(pod_status(PodRecord("Never", [record("c", "runs")], unmet_gates=waits), 9.0))
    ready = {one["type"]: one for one in status["conditions"]}
    assert waits == problem
    assert ready["ContainersReady"]["status"] == "True"
    assert (ready["Ready"]["status"], ready["Ready"].get("reason")) == (
        ("False", "ReadinessGatesNotReady") if problem else ("True", None)
    )


def test_init_containers_have_a_list_of_their_own() -> None:
    status = pod_status(PodRecord("Never", [init("i", "passed"), sidecar("s", "runs"), record("c", "runs")]), 9.0)
    assert [one["name"] for one in status["initContainerStatuses"]] == ["i", "s"]
    assert [one["name"] for one in status["containerStatuses"]] == ["c"]
    assert "initContainerStatuses" not in pod_status(PodRecord("Never", [record("c", "runs")]), 9.0)


RECORDS = [
    pytest.param(record("c"), False, False, {"waiting": {"reason": "ContainerCreating"}}, {}, id="waits"),
    pytest.param(
        record("c", "runs"), True, True, {"running": {"startedAt": "1970-01-01T00:00:01Z"}}, {}, id="runs and is ready"
    ),
    pytest.param(
        record("c", "unready"), False, False, {"running": {"startedAt": "1970-01-01T00:00:01Z"}}, {}, id="is not ready"
    ),
    pytest.param(record("c", "passed"), False, False, {"terminated": RAN.to_json()}, {}, id="passed"),
    pytest.param(init("c", "passed"), True, False, {"terminated": RAN.to_json()}, {}, id="an init container passed"),
    pytest.param(init("c", "failed"), False, False, {"terminated": BROKE.to_json()}, {}, id="an init container failed"),
    pytest.param(sidecar("c", "passed"), False, False, {"terminated": RAN.to_json()}, {}, id="a sidecar ended"),
    pytest.param(
        sidecar("c", "runs"), True, True, {"running": {"startedAt": "1970-01-01T00:00:01Z"}}, {}, id="a sidecar runs"
    ),
    pytest.param(
        record("c", "retry"),
        False,
        False,
        {"waiting": {"reason": "CrashLoopBackOff"}},
        {"terminated": BROKE.to_json()},
        id="waits for its next run",
    ),
]


@pytest.mark.parametrize(("container", "ready", "started", "state", "last"), RECORDS)
def test_container_status(container: ContainerRecord, ready: bool, started: bool, state: Any, last: Any) -> None:
    body = container.to_json()
    assert (body["ready"], body["started"], body["state"], body["lastState"]) == (ready, started, state, last)
    assert body.get("containerID", "") == container.container_id


def test_run_after_run_forgets_what_was() -> None:
    container = record("c", "runs")
    container.end(BROKE)
    assert (container.ready, container.started) == (False, False)
    container.run(3.0, "second")
    assert (container.ending, container.last, container.ready, container.started) == (None, BROKE, True, True)
    container.wait("ImagePullBackOff", "no such image")
    assert (container.ready, container.started, container.last) == (False, False, BROKE)
    assert container.to_json()["state"] == {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    container.run(4.0, "third")
    assert (container.reason, container.message, container.last) == ("", "", BROKE)


def test_ending_says_all_it_knows() -> None:
    times = {"startedAt": "1970-01-01T00:00:01Z", "finishedAt": "1970-01-01T00:00:02Z"}
    assert Ending(137, "OOMKilled", 1.0, 2.0, 9, "out of memory", "id").to_json() == {
        "exitCode": 137, "reason": "OOMKilled", "signal": 9, "message": "out of memory", "containerID": "id", **times,
    }  # fmt: skip
    assert RAN.to_json() == {"exitCode": 0, "reason": "Completed", **times}


@pytest.mark.parametrize(
    ("last", "ran", "wait"), [(0, 0, 10), (0.5, 0, 1), (10, 599.9, 20), (10, 600, 10), (200, 0, 300), (300, 0, 300)]
)
def test_backoff(last: float, ran: float, wait: float) -> None:
    assert Backoff().next_wait(last, ran) == wait
