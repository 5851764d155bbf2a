"""A pod's life under virtual time, on a machine that only pretends."""

from __future__ import annotations

import asyncio
from itertools import groupby

import msgspec
import pytest

from strato.api.core import Pod
from strato.api.meta import ObjectMeta
from strato.clock import VirtualClock
from strato.node.podstatus import phase_of
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.podworker import PodWorker
from strato.node.sandbox.runtime import ContainerRun, RuntimeProblem
from tests.node.podworlds import FakeMachine, changed, live


def test_files_are_looked_at_as_long_as_the_pod_runs() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(500)
        assert machine.refreshes == [30, 60, 90]
        assert phase_of(worker.record) == "Succeeded"

    live(story, {"main": [(100.0, 0)]}, restartPolicy="Never")


def test_restarts_wait_longer_each_time() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(200)
        assert [at for _, at in machine.starts] == [0, 11, 32, 73, 154]
        assert worker.record.containers[0].restart_count == 4
        assert phase_of(worker.record) == "Running"

    live(story, {"main": [(1.0, 1)]}, restartPolicy="Always")


def test_a_limit_that_is_not_enforced_is_said_with_each_start() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.unenforced = ["cpu", "memory"]
        await clock.sleep(60)
        said = [message for reason, message in machine.events if reason == "LimitsNotEnforced"]
        assert said == ["Container main: this node does not enforce its limit of cpu and memory"]

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")


def test_on_failure_ends_with_the_first_success() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(60)
        assert len(machine.starts) == 2
        assert phase_of(worker.record) == "Succeeded"
        assert machine.released

    live(story, {"main": [(1.0, 1), (1.0, 0)]}, restartPolicy="OnFailure")


def test_a_failed_init_container_fails_the_pod_for_good() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(60)
        assert [name for name, _ in machine.starts] == ["init"]
        assert phase_of(worker.record) == "Failed"

    inits = [{"name": "init", "image": "x"}]
    live(story, {"main": [(1.0, 0)], "init": [(1.0, 2)]}, restartPolicy="Never", initContainers=inits)


def test_sidecars_start_first_and_stop_last() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(60)
        assert [name for name, _ in machine.starts] == ["side", "main"]
        assert machine.signals == [("side/0", False, 5.0)]
        assert phase_of(worker.record) == "Succeeded"

    inits = [{"name": "side", "image": "x", "restartPolicy": "Always"}]
    live(story, {"main": [(5.0, 0)], "side": [(1e6, 0)]}, restartPolicy="Never", initContainers=inits)


@pytest.mark.parametrize(("stubborn", "want"), [(False, [(False, 3.0)]), (True, [(False, 3.0), (True, 13.0)])])
def test_deletion_asks_and_then_kills(stubborn: bool, want: list[tuple[bool, float]]) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.stubborn = stubborn
        await clock.sleep(3)
        worker.terminate(10.0)
        await clock.sleep(60)
        assert [(kill, at) for _, kill, at in machine.signals] == want
        assert worker.is_stopped

    live(story, {"main": [(1e6, 0)]}, restartPolicy="Always")


@pytest.mark.parametrize(
    ("finalizers", "code", "phase"),
    [
        pytest.param(["example.com/counts"], 143, "Failed", id="somebody awaits its end"),
        pytest.param([], 0, None, id="nobody could read it"),
    ],
)
def test_the_last_status_of_a_deleted_pod_is_final_and_written_where_it_is_awaited(
    finalizers: list[str], code: int, phase: str | None
) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(3)
        worker.update(msgspec.structs.replace(worker.pod, metadata=replaced(worker.pod, finalizers)))
        worker.terminate(10.0)
        await clock.sleep(60)
        last = worker.next_write(clock.now())
        assert (last["phase"] if last is not None else None) == phase
        if last is not None:
            assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code

    def replaced(pod: Pod, finalizers: list[str]) -> ObjectMeta:
        return msgspec.structs.replace(pod.metadata, finalizers=finalizers)

    live(story, {"main": [(1e6, 0)]}, restartPolicy="Always")


