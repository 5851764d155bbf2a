from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.client.cluster import PatchType
from strato.clock import VirtualClock, run_virtual
from strato.node.hollow import HollowBehaviour, HollowNodes, HollowOffer
from strato.node.hollow.images import PullSpeed
from strato.node.hollow.runplan import EXIT_CODE, FAILURE_PROBABILITY, RUN_SECONDS, START_SECONDS, STOP_SECONDS
from strato.node.hollow.starttemplates import StartTemplate, StartTemplates
from tests.node.fake_api import FakeApi

Story = Callable[[FakeApi, HollowNodes, VirtualClock], Awaitable[None]]


def play(story: Story, **options: Any) -> FakeApi:
    clock = VirtualClock()
    api = FakeApi()

    async def main() -> None:
        names = [f"hollow-{number}" for number in range(options.pop("count", 2))]
        offered = dict.fromkeys(names, options.pop("offer", HollowOffer()))
        nodes = HollowNodes(api.cluster(), None, clock, random.Random(1), nodes=offered, **options)
        task = asyncio.create_task(nodes.run())
        await nodes.registered.wait()
        await story(api, nodes, clock)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(clock, main())
    return api


def status(api: FakeApi, name: str) -> dict[str, Any]:
    pod = api.pod(name)
    assert pod is not None
    return pod["status"]


def test_registers_nodes_as_a_kubelet_does() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        await clock.sleep(0.1)  # the leases follow

    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "8"}
    api = play(story, offer=HollowOffer(capacity=capacity, labels={"zone": "a"}))
    node = api.objects["/api/v1/nodes/hollow-1"]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "hollow-1"
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["status"]["allocatable"] == {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "10",
        "ephemeral-storage": "100Gi",
        "nvidia.com/gpu": "8",
    }
    assert node["status"]["conditions"][-1]["type"] == "Ready"
    lease = api.objects["/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/hollow-1"]
    assert lease["spec"]["holderIdentity"] == "hollow-1"
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


def test_a_bound_pod_runs_at_once_with_a_whole_status() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "5"})
        await clock.sleep(1)
        got = status(api, "p")
        assert got["phase"] == "Running"
        assert got["podIP"]
        assert got["hostIP"] == "172.16.0.1"
        assert got["startTime"]
        assert got["containerStatuses"][0]["ready"] is True
        assert {c["type"]: c["status"] for c in got["conditions"]} == {
            "PodScheduled": "True",
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
        }
        await clock.sleep(3.9)
        assert api.phase("p") == "Running"
        await clock.sleep(0.2)
        assert api.phase("p") == "Succeeded"

    api = play(story)
    assert api.phases("p") == ["Pending", "Running", "Succeeded"]
    assert sum(path.endswith("pods/p/status") for _, path in api.requests) == 2


async def say(api: FakeApi, kind: str, verdict: str) -> None:
    """Write a condition of a pod's as a client does."""
    body = {"status": {"conditions": [{"type": kind, "status": verdict}]}}
    await api.cluster().patch(catalog.POD, "p", "default", body, patch_type=PatchType.STRATEGIC, subresource="status")


def test_conditions_of_others_are_left_alone_and_readiness_gates_count() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        gates = {"readinessGates": [{"conditionType": "example.com/Serves"}]}
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "5"}, **gates)
        ready = []
        for verdict in ("", "False", "True", "False"):
            if verdict:
                await say(api, "example.com/Serves", verdict)
                await say(api, "example.com/Note", "Unknown")
            await clock.sleep(1)
            verdicts = {one["type"]: one["status"] for one in status(api, "p")["conditions"]}
            ready.append((verdicts["Ready"], verdicts["ContainersReady"]))
        assert ready == [("False", "True"), ("False", "True"), ("True", "True"), ("False", "True")]
        await clock.sleep(2)
        assert api.phase("p") == "Succeeded"
        assert {one["type"]: one["status"] for one in status(api, "p")["conditions"]} == {
            "PodScheduled": "True",
            "PodReadyToStartContainers": "False",
            "Initialized": "True",
            "Ready": "False",
            "ContainersReady": "False",
            "example.com/Serves": "False",
            "example.com/Note": "Unknown",
        }

    play(story)


