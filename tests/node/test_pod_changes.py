"""Pods that are changed while they run: their resources, and containers that are started to look at them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strato.api.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from strato.api.pods import effective_requests
from strato.api.quantity import parse
from strato.clock import VirtualClock
from strato.node.podstatus import phase_of, pod_status
from strato.node.records import record_of
from strato.node.resizes import DEFERRED, INFEASIBLE, Pending, needs_restart, verdict
from strato.node.sandbox.podworker import RESIZE_RETRY_SECONDS, PodWorker
from tests.node.fake_api import status_of
from tests.node.podworlds import FakeMachine, changed, live

SMALL, LARGE = {"requests": {"cpu": "100m", "memory": "64Mi"}}, {"requests": {"cpu": "1", "memory": "64Mi"}}


def main(resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "main", "image": "x", "resources": resources, **more}


def resized(worker: PodWorker, resources: dict[str, Any], **more: Any) -> Pod:
    pod = changed(worker.pod, containers=[main(resources, **more)])
    return replace(pod, metadata=replace(pod.metadata, generation=worker.pod.metadata.generation + 1))


def shown(worker: PodWorker) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return resources and allocated resources of the container, and the conditions about a resize."""
    body = msgspec.json.decode(msgspec.json.encode(status_of(pod_status(worker.record, 0.0))))
    (status,) = body["containerStatuses"]
    conditions = {one["type"]: one for one in body["conditions"] if one["type"].startswith("PodResize")}
    return status["resources"], status.get("allocatedResources", {}), conditions


def test_a_running_container_gets_its_new_resources_at_once() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        assert shown(worker) == (SMALL, SMALL["requests"], {})
        worker.update(resized(worker, LARGE))
        assert machine.resized == [("main", LARGE)]
        assert shown(worker) == (LARGE, LARGE["requests"], {})
        worker.next_write(0.0)
        assert [reason for reason, _ in machine.events if reason.startswith("Resize")] == [
            "ResizeStarted",
            "ResizeCompleted",
        ]
        assert len(machine.starts) == 1

    live(story, {"main": [(1e6, 0)]}, containers=[main(SMALL)])


def test_a_container_is_restarted_where_its_policy_says_so() -> None:
    policy = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}

    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        worker.update(resized(worker, LARGE, **policy))
        assert shown(worker)[0] == SMALL
        assert shown(worker)[2]["PodResizeInProgress"]["observedGeneration"] == worker.pod.metadata.generation
        await clock.sleep(5)
        assert [at for _, at in machine.starts] == [0.0, 5.0]
        assert ("Killing", "Container main resize requires restart") in machine.events
        assert shown(worker) == (LARGE, LARGE["requests"], {})

    live(story, {"main": [(1e6, 0)]}, containers=[main(SMALL, **policy)])


def test_what_a_pod_asks_for_as_a_whole_is_resized_too() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        assert status_of(pod_status(worker.record, 0.0))["resources"] == SMALL
        machine.pending = Pending(DEFERRED, "too much")
        worker.update(changed(worker.pod, resources=LARGE))
        assert status_of(pod_status(worker.record, 0.0))["allocatedResources"] == SMALL["requests"]
        machine.pending = None
        worker.resize()
        status = status_of(pod_status(worker.record, 0.0))
        assert (status["resources"], status["allocatedResources"]) == (LARGE, LARGE["requests"])
        assert machine.resized_pods == [LARGE, LARGE], "before its containers may get more, and after they get less"

    live(story, {"main": [(1e6, 0)]}, containers=[main(SMALL)], resources=SMALL)


def test_a_limit_of_the_pod_below_what_is_used_is_tried_again() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        machine.pod_in_use = "attempting to set pod memory limit (1) below current usage (2)"
        worker.update(changed(worker.pod, resources=LARGE))
        status = status_of(pod_status(worker.record, 0.0))
        (problem,) = [one for one in status["conditions"] if one["type"] == "PodResizeInProgress"]
        assert (problem["reason"], machine.pod_in_use in problem["message"]) == ("Error", True)
        machine.pod_in_use = ""
        await clock.sleep(2 * RESIZE_RETRY_SECONDS)
        assert not worker.record.resize_problem
        assert "PodResizeInProgress" not in {
            one["type"] for one in status_of(pod_status(worker.record, 0.0))["conditions"]
        }
        assert machine.resized_pods[-1] == LARGE

    live(story, {"main": [(1e6, 0)]}, containers=[main(SMALL)], resources=SMALL)