def test_processes_begin_and_are_ended_only_once_that_holds_for_good() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        worker.terminate(10.0)
        await clock.sleep(60)
        assert machine.starts == [("main", 2.0)]
        assert machine.signals == [("main/0", False, 7.0)]
        assert worker.is_stopped

    live(story, {"main": [(1e6, 0)]}, confirm_seconds=2.0, restartPolicy="Always")


def test_gpus_go_back_with_the_last_container_before_anybody_hears_of_the_end() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(2)
        assert machine.gpus_back_at == []
        await clock.sleep(8)
        assert set(machine.gpus_back_at) == {5.0}
        assert "Succeeded" not in machine.told_while_gpus_held

    mains = [{"name": "short", "image": "x"}, {"name": "main", "image": "x"}]
    live(story, {"short": [(1.0, 0)], "main": [(5.0, 0)]}, restartPolicy="Never", containers=mains)


def test_a_missing_image_is_waited_for() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.missing = "ErrImageNeverPull"
        await clock.sleep(5)
        assert worker.record.containers[0].reason == "ErrImageNeverPull"
        assert machine.events == [("Failed", "Error: ErrImageNeverPull")]
        machine.missing = ""
        await clock.sleep(10)
        assert phase_of(worker.record) == "Succeeded"

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")


def test_a_pull_that_fails_is_backed_off_twice_as_long_each_time() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.missing = "ErrImagePull"
        record, seen = worker.record.containers[0], []
        await clock.sleep(0.5)
        for _ in range(400):
            seen.append(record.reason)
            await clock.sleep(1)
        runs = [(reason, len(list(group))) for reason, group in groupby(seen)]
        pulls, waits = zip(*zip(runs[::2], runs[1::2], strict=False), strict=True)
        assert {reason for reason, _ in pulls} == {"ErrImagePull"}
        assert [seconds for _, seconds in waits][:5] == [8, 18, 38, 78, 158]
        assert record.message == 'Back-off pulling image "x": ErrImagePull: it is not there'
        assert machine.events[:3] == [
            ("Failed", "Error: ErrImagePull"),
            ("BackOff", 'Back-off pulling image "x"'),
            ("Failed", "Error: ImagePullBackOff"),
        ]

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")


SIDECARS = [{"name": name, "image": "x", "restartPolicy": "Always"} for name in ("one", "two")]


def test_gpus_stay_while_a_sidecar_runs() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.stubborn = True
        await clock.sleep(20)
        assert phase_of(worker.record) == "Succeeded"
        assert (machine.gpus_back_at, machine.released) == ([], False)
        await clock.sleep(60)
        assert machine.released

    plans = {"main": [(5.0, 0)], "one": [(1e6, 0)], "two": [(1e6, 0)]}
    live(story, plans, restartPolicy="Never", initContainers=SIDECARS)


def test_gpus_stay_while_one_of_two_containers_runs_again() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(15)
        assert machine.gpus_back_at == []
        await clock.sleep(60)
        assert set(machine.gpus_back_at) == {51.0}

    mains = [{"name": "short", "image": "x"}, {"name": "main", "image": "x"}]
    plans = {"short": [(1.0, 0)], "main": [(20.0, 1), (21.0, 0)]}
    live(story, plans, restartPolicy="OnFailure", containers=mains)


def test_the_containers_stop_together_and_the_sidecars_after_them_the_last_one_first() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.stubborn = True
        await clock.sleep(3)
        worker.terminate(10.0)
        await clock.sleep(100)
        assert [(name, at) for name, kill, at in machine.signals if not kill] == [
            ("a/0", 3.0), ("b/0", 3.0), ("two/0", 13.0), ("one/0", 23.0),
        ]  # fmt: skip
        assert worker.is_stopped

    plans = {name: [(1e6, 0)] for name in ("a", "b", "one", "two")}
    mains = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]
    live(story, plans, restartPolicy="Always", initContainers=SIDECARS, containers=mains)


