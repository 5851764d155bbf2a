"""A pod's life under virtual time, on a machine that only pretends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from strato.api.core import Container, Pod
from strato.clock import VirtualClock, run_virtual
from strato.node.podstatus import phase_of
from strato.node.records import record_of
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.podworker import PodWorker
from strato.node.sandbox.runtime import Ended, Launch, Run
from strato.node.sandbox.sandbox import ImageMissing


class FakeMachine:
    """Runtime and sandbox in one: each container runs as long and ends as ``plans`` says, the last plan again."""

    isolation = "plain"
    ip = "127.0.0.9"
    has_payloads = True

    def __init__(self, clock: VirtualClock, plans: dict[str, list[tuple[float, int]]]) -> None:
        self.clock = clock
        self.plans = plans
        self.starts: list[tuple[str, float]] = []
        self.signals: list[tuple[str, bool, float]] = []
        self.stubborn = False
        self.missing = False
        self.released = False
        self.attempts: dict[str, Run] = {}
        self.refreshes: list[float] = []
        self.gpus_back_at: list[float] = []
        self.told_while_gpus_held: list[str] = []
        self.unenforced: list[str] = []
        self.events: list[tuple[str, str]] = []

    def submitted(self, worker: PodWorker) -> None:
        if not self.gpus_back_at:
            self.told_while_gpus_held.append(phase_of(worker.record))

    async def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        return {}

    async def exec(self, run: Run, argv: Sequence[str], *, timeout_seconds: float) -> int:
        return 0

    def refusal(self) -> None:
        return None

    async def prepare(self, hosts: str) -> None:
        pass

    async def refresh(self, now: float) -> None:
        self.refreshes.append(now)
        if len(self.refreshes) == 2:
            raise ConfigProblem('configmap "cm" not found')

    def write_hosts(self, text: str) -> None:
        pass

    def launch(self, container: Container, attempt: int) -> tuple[Launch, bool]:
        if self.missing:
            raise ImageMissing("image 'x' is not in the local store")
        return Launch(f"{container.name}/{attempt}", "", ["x"], {}, "h"), False

    async def start(self, launch: Launch) -> Run:
        name, attempt = launch.directory.split("/")
        plan = self.plans[name][min(int(attempt), len(self.plans[name]) - 1)]
        now = self.clock.now()
        run = Run(launch.directory, 1, now, asyncio.get_running_loop().create_future())
        self.attempts[launch.directory] = run
        self.starts.append((name, self.clock.monotonic()))
        asyncio.get_running_loop().call_later(plan[0], self._end, run, plan[1], 0)
        return run

    def _end(self, run: Run, code: int, number: int) -> None:
        if not run.ended.done():
            run.ended.set_result(Ended(code, number, run.started_at, self.clock.now()))

    def adopt(self, directory: str) -> Run | None:
        return self.attempts.get(directory)

    def signal(self, run: Run, *, kill: bool) -> None:
        self.signals.append((run.directory, kill, self.clock.monotonic()))
        if kill or not self.stubborn:
            self._end(run, 137 if kill else 143, 9 if kill else 15)

    def last_attempt(self, container: str) -> int:
        return max((int(d.split("/")[1]) for d in self.attempts if d.startswith(container + "/")), default=-1)

    def attempt(self, container: str, number: int) -> str:
        return f"{container}/{number}"

    def drop_attempt(self, container: str, number: int) -> None:
        pass

    def oom_killed(self, container: str) -> bool:
        return False

    def termination_message(self, container: Container, number: int, *, failed: bool) -> str:
        return ""

    def unenforced_limits(self, container: Container) -> list[str]:
        return self.unenforced

    def note_substitution(self) -> None:
        pass

    def give_back_gpus(self) -> None:
        self.gpus_back_at.append(self.clock.monotonic())

    async def release(self) -> None:
        self.released = True


Story = Callable[[PodWorker, FakeMachine, VirtualClock], Awaitable[None]]


def live(story: Story, plans: dict[str, list[tuple[float, int]]], *, confirm_seconds: float = 0.0, **spec: Any) -> None:
    clock = VirtualClock()
    spec.setdefault("containers", [{"name": "main", "image": "x"}])
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}, Pod)

    async def main() -> None:
        machine = FakeMachine(clock, plans)
        worker = PodWorker(
            pod,
            record_of(pod, host_ip="1.1.1.1", now=clock.now()),
            machine,
            machine,
            clock,
            hosts=str,
            submit=machine.submitted,
            confirm=lambda: clock.sleep(confirm_seconds),
            event=lambda _kind, reason, message: machine.events.append((reason, message)),
        )
        task = asyncio.create_task(worker.run())
        await story(worker, machine, clock)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(clock, main())


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
        assert worker.stopped

    live(story, {"main": [(1e6, 0)]}, restartPolicy="Always")


def test_processes_begin_and_are_ended_only_once_that_holds_for_good() -> None:
    async def story(worker: PodWorker, machine: FakeMachine, clock: VirtualClock) -> None:
        await clock.sleep(5)
        worker.terminate(10.0)
        await clock.sleep(60)
        assert machine.starts == [("main", 2.0)]
        assert machine.signals == [("main/0", False, 7.0)]
        assert worker.stopped

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
        machine.missing = True
        await clock.sleep(5)
        assert worker.record.containers[0].reason == "ErrImageNeverPull"
        machine.missing = False
        await clock.sleep(5)
        assert phase_of(worker.record) == "Succeeded"

    live(story, {"main": [(1.0, 0)]}, restartPolicy="Never")