@pytest.mark.parametrize("reason", [DEFERRED, INFEASIBLE])
def test_a_resize_that_does_not_fit_waits(reason: str) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        machine.pending = Pending(reason, "too much")
        worker.update(resized(worker, LARGE))
        resources, allocated, conditions = shown(worker)
        assert (resources, allocated, machine.resized) == (SMALL, SMALL["requests"], [])
        assert (conditions["PodResizePending"]["reason"], conditions["PodResizePending"]["message"]) == (
            reason,
            "too much",
        )
        machine.pending = Pending(reason, "still too much")
        worker.resize()
        assert [said for said, _ in machine.events].count(f"Resize{reason}") == 1
        assert shown(worker)[2]["PodResizePending"]["message"] == "still too much"
        machine.pending = None
        worker.resize()
        assert shown(worker) == (LARGE, LARGE["requests"], {})

    live(story, {"main": [(1e6, 0)]}, containers=[main(SMALL)])


def test_a_pod_that_asks_for_what_it_has_waits_for_no_room() -> None:
    """Its node may have less by now than it has given."""

    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        machine.pending = Pending(DEFERRED, "too much")
        worker.update(changed(worker.pod, activeDeadlineSeconds=1000))
        assert shown(worker) == (SMALL, SMALL["requests"], {})
        assert not [reason for reason, _ in machine.events if reason.startswith("Resize")]

    live(story, {"main": [(1e6, 0)]}, containers=[main(SMALL)])


def test_a_limit_below_what_is_used_is_tried_again() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        machine.in_use = "memory limit (1) below current usage (2)"
        worker.update(resized(worker, LARGE))
        resources, allocated, conditions = shown(worker)
        assert (resources, allocated) == (SMALL, LARGE["requests"])
        assert conditions["PodResizeInProgress"]["reason"] == "Error"
        assert "cannot decrease memory limits: memory limit (1)" in conditions["PodResizeInProgress"]["message"]
        machine.in_use = ""
        await clock.sleep(2 * RESIZE_RETRY_SECONDS)
        assert shown(worker) == (LARGE, LARGE["requests"], {})

    live(story, {"main": [(1e6, 0)]}, containers=[main(SMALL)])


def test_a_node_that_comes_back_knows_what_it_has_given() -> None:
    spec = {"containers": [main(LARGE)]}
    status = {"containerStatuses": [{"name": "main", "resources": SMALL, "allocatedResources": SMALL["requests"]}]}
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": status}, Pod)
    (container,) = record_of(pod, host_ip="", now=0.0).containers
    assert container.allocated.requests == container.actual.requests == SMALL["requests"]
    status["containerStatuses"][0]["allocatedResources"] = LARGE["requests"]
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": status}, Pod)
    (container,) = record_of(pod, host_ip="", now=0.0).containers
    assert (container.allocated.requests, container.actual.requests) == (LARGE["requests"], SMALL["requests"])


def test_what_others_say_of_a_readiness_gate_is_told_at_once() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        ready = []
        for holds in ("False", "True"):
            told = len(machine.shown)
            said = msgspec.convert({"conditions": [{"type": "G", "status": holds}]}, PodStatus)
            worker.update(replace(worker.pod, status=said))
            conditions = {one["type"]: one["status"] for one in pod_status(worker.record, 0.0)["conditions"]}
            ready.append((conditions["Ready"], conditions["ContainersReady"], len(machine.shown) - told))
            worker.update(worker.pod)
            assert len(machine.shown) == told + 1, "it says nothing new"
        assert ready == [("False", "True", 1), ("True", "True", 1)]

    live(story, {"main": [(1e6, 0)]}, readinessGates=[{"conditionType": "G"}])