def test_without_grace_a_container_is_killed_at_once() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(3)
        worker.terminate(0.0)
        await clock.sleep(1)
        assert machine.signals == [("main/0", True, 3.0)]
        assert worker.is_stopped

    hook = {"preStop": {"exec": {"command": ["x"]}}}
    live(story, {"main": [(1e6, 0)]}, containers=[{"name": "main", "image": "x", "lifecycle": hook}])


def test_the_hook_before_the_end_takes_of_the_grace() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.stubborn, machine.hook_seconds = True, 4.0
        await clock.sleep(3)
        worker.terminate(10.0)
        worker.terminate(1.0)  # comes too late
        await clock.sleep(60)
        assert machine.signals == [("main/0", False, 7.0), ("main/0", True, 13.0)]
        assert ("Killing", "Stopping container main") in machine.events

    hook = {"preStop": {"exec": {"command": ["x"]}}}
    live(story, {"main": [(1e6, 0)]}, containers=[{"name": "main", "image": "x", "lifecycle": hook}])


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_container_whose_hook_fails_at_its_start_is_ended(stubborn: bool) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.hook_code, machine.stubborn = 1, stubborn
        await clock.sleep(60)
        assert machine.signals == [("main/0", False, 0.0), *([("main/0", True, 30.0)] if stubborn else [])]
        assert ("Killing", "FailedPostStartHook: container main is stopped") in machine.events
        assert "FailedPostStartHook" in [reason for reason, _ in machine.events]
        assert phase_of(worker.record) == "Failed"

    hook = {"postStart": {"exec": {"command": ["x"]}}}
    main = {"name": "main", "image": "x", "lifecycle": hook}
    live(story, {"main": [(1e6, 0)]}, restartPolicy="Never", containers=[main])


def test_a_hook_that_passes_changes_nothing() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(60)
        assert machine.signals == []
        assert phase_of(worker.record) == "Succeeded"

    hook = {"postStart": {"exec": {"command": ["x"]}}}
    main = {"name": "main", "image": "x", "lifecycle": hook}
    live(story, {"main": [(5.0, 0)]}, restartPolicy="Never", containers=[main])


def test_a_pod_over_its_deadline_fails() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(9)
        assert phase_of(worker.record) == "Running"
        await clock.sleep(2)
        assert (worker.record.reason, phase_of(worker.record)) == ("DeadlineExceeded", "Failed")
        assert ("DeadlineExceeded", worker.record.message) in machine.events
        assert machine.signals == [("main/0", False, 10.0)]
        assert (worker.is_stopped, machine.released) == (False, True)

    live(story, {"main": [(1e6, 0)]}, activeDeadlineSeconds=10)


def test_a_pod_that_is_deleted_before_its_deadline_was_not_too_slow() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        worker.terminate(10.0)
        await clock.sleep(20)
        assert worker.record.reason == ""
        assert "DeadlineExceeded" not in [reason for reason, _ in machine.events]

    live(story, {"main": [(1e6, 0)]}, activeDeadlineSeconds=100)


@pytest.mark.parametrize(("seconds", "end"), [(5, 6.0), (20, 20.0)])
def test_a_deadline_can_be_moved_while_the_pod_runs(seconds: int, end: float) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(6)
        worker.update(changed(worker.pod, activeDeadlineSeconds=seconds))
        await clock.sleep(20)
        assert machine.signals == [("main/0", False, end)]

    live(story, {"main": [(1e6, 0)]}, activeDeadlineSeconds=10)


def test_a_container_that_gets_another_image_is_started_anew() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(6)
        worker.update(changed(worker.pod, containers=[{"name": "main", "image": "y"}]))
        await clock.sleep(1)
        assert machine.starts == [("main", 0.0), ("main", 6.0)]
        assert ("Killing", "Container main definition changed, will be restarted") in machine.events
        (container,) = worker.record.containers
        assert (container.image, container.restart_count, container.state) == ("y", 1, "running")
        worker.update(worker.pod)  # nothing is different
        await clock.sleep(100)
        assert len(machine.starts) == 2

    live(story, {"main": [(1e6, 0)]}, restartPolicy="Never")