def test_a_pod_that_ends_before_a_kubelet_would_look_is_reported_once() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "0.1"})
        await clock.sleep(0.05)
        assert api.phase("p") == "Pending"
        await clock.sleep(0.06)
        assert api.phase("p") == "Succeeded"

    api = play(story)
    assert api.phases("p") == ["Pending", "Succeeded"]


def test_an_annotation_that_cannot_be_read_is_told_on_the_pod() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "soon"})
        await clock.sleep(1)

    api = play(story)
    (event,) = [body for path, body in api.objects.items() if "/events/" in path]
    assert (event["type"], event["reason"], event["involvedObject"]["name"]) == ("Warning", "UnreadableAnnotation", "p")
    assert event["message"].startswith(
        f"annotation {RUN_SECONDS} is ignored: 'soon' is no number of seconds, 0 or more"
    )


ENDS = [
    pytest.param({}, {}, "Succeeded", 0, id="an unknown command without a restart completes at once"),
    pytest.param({}, {"restartPolicy": "OnFailure"}, "Succeeded", 0, id="on failure completes at once too"),
    pytest.param({EXIT_CODE: "3"}, {}, "Failed", 3, id="an exit code is honoured"),
    pytest.param({FAILURE_PROBABILITY: "1"}, {}, "Failed", 1, id="a sure failure exits with 1"),
    pytest.param({FAILURE_PROBABILITY: "1", EXIT_CODE: "7"}, {}, "Failed", 7, id="a failure exits with the code asked"),
    pytest.param({FAILURE_PROBABILITY: "0", EXIT_CODE: "7"}, {}, "Succeeded", 0, id="no failure exits with 0"),
    pytest.param({RUN_SECONDS: "0.5"}, {}, "Succeeded", 0, id="after a while"),
    pytest.param({RUN_SECONDS: "0.5", EXIT_CODE: "3"}, {}, "Failed", 3, id="after a while with a code"),
]


