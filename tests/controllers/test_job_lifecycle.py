"""Whole lives of jobs against the real server, in virtual time (volcano-controllers Part L)."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import ConfigMap, Service
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.api.wire import Request, Response
from strato.clock import Clock
from strato.controllers import DEFAULT
from strato.errors import Unavailable
from tests.controllers.world import ADMIN, MeddlingCluster, World, play, task, vcjob


def test_a_job_runs_to_completion() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(seconds=5)), "default")
        await world.until_phase("j", "Running")
        job = await world.until_phase("j", "Completed")
        await world.settle()
        job = await world.job("j")
        assert job.status.version == 1
        assert (job.status.succeeded, job.status.running, job.status.terminating) == (2, 0, 0)
        assert [c.status for c in job.status.conditions] == ["Pending", "Running", "Completed"]
        assert {p.status.phase for p in (await world.pods()).values()} == {"Succeeded"}
        assert not (await world.cluster.list(PodGroup, "default")).items

    play(scenario)


def test_no_pod_is_made_before_the_group_is_admitted() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j"), "default")
        await world.settle()
        assert not await world.pods()
        job = await world.job("j")
        assert job.status.state.phase == "Pending"
        group = (await world.cluster.list(PodGroup, "default")).items[0]
        assert group.metadata.name == f"j-{job.metadata.uid}"
        assert group.spec.min_member == 2
        assert dict(group.spec.min_task_member) == {"w": 2}
        assert group.spec.min_resources is not None
        assert group.spec.min_resources["cpu"] == "2"
        assert group.spec.min_resources["count/pods"] == "2"

    play(scenario, admit=False)


def test_a_failing_job_restarts_until_its_retries_are_used_up() -> None:
    async def scenario(world: World) -> None:
        body = vcjob(
            "j",
            task(seconds=5, code=3, replicas=1),
            policies=[{"event": "PodFailed", "action": "RestartJob"}],
            maxRetry=3,
        )
        await world.cluster.create(catalog.VCJOB, body, "default")
        job = await world.until_phase("j", "Failed")
        await world.settle()
        job = await world.job("j")
        assert job.status.retry_count == 3
        assert {p.status.phase for p in (await world.pods()).values()} == {"Failed"}, "the last retry keeps failed pods"

    play(scenario)


def test_suspend_and_resume() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j"), "default")
        await world.command("AbortJob", await world.until_phase("j", "Running"))
        job = await world.until_phase("j", "Aborted")
        assert not await world.pods()
        assert not (await world.cluster.list(catalog.COMMAND, "default")).items
        await world.command("ResumeJob", job)
        job = await world.until_phase("j", "Running")
        assert job.status.retry_count == 1
        assert len(await world.pods()) == 2

    play(scenario)


def test_restart_pod_replaces_that_pod_only() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task(replicas=3), policies=[{"event": "PodEvicted", "action": "RestartPod"}])
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        await world.settle()
        before = await world.pods()
        await world.cluster.delete(catalog.POD, "j-w-1", "default")
        await world.settle()
        job = await world.until_phase("j", "Running")
        after = await world.pods()
        assert len(after) == 3
        assert job.status.retry_count == 1
        assert job.status.version == 0
        assert after["j-w-0"].metadata.uid == before["j-w-0"].metadata.uid
        assert after["j-w-1"].metadata.uid != before["j-w-1"].metadata.uid

    play(scenario)


def test_deleting_a_job_removes_what_it_made_and_nothing_else() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("gone", plugins={"svc": [], "env": []}), "default")
        await world.cluster.create(catalog.VCJOB, vcjob("kept", plugins={"svc": []}), "default")
        await world.until_phase("gone", "Running")
        await world.until_phase("kept", "Running")
        await world.cluster.delete(Job, "gone", "default", propagation="Background")
        await world.settle(10)
        assert sorted(await world.pods()) == ["kept-w-0", "kept-w-1"]
        maps = {m.metadata.name for m in (await world.cluster.list(ConfigMap, "default")).items}
        assert maps - {"kube-root-ca.crt"} == {"kept-svc"}
        assert {s.metadata.name for s in (await world.cluster.list(Service, "default")).items} - {"kubernetes"} == {
            "kept"
        }
        assert len((await world.cluster.list(PodGroup, "default")).items) == 1

    play(scenario)


def test_what_has_the_name_of_a_plugins_object_but_another_owner_stays() -> None:
    """A Service of the job's name was there first: neither the job's end nor its deletion takes it away."""

    async def scenario(world: World) -> None:
        service = {"metadata": {"name": "j", "labels": {"mine": "yes"}}, "spec": {"ports": [{"port": 80}]}}
        await world.cluster.create(catalog.SERVICE, service, "default")
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(seconds=2), plugins={"svc": []}), "default")
        await world.until_phase("j", "Completed")
        await world.settle(5)
        names = {s.metadata.name for s in (await world.cluster.list(Service, "default")).items}
        maps = {m.metadata.name for m in (await world.cluster.list(ConfigMap, "default")).items}
        assert ("j" in names, "j-svc" in maps) == (True, False)
        await world.cluster.delete(Job, "j", "default", propagation="Background")
        await world.settle(10)
        assert (await world.cluster.get(Service, "j", "default")).metadata.label("mine") == "yes"

    play(scenario)


def test_scaling_makes_and_removes_pods() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task(replicas=2, minAvailable=1), minAvailable=1, plugins={"svc": []})
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        change = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 4}]
        await world.cluster.patch(Job, "j", "default", change, patch_type="application/json-patch+json")
        await world.settle()
        assert len(await world.pods()) == 4
        hosts = await world.cluster.get(ConfigMap, "j-svc", "default")
        assert hosts.data["VC_W_NUM"] == "4"
        change[0]["value"] = 1
        await world.cluster.patch(Job, "j", "default", change, patch_type="application/json-patch+json")
        await world.settle()
        assert sorted(await world.pods()) == ["j-w-0"]

    play(scenario)


def test_a_task_waits_for_the_task_it_depends_on() -> None:
    async def scenario(world: World) -> None:
        body = vcjob(
            "j",
            task("first", 1, seconds=20, minAvailable=1),
            task("second", 1, seconds=5, minAvailable=1, dependsOn={"name": ["first"]}),
            minAvailable=1,
        )
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Completed")

    play(scenario)


def test_a_pending_pod_is_given_its_time() -> None:
    async def scenario(world: World) -> None:
        policies = [{"event": "PodPending", "action": "AbortJob", "timeout": "30s"}]
        await world.cluster.create(catalog.VCJOB, vcjob("j", policies=policies), "default")
        await world.until_phase("j", "Running")
        await world.settle(60)
        assert (await world.job("j")).status.state.phase == "Running"

    play(scenario)


def test_a_job_that_cannot_be_prepared_is_told_so_and_terminated_in_the_end() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", volumes=[{"mountPath": "/data", "volumeClaimName": "absent"}])
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Terminated")
        events = (await world.cluster.list(catalog.EVENT, "default")).items
        reasons = {event["reason"]: event["message"] for event in events if event["involvedObject"]["kind"] == "Job"}
        assert "pvc absent is not found" in reasons["PVCError"]
        assert "retry limit" in reasons["ExecuteAction"] or "TerminateJob" in reasons["ExecuteAction"]
        assert not await world.pods()

    play(scenario, enabled=DEFAULT)


def test_plugins_shape_pods_and_make_their_objects() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task("big-ps", 1), task("w", 2), plugins={"svc": [], "env": []})
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        hosts = await world.cluster.get(ConfigMap, "j-svc", "default")
        assert hosts.data == {
            "big_ps.host": "j-big-ps-0.j",
            "VC_BIG_PS_HOSTS": "j-big-ps-0.j",
            "VC_BIG_PS_NUM": "1",
            "w.host": "j-w-0.j\nj-w-1.j",
            "VC_W_HOSTS": "j-w-0.j,j-w-1.j",
            "VC_W_NUM": "2",
        }
        service = await world.cluster.get(Service, "j", "default")
        assert service.spec.cluster_ip == "None"
        assert service.spec.selector == {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "default"}
        policy = await world.cluster.get(catalog.NETWORKPOLICY, "j", "default")
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        pod = (await world.pods())["j-w-1"]
        assert (pod.spec.hostname, pod.spec.subdomain) == ("j-w-1", "j")
        container = pod.spec.containers[0]
        env = {e.name: e for e in container.env}
        assert env["VC_TASK_INDEX"].value == env["VK_TASK_INDEX"].value == "1"
        source = env["VC_BIG_PS_HOSTS"].value_from
        assert source is not None
        assert source.config_map_key_ref is not None
        assert source.config_map_key_ref.name == "j-svc"
        assert "/etc/volcano" in [mount.mount_path for mount in container.volume_mounts]
        assert pod.metadata.label("volcano.sh/task-index") == "1"
        assert pod.metadata.annotation("volcano.sh/job-version") == "0"
        job = await world.job("j")
        assert dict(job.status.controlled_resources) == {"plugin-svc": "svc", "plugin-env": "env"}

    play(scenario)


def test_containers_that_restart_count_against_their_own_task() -> None:
    async def restarted(world: World, name: str, times: int) -> None:
        containers = [{"name": "c", "image": "i", "restartCount": times, "ready": True, "state": {"running": {}}}]
        status = {"status": {"containerStatuses": containers}}
        await world.cluster.patch(catalog.POD, name, "default", status, subresource="status")

    async def scenario(world: World) -> None:
        async def both_run() -> bool:
            return [pod.status.phase for pod in (await world.pods()).values()] == ["Running", "Running"]

        tasks = (task("many", 1, maxRetry=9), task("few", 1, maxRetry=2))
        body = vcjob("j", *tasks, policies=[{"event": "TaskFailed", "action": "AbortJob"}])
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        await world.until(both_run)
        await restarted(world, "j-many-0", 8)
        await restarted(world, "j-few-0", 1)
        await world.settle()
        assert (await world.job("j")).status.state.phase == "Running"
        await restarted(world, "j-few-0", 2)
        await world.until_phase("j", "Aborted")

    play(scenario)


@pytest.mark.parametrize(("timeout", "waits"), [(None, False), ("0s", False), ("1s", True), ("3s", True)])
def test_an_action_waits_for_the_timeout_of_its_policy(timeout: str | None, waits: bool) -> None:
    async def scenario(world: World) -> None:
        policy = {"event": "PodFailed", "action": "AbortJob", **({"timeout": timeout} if timeout else {})}
        tasks = (task("fails", 1, seconds=5, code=1), task("runs", 1))
        await world.cluster.create(catalog.VCJOB, vcjob("j", *tasks, policies=[policy]), "default")
        await world.until_phase("j", "Running")

        async def has_failed() -> bool:
            return (await world.pods())["j-fails-0"].status.phase == "Failed"

        await world.until(has_failed)
        await world.settle(0.5)
        assert ((await world.job("j")).status.state.phase == "Running") is waits
        await world.until_phase("j", "Aborted", seconds=5)

    play(scenario)


def test_a_group_that_somebody_changed_is_brought_back() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task("a", 1), task("b", 1, seconds=30), minAvailable=2)
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        await world.settle()
        (group,) = (await world.cluster.list(PodGroup, "default")).items
        await world.cluster.patch(PodGroup, group.metadata.name, "default", {"spec": {"minMember": 1}})
        await world.settle(40)
        (group,) = (await world.cluster.list(PodGroup, "default")).items
        assert group.spec.min_member == 2

    play(scenario)


async def messages(world: World, reason: str) -> list[tuple[str, int]]:
    """The events of jobs with that reason, and how often each was recorded."""
    events = (await world.cluster.list(catalog.EVENT, "default")).items
    of_jobs = [event for event in events if (event["involvedObject"]["kind"], event["reason"]) == ("Job", reason)]
    return [(event["message"], event.get("count", 1)) for event in of_jobs]


async def set_group(world: World, **status: Any) -> None:
    (group,) = (await world.cluster.list(PodGroup, "default")).items
    await world.cluster.patch(PodGroup, group.metadata.name, "default", {"status": status})
    await world.settle(1)


def test_a_group_that_somebody_deleted_is_made_again() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j"), "default")
        await world.until_phase("j", "Running")
        await world.settle()
        (group,) = (await world.cluster.list(PodGroup, "default")).items
        await world.cluster.delete(PodGroup, group.metadata.name, "default")
        await world.settle()
        (again,) = (await world.cluster.list(PodGroup, "default")).items
        assert again.metadata.name == group.metadata.name
        assert again.metadata.uid != group.metadata.uid

    play(scenario)


def test_why_a_group_is_not_scheduled_is_recorded_once_until_it_changes() -> None:
    def condition(kind: str, message: str, second: int) -> dict[str, str]:
        at = f"2026-01-01T00:00:0{second}Z"
        return {"type": kind, "status": "True", "reason": "R", "message": message, "lastTransitionTime": at}

    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j"), "default")
        await world.settle(1)
        for second, (kind, message) in enumerate(
            [("Unschedulable", "no cpu"), ("Unschedulable", "no cpu"), ("Unschedulable", "no gpu"), ("Scheduled", "")]
        ):
            await set_group(world, conditions=[condition(kind, message, second)])
        assert await messages(world, "PodGroupPending") == [
            ("PodGroup default:j unschedulable, reason: no cpu", 1),
            ("PodGroup default:j unschedulable, reason: no gpu", 1),
        ]

    play(scenario, admit=False)


def test_an_action_that_waits_already_is_not_announced_again() -> None:
    async def scenario(world: World) -> None:
        policies = [{"event": "Unknown", "action": "AbortJob", "timeout": "30s"}]
        await world.cluster.create(catalog.VCJOB, vcjob("j", policies=policies), "default")
        await world.until_phase("j", "Running")
        for phase in ("Unknown", "Running", "Unknown"):
            await set_group(world, phase=phase)
        announced = [one for one in await messages(world, "ExecuteAction") if "after" in one[0]]
        assert announced == [("Execute action AbortJob after 30s", 1)]
        await world.until_phase("j", "Aborted", seconds=35)

    play(scenario)


def test_a_pod_whose_name_is_free_again_is_made() -> None:
    async def scenario(world: World) -> None:
        pod = {"metadata": {"name": "j-w-1"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await world.cluster.create(catalog.POD, pod, "default")
        await world.cluster.create(catalog.VCJOB, vcjob("j"), "default")
        await world.settle()
        assert (await world.job("j")).status.state.phase == "Pending"
        await world.cluster.delete(catalog.POD, "j-w-1", "default")
        await world.until_phase("j", "Running", seconds=15)

    play(scenario)


def test_an_action_whose_answer_was_lost_is_followed_by_its_sync() -> None:
    """The watch shows the write first, while the controller still waits for its answer and leaves the sync to that."""

    class Forgetful(MeddlingCluster):
        is_due = lost = False

        async def exchange(self, request: Request, *, stream: bool = False) -> Response:
            response = await super().exchange(request, stream=stream)
            if self.is_due and not self.lost and request.path.endswith("/jobs/j/status"):
                self.lost = True
                await clock.sleep(1.0)
                raise Unavailable("no answer")
            return response

    clock: Clock

    async def scenario(world: World) -> None:
        nonlocal clock
        clock = world.clock
        await world.stop_controllers()
        cluster = Forgetful(world.server, ADMIN)
        await world.start_controllers(cluster)
        await world.cluster.create(catalog.VCJOB, vcjob("j"), "default")
        await world.command("AbortJob", await world.until_phase("j", "Running"))
        job = await world.until_phase("j", "Aborted")
        await world.settle()
        cluster.is_due = True
        await world.command("ResumeJob", job)
        job = await world.until_phase("j", "Running", seconds=15)
        assert (cluster.lost, job.status.retry_count) == (True, 1)

    play(scenario)