def test_what_starts_later_sees_the_labels_of_then() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(6)
        labelled = msgspec.structs.replace(worker.pod.metadata, labels={"a": "b"})
        worker.update(msgspec.structs.replace(worker.pod, metadata=labelled))
        assert machine.labels_seen == [{"a": "b"}]
        assert machine.signals == []
        worker.update(msgspec.structs.replace(worker.pod, metadata=msgspec.structs.replace(labelled, generation=7)))
        status = worker.next_write(clock.now())
        assert status is not None
        assert status["observedGeneration"] == 7

    live(story, {"main": [(1e6, 0)]})


@pytest.mark.parametrize(
    ("kind", "own_grace", "killed_at"), [("liveness", None, 42.0), ("liveness", 5, 17.0), ("startup", 3, 15.0)]
)
def test_a_container_that_fails_a_probe_has_its_grace(kind: str, own_grace: int | None, killed_at: float) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.hook_code, machine.stubborn = 1, True
        await clock.sleep(55)
        assert machine.signals[:2] == [("main/0", False, 12.0), ("main/0", True, killed_at)]
        assert ("Killing", f"Container main failed {kind} probe, will be restarted") in machine.events

    probe = {
        "exec": {"command": ["x"]},
        "initialDelaySeconds": 2,
        "failureThreshold": 2,
        "terminationGracePeriodSeconds": own_grace,
    }
    live(story, {"main": [(1e6, 0)]}, containers=[{"name": "main", "image": "x", f"{kind}Probe": probe}])


def test_an_evicted_pod_gets_a_short_grace_and_fails() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.stubborn = True
        await clock.sleep(3)
        assert not worker.is_terminating
        worker.evict("too much memory")
        assert worker.is_terminating
        worker.evict("again")
        await clock.sleep(100)
        assert (worker.record.reason, worker.record.message) == ("Evicted", "too much memory")
        assert [one for one in machine.events if one[0] == "Evicted"] == [("Evicted", "too much memory")]
        assert phase_of(worker.record) == "Failed"
        asked, killed = (at for _, _, at in machine.signals)
        assert 0 < killed - asked <= 5
        assert (worker.is_terminating, worker.is_stopped) == (False, False)
        assert worker.next_write(9.0) is not None

    live(story, {"main": [(1e6, 0)]}, terminationGracePeriodSeconds=100)


@pytest.mark.parametrize("deleted", [False, True])
def test_what_is_over_or_deleted_is_not_evicted(deleted: bool) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        if deleted:
            worker.terminate(1.0)
        else:
            await clock.sleep(5)
        worker.evict("too much memory")
        assert (worker.record.reason, machine.events and machine.events[-1][0] == "Evicted") != ("Evicted", True)
        assert worker.record.reason == ""

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")


def test_a_finished_pod_is_removed_once_it_is_deleted() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        waiting = asyncio.create_task(worker.wait_deleted())
        await clock.sleep(5)
        assert (worker.is_stopped, waiting.done()) == (False, False)
        worker.terminate(10.0)
        await clock.sleep(1)
        assert (worker.is_stopped, worker.next_write(9.0)) == (True, None)

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")


@pytest.mark.parametrize(
    ("code", "oom", "reason", "message"),
    [
        (0, False, "Completed", "main/0 passed"),
        (1, True, "Error", "main/0 failed"),
        (137, True, "OOMKilled", "main/0 failed"),
        (137, False, "Error", "main/0 failed"),
    ],
)
def test_an_ending_says_why(code: int, oom: bool, reason: str, message: str) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.is_oom = oom
        await clock.sleep(5)
        ending = worker.record.containers[0].ending
        assert ending is not None
        assert (ending.exit_code, ending.reason, ending.message) == (code, reason, message)
        assert ending.container_id == worker.record.containers[0].container_id == "strato://u-main-0"

    live(story, {"main": [(1.0, code)]}, restartPolicy="Never")