def with_debugger(worker: PodWorker, *names: str) -> Pod:
    return changed(worker.pod, ephemeralContainers=[{"name": name, "image": "y"} for name in names])


def test_an_ephemeral_container_runs_once_and_says_nothing_about_the_pod() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        worker.update(with_debugger(worker, "look"))
        await clock.sleep(50)
        assert machine.starts == [("main", 0.0), ("look", 5.0)]
        (debugger,) = worker.record.ephemeral
        assert debugger.ending is not None
        assert (debugger.ending.exit_code, phase_of(worker.record)) == (3, "Running")
        worker.update(with_debugger(worker, "more", "look"))
        await clock.sleep(5)
        assert machine.starts[2:] == [("more", 55.0)]
        status = status_of(pod_status(worker.record, 0.0))
        assert [one["name"] for one in status["ephemeralContainerStatuses"]] == ["look", "more"]
        assert "started" not in status["ephemeralContainerStatuses"][0]

    live(story, {"main": [(1e6, 0)], "look": [(10.0, 3)], "more": [(1e6, 0)]}, containers=[main(SMALL)])


def test_an_ephemeral_container_ends_with_its_pod() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        worker.update(with_debugger(worker, "look"))
        await clock.sleep(50)
        assert [directory for directory, _, _ in machine.signals] == ["look/0"]
        assert phase_of(worker.record) == "Succeeded"
        assert worker.record.ephemeral[0].state == "terminated"

    live(story, {"main": [(20.0, 0)], "look": [(1e6, 0)]}, restartPolicy="Never", containers=[main(SMALL)])


def spec_of(cpu: str, memory: str = "1Gi") -> PodSpec:
    return PodSpec(containers=(Container(resources=ResourceRequirements(requests={"cpu": cpu, "memory": memory})),))


NODE = {"cpu": "4", "memory": "8Gi"}
VERDICTS = [
    ("it fits", "1", ["1", "2"], None),
    (
        "more than there is",
        "5",
        [],
        (INFEASIBLE, "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"),
    ),
    (
        "more than is left",
        "2",
        ["1", "1500m"],
        (DEFERRED, "Node didn't have enough resource: cpu, requested: 2000, used: 2500, capacity: 4000"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "others", "want"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS])
def test_verdict(wanted: str, others: list[str], want: tuple[str, str] | None) -> None:
    assert verdict(spec_of(wanted), map(spec_of, others), NODE) == want


@given(st.integers(1, 6000), st.lists(st.integers(1, 2000), max_size=5))
def test_what_is_given_is_there(wanted: int, others: list[int]) -> None:
    specs = [spec_of(f"{cpu}m", "1Mi") for cpu in others]
    if verdict(spec_of(f"{wanted}m", "1Mi"), specs, NODE) is None:
        total = wanted + sum(effective_requests(spec)["cpu"].milli_value for spec in specs)
        assert total <= parse(NODE["cpu"]).milli_value


POLICIES = [
    ("none", {}, LARGE, False),
    ("of what changes", {"cpu": "RestartContainer"}, LARGE, True),
    ("of what does not", {"memory": "RestartContainer"}, LARGE, False),
    ("the same in other words", {"cpu": "RestartContainer"}, {"requests": {"cpu": "0.1", "memory": "64Mi"}}, False),
    ("of a limit that is new", {"cpu": "RestartContainer"}, {**SMALL, "limits": {"cpu": "2"}}, True),
    ("not wanted", {"cpu": "NotRequired"}, LARGE, False),
]


@pytest.mark.parametrize(("policy", "wanted", "want"), [row[1:] for row in POLICIES], ids=[row[0] for row in POLICIES])
def test_needs_restart(policy: dict[str, str], wanted: dict[str, Any], want: bool) -> None:
    policies = [{"resourceName": name, "restartPolicy": restart} for name, restart in policy.items()]
    container = msgspec.convert(main(wanted, resizePolicy=policies), Container)
    assert needs_restart(container, msgspec.convert(SMALL, ResourceRequirements)) is want