@pytest.mark.parametrize(("annotations", "spec", "phase", "code"), ENDS)
def test_how_pods_end(annotations: dict[str, str], spec: dict[str, Any], phase: str, code: int) -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations=annotations, **spec)
        await clock.sleep(1)
        assert api.phase("p") == phase
        ended = status(api, "p")["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (code, "Error" if code else "Completed")
        assert nodes.pod_count == 0

    play(story)


def test_a_service_runs_until_it_is_deleted() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", restartPolicy="Always")
        await clock.sleep(100_000)
        assert api.phase("p") == "Running"
        await api.cluster().delete(_pod_kind(), "p", "default")
        await clock.sleep(0.1)
        assert api.phase("p") == "gone"
        assert nodes.pod_count == 0

    play(story, max_lease_rate=0)


def slow(seconds: int) -> dict[str, Any]:
    return {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}


@pytest.mark.parametrize(
    ("spec", "grace", "gone_after"),
    [
        pytest.param({"command": ["sleep", "1000"]}, 12, 12, id="sleep is killed when the grace period is over"),
        pytest.param({"command": ["sleep", "25"]}, 30, 6, id="what ends by itself meanwhile is not waited for"),
        pytest.param({"command": ["nginx"]}, 30, 0, id="a server ends when it is told to"),
        pytest.param({}, 30, 0, id="so does a container without a command"),
        pytest.param(slow(7), 30, 7, id="a preStop hook comes first"),
        pytest.param(slow(7), 3, 3, id="but not beyond the grace period"),
        pytest.param({"annotations": {STOP_SECONDS: "9"}}, 30, 9, id="as the annotation says"),
        pytest.param({"annotations": {STOP_SECONDS: "1"}}, 30, 1, id="a second is waited for"),
        pytest.param({**slow(7), "beside": slow(3)}, 30, 7, id="the first of two containers takes longer"),
        pytest.param({**slow(3), "beside": slow(7)}, 30, 7, id="the second one does"),
        pytest.param({**slow(3), "beside": {"command": ["sleep", "1000"]}}, 12, 12, id="the second one is killed"),
    ],
)
def test_the_grace_period_of_a_deletion(spec: dict[str, Any], grace: int, gone_after: int) -> None:
    spec = dict(spec)
    annotations, beside = spec.pop("annotations", {}), spec.pop("beside", None)

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        containers = [{"name": "c", "image": "nginx", **spec}]
        containers += [{"name": "d", "image": "nginx", **beside}] if beside is not None else []
        for name in ("first", "p"):  # the second starts from a template
            api.create_pod(name, "hollow-0", containers=deepcopy(containers), annotations=annotations)
            await clock.sleep(1)
        await clock.sleep(18)
        await api.cluster().delete(_pod_kind(), "p", "default", grace_period_seconds=grace)
        if gone_after:
            await clock.sleep(gone_after - 0.5)
            assert api.phase("p") == "Running"
        await clock.sleep(1.1)
        assert api.phase("p") == "gone"

    play(story, max_lease_rate=0)


def test_a_second_deletion_shortens_the_grace_period() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", containers=[{"name": "c", "image": "x", "command": ["sleep", "1000"]}])
        await clock.sleep(1)
        for grace in (100, 5):
            await api.cluster().delete(_pod_kind(), "p", "default", grace_period_seconds=grace)
            await clock.sleep(4)
            assert api.phase("p") == "Running"
        await clock.sleep(1.5)
        assert api.phase("p") == "gone"

    play(story, max_lease_rate=0)


LAST = [
    pytest.param({"command": ["sleep", "1000"]}, "Always", 12, "Failed", 137, id="killed at the end of its grace"),
    pytest.param({"command": ["nginx"]}, "Always", 30, "Failed", 143, id="ended as it was asked to"),
    pytest.param({"command": ["sleep", "25"]}, "Always", 30, "Succeeded", 0, id="passed meanwhile, a service as well"),
    pytest.param({"command": ["sh", "-c", "exit 3"]}, "OnFailure", 30, "Failed", 3, id="waited for its next run"),
]


@pytest.mark.parametrize(("spec", "policy", "grace", "phase", "code"), LAST)
def test_a_deleted_pod_whose_end_somebody_awaits_says_how_it_ended(
    spec: dict[str, Any], policy: str, grace: int, phase: str, code: int
) -> None:
    """As a kubelet does, whose last status is final; of a pod that nobody keeps nothing is written at its deletion."""
    writes: list[int] = []

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        for name, finalizers in (("p", ["example.com/counts"]), ("free", [])):
            containers = [{"name": "c", "image": "nginx", **spec}]
            api.create_pod(name, "hollow-0", containers=containers, restartPolicy=policy, finalizers=finalizers)
        await clock.sleep(20)
        added = {"type": "DisruptionTarget", "status": "True"}  # as by an eviction
        kept = [*status(api, "p")["conditions"], added]
        await api.cluster().patch(_pod_kind(), "p", "default", {"status": {"conditions": kept}}, subresource="status")
        for name in ("p", "free"):
            writes.append(sum(path.endswith(f"pods/{name}/status") for _, path in api.requests))
            await api.cluster().delete(_pod_kind(), name, "default", grace_period_seconds=grace)
        await clock.sleep(40)
        writes.extend(sum(path.endswith(f"pods/{name}/status") for _, path in api.requests) for name in ("p", "free"))
        assert api.phase("p") == phase
        assert {"DisruptionTarget", "PodScheduled", "Ready"} <= {one["type"] for one in status(api, "p")["conditions"]}
        assert status(api, "p")["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
        assert api.phase("free") == "gone"
        assert nodes.pod_count == 0

    api = play(story, max_lease_rate=0)
    assert (writes[2] - writes[0], writes[3] - writes[1]) == (1, 0)
    assert sum(request == ("DELETE", "/api/v1/namespaces/default/pods/p") for request in api.requests) <= 3


def test_a_pod_that_is_over_is_told_of_once_though_it_is_kept() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "5"}, finalizers=["example.com/counts"])
        await clock.sleep(10)
        await api.cluster().delete(_pod_kind(), "p", "default", grace_period_seconds=0)
        await clock.sleep(10)
        assert (api.phase("p"), nodes.pod_count) == ("Succeeded", 0)

    api = play(story)
    assert sum(path.endswith("pods/p/status") for _, path in api.requests) == 2