def test_every_step_of_a_container_is_an_event_and_a_status() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        record = worker.record.containers[0]
        where = "container main in pod p_ns(u)"
        assert machine.events == [
            ("Created", "Created container: main"),
            ("Started", "Started container main"),
            ("BackOff", f"Back-off restarting failed {where}"),
        ]
        assert (record.state, record.reason) == ("waiting", "CrashLoopBackOff")
        assert record.message == "back-off 10s restarting failed container=main pod=p_ns(u)"
        assert record.image_id == "strato/host"
        assert machine.shown[-3:] == [("running", ""), ("terminated", "Error"), ("waiting", "CrashLoopBackOff")]
        await clock.sleep(200)
        assert machine.shown[-1] == ("terminated", "Completed")
        assert machine.dropped == ["main/-1", "main/0"]
        assert record.restart_count == 2

    live(story, {"main": [(1.0, 1), (1.0, 1), (1.0, 0)]}, restartPolicy="OnFailure")


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(ConfigProblem("no key"), "CreateContainerConfigError"), (RuntimeProblem("no cgroup"), "CreateContainerError")],
)
def test_a_container_that_cannot_be_made_waits_and_says_so_once(problem: Exception, reason: str) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.refused = problem
        await clock.sleep(20)
        record = worker.record.containers[0]
        assert (record.state, record.reason, record.message) == ("waiting", reason, str(problem))
        assert machine.shown[-1] == ("waiting", reason)
        assert machine.events == [("Failed", f"Error: {problem}")]
        machine.refused = None
        await clock.sleep(20)
        assert phase_of(worker.record) == "Succeeded"

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(ConfigProblem("no volume"), "FailedMount"), (RuntimeProblem("no network"), "FailedCreatePodSandBox")],
)
def test_a_sandbox_that_cannot_be_made_is_tried_again(problem: Exception, reason: str) -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.blocked = problem
        await clock.sleep(5)
        assert machine.events[0] == (reason, str(problem))
        machine.blocked = None
        await clock.sleep(20)
        assert phase_of(worker.record) == "Succeeded"
        assert worker.record.pod_ip == "127.0.0.9"

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")


def test_a_pod_that_nobody_foresaw_fails_ends_its_containers_and_can_be_deleted() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        machine.refused = KeyError("surprise")
        await clock.sleep(20)
        message = "The node cannot run the pod: KeyError: 'surprise'"
        assert (phase_of(worker.record), worker.record.message) == ("Failed", message)
        assert machine.events[-1] == ("UnexpectedError", message)
        assert machine.released
        waiting = asyncio.create_task(worker.wait_deleted())
        worker.terminate(0.0)
        await waiting
        assert worker.is_stopped

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Always")


def test_processes_of_an_earlier_node_are_ended_before_they_are_adopted() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        ended = asyncio.get_running_loop().create_future()
        machine.attempts["main/0"] = ContainerRun("main/0", 1, 0.0, ended)
        machine.blocked = RuntimeProblem("no network")
        await clock.sleep(3)
        worker.terminate(10.0)
        await clock.sleep(5)
        assert machine.signals == [("main/0", False, 3.0)]
        assert worker.is_stopped

    live(story, {"main": [(1e6, 0)]}, restartPolicy="Always")


def test_an_init_container_of_a_service_runs_until_it_passes_and_no_longer() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(60)
        assert [name for name, _ in machine.starts] == ["init", "init", "main"]
        assert phase_of(worker.record) == "Running"

    inits = [{"name": "init", "image": "x"}]
    live(story, {"main": [(1e6, 0)], "init": [(1.0, 1), (1.0, 0)]}, restartPolicy="Always", initContainers=inits)
