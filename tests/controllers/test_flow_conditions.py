"""What steps wait for besides their targets: objects, services, paths in claims."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Event
from strato.api.volcano.flow import ClaimPathProbe, JobFlow, ObjectProbe
from strato.controllers.flow import NetworkProber
from strato.controllers.flow.claimlook import look_pod
from strato.controllers.flow.conditions import delay_seconds, kind_of_object
from tests.controllers.test_flow import ENABLED, flow, job_names, make, template, until_flow
from tests.controllers.world import World, play


def waits(name: str, *after: str, **probe: Any) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(after), "probe": probe}}


async def reasons(world: World) -> dict[str, str]:
    seen = await world.cluster.get(JobFlow, "f", "default")
    return {step.name: step.message for step in seen.status.waiting_steps}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_a_step_waits_for_an_object_and_says_so() -> None:
    async def scenario(world: World) -> None:
        entry = {"kind": "ConfigMap", "name": "data", "for": "jsonpath={.data.state}=ready"}
        await make(world, template("a"), flow(waits("a", objectList=[entry])))
        await world.settle(5)
        assert await reasons(world) == {"a": "ConfigMap data does not exist (waits for jsonpath={.data.state}=ready)"}
        await world.cluster.create(catalog.CONFIGMAP, config_map("data", state="half"), "default")
        await world.settle(120)
        assert (await reasons(world))["a"].startswith("ConfigMap data has 'half' there")
        assert await job_names(world) == []
        await world.cluster.patch(catalog.CONFIGMAP, "data", "default", {"data": {"state": "ready"}})
        seen = await until_flow(world, "Succeed")
        assert seen.status.waiting_steps == ()
        events = [e for e in (await world.cluster.list(Event, "default")).items if e.reason == "StepWaiting"]
        assert {e.message for e in events} >= {
            "step a waits: ConfigMap data does not exist (waits for jsonpath={.data.state}=ready)"
        }

    play(scenario, enabled=ENABLED)


def test_targets_come_first_and_all_conditions_must_hold() -> None:
    async def scenario(world: World) -> None:
        entries = [{"kind": "ConfigMap", "name": "one"}, {"kind": "ConfigMap", "name": "two"}]
        await make(world, template("a", pod={"seconds": 30}), template("b"))
        await make(world, flow({"name": "a"}, waits("b", "a", objectList=entries)))
        await world.settle(5)
        assert await reasons(world) == {}  # nothing is asked for a step whose targets are not ready
        await world.cluster.create(catalog.CONFIGMAP, config_map("one"), "default")
        await world.until_phase("f-a", "Completed")
        await world.settle(20)
        assert await reasons(world) == {"b": "ConfigMap two does not exist (waits for create)"}
        await world.cluster.create(catalog.CONFIGMAP, config_map("two"), "default")
        await until_flow(world, "Succeed")

    play(scenario, enabled=ENABLED)


def test_a_kind_that_the_server_does_not_have_is_waited_for() -> None:
    async def scenario(world: World) -> None:
        entry = {"apiVersion": "example.org/v1", "kind": "Policy", "name": "p", "for": "condition=Ready"}
        await make(world, template("a"), flow(waits("a", objectList=[entry])))
        await world.settle(5)
        assert await reasons(world) == {"a": "Policy p does not exist (waits for condition=Ready)"}

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("entry", "plural"),
    [
        (ObjectProbe(kind="ConfigMap"), "configmaps"),
        (ObjectProbe(api_version="apps/v1", kind="Deployment"), "deployments"),
        (ObjectProbe(api_version="x.org/v1", kind="Policy"), "policies"),
        (ObjectProbe(api_version="x.org/v1", kind="Class"), "classes"),
        (ObjectProbe(api_version="x.org/v1", kind="Sheep", resource="sheep"), "sheep"),
    ],
)
def test_the_plural_of_a_kind(entry: ObjectProbe, plural: str) -> None:
    assert kind_of_object(entry).plural == plural


def test_the_delay_grows_to_its_bound() -> None:
    delays = [delay_seconds(n) for n in range(40)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (2.0, 60.0)


def test_a_step_waits_until_a_service_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    async def answers(self: NetworkProber, host: str, port: int, path: str, header: tuple[str, str] | None) -> bool:
        asked.append((port, path))
        return len(asked) > 2

    monkeypatch.setattr(NetworkProber, "answers", answers)

    async def scenario(world: World) -> None:
        entry = {"serviceName": "web", "port": 80, "path": "/ready"}
        await make(world, template("server", pod={}), template("a"))
        await make(world, flow({"name": "server"}, waits("a", httpGetList=[entry])))
        await world.settle(5)
        assert await reasons(world) == {"a": "the service web does not exist"}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"volcano.sh/job-name": "f-server"},
                "ports": [{"name": n, "port": p, "targetPort": t} for n, p, t in (("a", 80, 8080), ("b", 81, 9))],
            },
        }
        await world.cluster.create(catalog.SERVICE, service, "default")
        await world.until_phase("f-a", "Completed")
        assert asked == [(8080, "/ready")] * 3

    play(scenario, enabled=ENABLED)


def test_a_step_waits_for_a_path_in_a_claim() -> None:
    async def scenario(world: World) -> None:
        entry = {"claimName": "data", "path": "in/_SUCCESS"}
        await make(world, template("a"), flow(waits("a", claimPathList=[entry])))
        await world.settle(3)
        assert await reasons(world) == {"a": "the claim data does not exist"}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await world.cluster.create(catalog.PERSISTENTVOLUMECLAIM, claim, "default")
        looks: list[str] = []

        async def another() -> bool:
            found = {pod.metadata.uid: pod for name, pod in (await world.pods()).items() if "-look-" in name}
            looks.extend(uid for uid in found if uid not in looks)
            return len(looks) > 1

        for code in (1, 0):  # the first one does not find it, the second one does

            async def present() -> bool:
                pods = [pod for name, pod in (await world.pods()).items() if "-look-" in name]
                return bool(pods) and pods[0].status.phase in ("", "Pending", "Running")

            await world.until(present)
            name, pod = next((n, p) for n, p in (await world.pods()).items() if "-look-" in n)
            looks.append(pod.metadata.uid)
            ended = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}
            status = {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [{"name": "look", "state": {"terminated": ended}}],
            }
            await world.cluster.patch(catalog.POD, name, "default", {"status": status}, subresource="status")
            if code:
                await world.settle(0.5)
                assert await reasons(world) == {"a": "'in/_SUCCESS' in the claim data is not there yet"}
        await until_flow(world, "Succeed")
        assert len(set(looks)) == 2
        assert not [name for name in await world.pods() if "-look-" in name]

    play(scenario, enabled=ENABLED)


def test_a_path_is_never_part_of_a_script() -> None:
    probe = ClaimPathProbe(claim_name="c", path="/a$(reboot)'; x")
    container = look_pod(JobFlow(), "s", probe, "busybox")["spec"]["containers"][0]
    assert container["command"] == ["sh", "-c", '[ -e "$0" ] || [ -L "$0" ]', "/claim/a$(reboot)'; x"]
    assert container["image"] == "busybox"


def test_a_path_that_never_comes_is_looked_for_ever_more_rarely() -> None:
    async def scenario(world: World) -> None:
        metadata = {"name": "data"}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        await world.cluster.create(catalog.PERSISTENTVOLUMECLAIM, claim, "default")
        await make(world, template("a"), flow(waits("a", claimPathList=[{"claimName": "data", "path": "x"}])))
        looks: dict[str, float] = {}
        status = {"phase": "Failed", "containerStatuses": [{"name": "look", "state": {"terminated": {"exitCode": 1}}}]}

        async def fail_each() -> bool:
            for name, pod in (await world.pods()).items():
                if "-look-" in name and pod.metadata.uid not in looks:
                    looks[pod.metadata.uid] = world.clock.monotonic()
                    await world.cluster.patch(catalog.POD, name, "default", {"status": status}, subresource="status")
            return len(looks) == 12

        await world.until(fail_each, 900)
        times = list(looks.values())
        gaps = [later - earlier for earlier, later in pairwise(times)]
        # an attempt, and the moment until its pod is seen and has ended
        assert all(delay_seconds(n) - 1 <= gap <= delay_seconds(n + 1) + 2 for n, gap in enumerate(gaps)), gaps

    play(scenario, enabled=ENABLED)