def test_failing_containers_restart_with_growing_waits() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", restartPolicy="OnFailure", annotations={EXIT_CODE: "1", RUN_SECONDS: "1"})
        starts = []
        for _ in range(200):
            await clock.sleep(0.5)
            entry = status(api, "p")["containerStatuses"][0]
            if "running" in entry["state"] and (not starts or entry["restartCount"] != starts[-1][0]):
                starts.append((entry["restartCount"], round(clock.monotonic())))
            assert api.phase("p") == "Running"
        assert [count for count, _ in starts] == [0, 1, 2, 3]
        assert [b - a for (_, a), (_, b) in pairwise(starts)] == pytest.approx([11, 21, 41], abs=1)
        waiting = status(api, "p")["containerStatuses"][0]
        assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert waiting["lastState"]["terminated"]["exitCode"] == 1

    play(story)


def test_the_active_deadline_fails_the_pod() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", activeDeadlineSeconds=10, annotations={RUN_SECONDS: "60"})
        await clock.sleep(9)
        assert api.phase("p") == "Running"
        await clock.sleep(2)
        assert status(api, "p")["reason"] == "DeadlineExceeded"
        assert api.phase("p") == "Failed"

    play(story)


def changed_pod(api: FakeApi, generation: int, **spec: Any) -> None:
    pod = api.pod("p")
    assert pod is not None
    pod = deepcopy(pod)
    pod["metadata"]["generation"] = generation
    pod["spec"] |= spec
    api.put("/api/v1/namespaces/default/pods/p", pod)


def test_what_may_change_of_a_pod_that_runs_is_done_at_once() -> None:
    def containers(cpu: str) -> list[dict[str, Any]]:
        return [{"name": "main", "image": "x", "command": ["./work"], "resources": {"requests": {"cpu": cpu}}}]

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        started = containers("1")
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "60"}, containers=started, activeDeadlineSeconds=90)
        await clock.sleep(1)
        assert status(api, "p")["containerStatuses"][0]["resources"] == {"requests": {"cpu": "1"}}
        changed_pod(api, 2, containers=containers("2"), ephemeralContainers=[{"name": "look", "image": "y"}])
        await clock.sleep(1)
        found = status(api, "p")
        assert found["observedGeneration"] == 2
        assert found["containerStatuses"][0]["resources"] == {"requests": {"cpu": "2"}}
        assert found["containerStatuses"][0]["allocatedResources"] == {"cpu": "2"}
        assert "running" in found["ephemeralContainerStatuses"][0]["state"]
        changed_pod(api, 3, activeDeadlineSeconds=20)
        await clock.sleep(19)
        found = status(api, "p")
        assert (found["phase"], found["reason"]) == ("Failed", "DeadlineExceeded")
        assert "terminated" in found["ephemeralContainerStatuses"][0]["state"]

    play(story)


def test_several_containers_end_one_by_one() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        containers = [
            {"name": "a", "image": "x", "command": ["sleep", "2"]},
            {"name": "b", "image": "x", "command": ["sh", "-c", "sleep 4"]},
        ]
        inits = [{"name": "i", "image": "x"}, {"name": "side", "image": "x", "restartPolicy": "Always"}]
        api.create_pod("p", "hollow-0", containers=containers, initContainers=inits)
        await clock.sleep(3)
        got = status(api, "p")
        assert got["phase"] == "Running"
        assert "terminated" in got["containerStatuses"][0]["state"]
        assert "running" in got["containerStatuses"][1]["state"]
        assert "terminated" in got["initContainerStatuses"][0]["state"]
        assert "running" in got["initContainerStatuses"][1]["state"]
        await clock.sleep(2)
        got = status(api, "p")
        assert got["phase"] == "Succeeded"
        assert "terminated" in got["initContainerStatuses"][1]["state"]

    play(story)


