"""The job controller against a model of a dozen lines, with and without faults.

After every step the world settles and must look as the model says: phase, retries, pods, PodGroup. Under faults
(refusals, lost answers, watches that end, a controller killed at any moment) only the way there may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.core import Pod, Secret
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.client.cluster import PatchType
from tests.controllers.faults import FaultyCluster
from tests.controllers.world import World, born_without_status, play, task, vcjob
from tests.profiles import examples

MAX_RETRY = 4
FINAL = ("Completed", "Terminated", "Failed")
ENABLED = ("job-controller", "queue-controller")
POLICIES = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartPod"}]
Step = tuple[str, int]

STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "CompleteJob", "TerminateJob"]), st.just(0)),
    st.tuples(st.sampled_from(["fail", "evict"]), st.integers(0, 3)),
    st.tuples(st.just("scale"), st.integers(1, 4)),
    st.tuples(st.just("kill the controller"), st.just(0)),
)


@dataclass
class Model:
    """What a user expects to see once things are quiet."""

    phase: str = "Running"
    retries: int = 0
    replicas: int = 3
    pods: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._run()

    def _run(self) -> None:
        self.phase, self.pods = "Running", {f"j-w-{n}": "Running" for n in range(self.replicas)}

    def _stop(self, phase: str) -> None:
        self.phase = phase
        self.pods = {name: state for name, state in self.pods.items() if state == "Failed"}

    def _restart(self) -> None:
        last = self.retries >= MAX_RETRY - 1  # then what ended is kept, to be looked at
        self.pods = {name: state for name, state in self.pods.items() if last and state == "Failed"}
        self.retries += 1
        if self.retries >= MAX_RETRY:
            self._stop("Failed")
        else:
            self._run()

    def take(self, step: Step) -> None:
        name, number = step
        if name == "scale":
            self.replicas = number
            if self.phase == "Running":
                self._run()
        elif self.phase == "Running":
            if name == "fail" and number < self.replicas:
                self.pods[f"j-w-{number}"] = "Failed"
                self._restart()
            elif name == "evict" and number < self.replicas:
                self.retries += 1
                if self.retries >= MAX_RETRY:
                    self._stop("Failed")
            elif name == "RestartJob":
                self._restart()
            elif name in ("AbortJob", "CompleteJob", "TerminateJob"):
                self._stop({"A": "Aborted", "C": "Completed", "T": "Terminated"}[name[0]])
        elif self.phase == "Aborted" and name == "ResumeJob":
            self._restart()


async def act(world: World, step: Step, model: Model, controllers: Any) -> None:
    """Do a step to the world; one that makes no sense now is left out, as in the model."""
    name, number = step
    pod = f"j-w-{number}"
    if name.endswith("Job"):
        await world.command(name, await world.job("j"))
    elif name == "kill the controller":
        await world.stop_controllers()
        await world.start_controllers(controllers)
    elif name == "scale":
        change = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": number}]
        await world.cluster.patch(Job, "j", "default", change, patch_type=PatchType.JSON)
    elif model.phase == "Running" and number < model.replicas:
        if name == "fail":
            await world.cluster.patch(Pod, pod, "default", {"status": {"phase": "Failed"}}, subresource="status")
        else:
            await world.cluster.delete(Pod, pod, "default")


async def look(world: World) -> tuple[str, int, dict[str, str], int]:
    job = await world.job("j")
    groups = (await world.cluster.list(PodGroup, "default")).items
    pods = {name: pod.status.phase for name, pod in (await world.pods()).items()}
    return job.status.state.phase, job.status.retry_count, pods, len(groups)


async def follow(world: World, steps: Sequence[Step], seconds: float, controllers: Any = None) -> None:
    body = vcjob("j", task(replicas=3, minAvailable=1), minAvailable=1, policies=POLICIES, maxRetry=MAX_RETRY)
    await world.cluster.create(catalog.VCJOB, body, "default")
    await world.until_phase("j", "Running")
    await world.settle(seconds)
    model = Model()
    for step in steps:
        await act(world, step, model, controllers)
        model.take(step)
        await world.settle(seconds)
        want = (model.phase, model.retries, model.pods, int(model.phase == "Running"))
        assert await look(world) == want, f"after {step} of {steps}"


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=8), st.booleans())
def test_the_controller_does_what_the_model_says(steps: list[Step], plain: bool) -> None:
    async def scenario(world: World) -> None:
        await follow(world, steps, 3.0)

    with born_without_status(plain):
        play(scenario, enabled=ENABLED)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=5), st.integers(0, 1 << 16), st.booleans())
@example([("RestartJob", 0)], 18744, True)  # the answers to two writes are lost: it was carried out twice
def test_faults_change_the_way_and_not_the_end(steps: list[Step], seed: int, plain: bool) -> None:
    async def scenario(world: World) -> None:
        await world.stop_controllers()
        faulty = FaultyCluster(world, seed)
        await world.start_controllers(faulty)
        await follow(world, steps, 120.0, faulty)

    with born_without_status(plain):
        play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("seed", range(6))
def test_commands_in_a_hurry_leave_nothing_half_done(seed: int) -> None:
    """Steps that do not wait for each other end in a state that is whole, whichever it is."""

    async def scenario(world: World) -> None:
        from random import Random

        random = Random(seed)
        body = vcjob("j", task(replicas=4, minAvailable=1), minAvailable=1, policies=POLICIES, maxRetry=50)
        await world.cluster.create(catalog.VCJOB, body, "default")
        for _ in range(30):
            job = await world.job("j")
            names = sorted(await world.pods())
            choice = random.randrange(3)
            if choice == 0 or not names:
                await world.command(random.choice(["AbortJob", "ResumeJob", "RestartJob"]), job)
            elif choice == 1:
                await world.cluster.delete(Pod, random.choice(names), "default")
            else:
                await world.stop_controllers()
                await world.start_controllers()
            await world.clock.sleep(random.choice([0.0, 0.001, 0.03, 0.5]))
        await world.settle(30)
        phase, retries, pods, groups = await look(world)
        assert phase in ("Running", "Aborted")
        assert pods == ({f"j-w-{n}": "Running" for n in range(4)} if phase == "Running" else {})
        assert groups == int(phase == "Running")
        assert retries <= 30

    play(scenario, enabled=ENABLED)


# The order of what others can see


@pytest.mark.parametrize("plain", [False, True], ids=["born Pending", "born without a status"])
def test_the_group_comes_before_its_pods_and_phases_follow_each_other(plain: bool) -> None:
    async def scenario(world: World) -> None:
        start = (await world.cluster.list(Job, "default")).resource_version
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(seconds=2, replicas=3)), "default")
        await world.until_phase("j", "Completed")
        await world.settle(2)
        end = int((await world.cluster.list(Job, "default")).resource_version)
        jobs = [job.status.state.phase for _, job in await history(world, catalog.VCJOB.view, start, end)]
        groups = await history(world, PodGroup, start, end)
        pods = await history(world, Pod, start, end)
        assert dedup(jobs) == ["" if plain else "Pending", "Running", "Completed"]
        assert dedup([group.status.phase for _, group in groups])[:2] == ["Pending", "Inqueue"]
        admitted = next(revision for revision, group in groups if group.status.phase == "Inqueue")
        assert min(revision for revision, _ in pods) > admitted

    with born_without_status(plain):
        play(scenario, enabled=ENABLED)


def test_the_status_a_job_is_born_with_is_what_the_controller_would_write() -> None:
    async def scenario(world: World) -> Any:
        start = (await world.cluster.list(Job, "default")).resource_version
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(replicas=3)), "default")
        await world.until_phase("j", "Pending")
        found = await history(world, Job, start, 1 << 60)
        return next(job.status for _, job in found if job.status.state.phase)

    with born_without_status():
        written = play(scenario, enabled=ENABLED, admit=False)
    assert play(scenario, enabled=ENABLED, admit=False) == written
    assert (written.state.phase, written.min_available, len(written.conditions)) == ("Pending", 3, 1)


async def history(world: World, view: Any, start: str, end: int) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    async for batch in world.cluster.watch(view, "default", resource_version=start, timeout_seconds=1):
        found += [(int(event.object.metadata.resource_version), event.object) for event in batch]
    return [(revision, item) for revision, item in found if revision <= end and item.metadata.name]


def dedup(words: Sequence[str]) -> list[str]:
    return [word for place, word in enumerate(words) if place == 0 or words[place - 1] != word]


# Delays


def unbound(body: dict[str, Any]) -> dict[str, Any]:
    body["spec"]["tasks"][0]["template"]["metadata"]["annotations"]["test/unbound"] = "true"
    return body


def test_a_pod_that_waits_too_long_restarts_its_job() -> None:
    async def scenario(world: World) -> None:
        policies = [{"event": "PodPending", "action": "RestartJob", "timeout": "30s"}]
        await world.cluster.create(catalog.VCJOB, unbound(vcjob("j", policies=policies, maxRetry=3)), "default")
        await world.settle(25)
        assert (await world.job("j")).status.retry_count == 0
        await world.settle(10)
        assert (await world.job("j")).status.retry_count == 1
        job = await world.until_phase("j", "Failed")
        assert job.status.retry_count == 3

    play(scenario, enabled=ENABLED)


def test_a_restart_of_the_controller_does_not_start_the_clock_of_running_pods() -> None:
    async def scenario(world: World) -> None:
        policies = [{"event": "PodPending", "action": "AbortJob", "timeout": "30s"}]
        await world.cluster.create(catalog.VCJOB, vcjob("j", policies=policies), "default")
        await world.until_phase("j", "Running")
        await world.stop_controllers()
        await world.start_controllers()
        await world.settle(120)
        assert (await world.job("j")).status.state.phase == "Running"

    play(scenario, enabled=ENABLED)


# Parts of a job


def test_a_partition_is_restarted_alone_and_the_job_keeps_its_keys() -> None:
    async def scenario(world: World) -> None:
        partition = {"totalPartitions": 2, "partitionSize": 2}
        body = vcjob(
            "j",
            task(replicas=4, partitionPolicy=partition),
            policies=[{"event": "PodFailed", "action": "RestartPartition"}],
            plugins={"ssh": [], "svc": []},
        )
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        await world.settle()
        before = await world.pods()
        keys = (await world.cluster.get(Secret, "j-ssh", "default")).data["id_rsa"]
        await world.cluster.patch(Pod, "j-w-2", "default", {"status": {"phase": "Failed"}}, subresource="status")
        await world.settle()
        after = await world.pods()
        kept = {name for name, pod in after.items() if before[name].metadata.uid == pod.metadata.uid}
        assert kept == {"j-w-0", "j-w-1"}
        assert {pod.status.phase for pod in after.values()} == {"Running"}
        job = await world.job("j")
        assert (job.status.state.phase, job.status.retry_count, job.status.version) == ("Running", 1, 0)
        assert (await world.cluster.get(Secret, "j-ssh", "default")).data["id_rsa"] == keys

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        pytest.param({"exitCode": 3, "action": "CompleteJob"}, 3, "Completed", id="the code that is asked for"),
        pytest.param({"exitCode": 3, "action": "CompleteJob"}, 4, "Failed", id="another code"),
        pytest.param({"event": "PodFailed", "action": "TerminateJob"}, 4, "Terminated", id="any failure"),
        pytest.param({"event": "*", "action": "AbortJob"}, 1, "Aborted", id="any event"),
    ],
)
def test_failures_and_exit_codes(policy: dict[str, Any], code: int, phase: str) -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task("a", 1, seconds=3, code=code), task("b", 1, seconds=60), policies=[policy])
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", phase, seconds=120)

    play(scenario, enabled=ENABLED)


def test_enough_successes_complete_a_job_and_end_the_rest() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task("a", 2, seconds=3), task("b", 2), minSuccess=2)
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Completed")
        await world.settle()
        assert {name: pod.status.phase for name, pod in (await world.pods()).items()} == {
            "j-a-0": "Succeeded",
            "j-a-1": "Succeeded",
        }

    play(scenario, enabled=ENABLED)


def test_deleting_a_job_takes_secrets_and_claims_it_made() -> None:
    async def scenario(world: World) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        volumes = [{"mountPath": "/a", "volumeClaim": claim}, {"mountPath": "/b", "volumeClaimName": "given"}]
        given_claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "given"},
            "spec": claim,
        }
        await world.cluster.create(catalog.PERSISTENTVOLUMECLAIM, given_claim, "default")
        await world.cluster.create(
            catalog.SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}, "default"
        )
        body = vcjob("j", plugins={"ssh": [], "svc": []}, volumes=volumes)
        await world.cluster.create(catalog.VCJOB, body, "default")
        job = await world.until_phase("j", "Running")
        generated = job.spec.volumes[0].volume_claim_name
        assert generated.startswith("j-pvc-")
        assert job.status.controlled_resources[f"volume-pvc-{generated}"] == generated
        mounts = {m.mount_path for m in (await world.pods())["j-w-0"].spec.containers[0].volume_mounts}
        assert {"/a", "/b", "/root/.ssh"} <= mounts
        await world.cluster.delete(Job, "j", "default", propagation="Background")
        await world.settle(10)
        left: dict[str, set[str]] = {}
        for kind in (catalog.PERSISTENTVOLUMECLAIM, catalog.SECRET, catalog.SERVICE, catalog.POD, catalog.PODGROUP):
            left[kind.plural] = {o["metadata"]["name"] for o in (await world.cluster.list(kind, "default")).items}
        assert left == {
            "persistentvolumeclaims": {"given"},
            "secrets": {"x"},
            "services": left["services"] - {"j"},
            "pods": set(),
            "podgroups": set(),
        }

    play(scenario, enabled=(*ENABLED, "kube-garbage-collector", "kube-persistentvolume-controller"))