def test_a_stopped_node_is_silent() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        await clock.sleep(0.1)  # the leases are written
        nodes.stop_node("hollow-0")
        lease = api.objects["/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/hollow-0"]
        other = api.objects["/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/hollow-1"]
        before, before_other = lease["spec"]["renewTime"], other["spec"]["renewTime"]
        api.create_pod("p", "hollow-0")
        await clock.sleep(60)
        assert lease["spec"]["renewTime"] == before
        assert other["spec"]["renewTime"] != before_other
        assert api.phase("p") == "Pending"
        nodes.start_node("hollow-0")
        await clock.sleep(15)
        assert api.phase("p") == "Succeeded"
        assert lease["spec"]["renewTime"] != before

    play(story)


def test_refused_writes_are_tried_again() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.fail_next.append(("PATCH", 503))
        api.create_pod("p", "hollow-0")
        await clock.sleep(3)
        assert api.phase("p") == "Succeeded"

    play(story)


@pytest.mark.parametrize("rate", [pytest.param(0.0, id="written once"), pytest.param(100.0, id="renewed")])
def test_a_first_lease_that_was_refused_is_written_a_second_later(rate: float) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/hollow-"

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.fail_next.append(("POST", 503))
        await clock.sleep(0.5)
        assert sum(key.startswith(path) for key in api.objects) == 1
        await clock.sleep(1)
        assert sum(key.startswith(path) for key in api.objects) == 2

    play(story, max_lease_rate=rate)


def test_a_lease_that_somebody_deleted_is_written_anew() -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/hollow-"

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        await clock.sleep(0.1)
        renewed = api.objects[f"{path}1"]["spec"]["renewTime"]
        del api.objects[f"{path}0"]
        await clock.sleep(15)
        assert api.objects[f"{path}0"]["spec"]["holderIdentity"] == "hollow-0"
        assert api.objects[f"{path}1"]["spec"]["renewTime"] > renewed

    play(story)


def test_leases_of_many_nodes_stay_under_the_rate() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        await clock.sleep(0.1)  # the leases are written
        lease = api.objects["/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/hollow-0"]
        assert lease["spec"]["leaseDurationSeconds"] == 200 / 5 * 4
        api.requests.clear()
        await clock.sleep(100)
        renewals = [path for method, path in api.requests if method == "PATCH" and "/leases/" in path]
        assert 450 <= len(renewals) <= 501
        assert len(set(renewals)) == 200

    play(story, count=200, max_lease_rate=5.0)


def test_a_clock_that_was_set_back_does_not_lengthen_the_run_of_a_pod_that_is_resumed() -> None:
    """Chaos seed 15: a node started anew after its clock was set back by an hour, and its pods ran an hour longer."""

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "20"})
        api.create_pod("slow", "hollow-0", annotations={RUN_SECONDS: "20", START_SECONDS: "10"})
        await clock.sleep(5)
        nodes.stop_node("hollow-0")
        clock._start -= 3600
        nodes.start_node("hollow-0")
        await clock.sleep(21)
        assert api.phase("p") == "Succeeded"
        await clock.sleep(10)
        assert api.phase("slow") == "Succeeded"

    play(story)


def test_a_pod_that_has_ended_does_not_run_again_when_its_node_boots_before_it_has_read_so() -> None:
    """Chaos seed 20067: the event of a status that the node had written itself came after the boot."""

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", restartPolicy="OnFailure", annotations={RUN_SECONDS: "10"})
        await clock.sleep(9)
        watchers, api.watchers = api.watchers, []
        await clock.sleep(2)
        assert api.phase("p") == "Succeeded"
        written = len(api.history)
        nodes.stop_node("hollow-0")
        nodes.start_node("hollow-0", is_rebooted=True)
        await clock.sleep(5)
        api.watchers = watchers
        phases = {body["status"].get("phase") for _, path, body in api.history[written:] if path.endswith("/pods/p")}
        assert phases == {"Succeeded"}

    play(story)


def test_pods_of_a_former_life_go_on() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("p", "hollow-0", annotations={RUN_SECONDS: "50"})
        await clock.sleep(20)
        nodes.stop_node("hollow-0")
        await clock.sleep(10)
        nodes.start_node("hollow-0")
        await clock.sleep(15)
        assert api.phase("p") == "Running"
        await clock.sleep(10)
        assert api.phase("p") == "Succeeded"

    play(story)


TWO = [
    {"name": "a", "image": "x", "command": ["sleep", "2"]},
    {"name": "b", "image": "100%", "command": ["sh", "-c", "sleep 4"]},
]
ALIKE = [
    pytest.param({"containers": [{"name": "c", "image": "x", "command": ["sleep", "5"]}]}, True, id="sleep and end"),
    pytest.param({"containers": TWO}, True, id="two containers end one after the other"),
    pytest.param({"containers": TWO, "restartPolicy": "OnFailure"}, True, id="two that would be restarted"),
    pytest.param({"restartPolicy": "Always"}, True, id="a service"),
    pytest.param({"containers": [TWO[0]], "restartPolicy": "Always"}, True, id="a service that ends and is restarted"),
    pytest.param({"containers": [{**TWO[0], "image": "\0uid\0"}]}, True, id="a text that looks like a gap"),
    pytest.param({}, False, id="over at once"),
    pytest.param({"containers": [{**TWO[0], "command": ["sleep", "0.1"]}]}, False, id="over before it is seen"),
    pytest.param({"containers": TWO, "activeDeadlineSeconds": 3}, False, id="a deadline"),
    pytest.param({"containers": TWO, "initContainers": [{"name": "i", "image": "x"}]}, False, id="an init container"),
    pytest.param({"containers": TWO, "annotations": {RUN_SECONDS: "3"}}, False, id="a wish"),
]


@pytest.mark.parametrize(("spec", "has_form"), ALIKE)
def test_pods_alike_are_told_of_as_each_for_itself(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], has_form: bool
) -> None:
    formed: list[StartTemplate | None] = []
    form_of = StartTemplates.of

    def note(forms: StartTemplates, pod: Pod, min_seconds: float) -> StartTemplate | None:
        formed.append(form_of(forms, pod, min_seconds))
        return formed[-1]

    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        await clock.sleep(0.1)  # what comes in the list is written in another way
        api.create_pod("first", "hollow-0", **deepcopy(spec))
        await clock.sleep(0.6)
        for name in "abc":
            api.create_pod(name, "hollow-1", **deepcopy(spec))
        api.fail_next.append(("PATCH", 503))
        await clock.sleep(1.6)
        api.create_pod("late", "hollow-0", **deepcopy(spec))
        await clock.sleep(0.5)
        await api.cluster().delete(_pod_kind(), "b", "default")
        await clock.sleep(30)

    monkeypatch.setattr(StartTemplates, "of", note)
    alike = play(story, max_lease_rate=0)
    monkeypatch.setattr(StartTemplates, "of", lambda *_: None)
    alone = play(story, max_lease_rate=0)
    assert alike.history == alone.history
    assert [template is not None for template in formed] == [False, *[has_form] * 4]


def _pod_kind() -> Any:
    return catalog.POD


def test_a_pod_waits_for_its_image_and_its_start() -> None:
    async def story(api: FakeApi, nodes: HollowNodes, clock: VirtualClock) -> None:
        api.create_pod("slow", "hollow-0", annotations={START_SECONDS: "2", RUN_SECONDS: "inf"})
        await clock.sleep(6.5)
        waiting = status(api, "slow")
        assert waiting["phase"] == "Pending"
        assert waiting["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await clock.sleep(1)
        assert status(api, "slow")["phase"] == "Running"
        api.create_pod("next", "hollow-0", annotations={RUN_SECONDS: "inf"})
        await clock.sleep(0.5)
        assert status(api, "next")["phase"] == "Running", "its image is there"

    play(story, behaviour=HollowBehaviour(pulls=PullSpeed(bytes_per_second=100 * 2**20, size_bytes=500 * 2**20)))
