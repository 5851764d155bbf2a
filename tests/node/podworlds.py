"""A pod's worker on a machine that only pretends, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from strato.api.core import Container, Pod, PodSpec
from strato.clock import VirtualClock, run_virtual
from strato.node.images.store import Image
from strato.node.podstatus import phase_of, resources_json
from strato.node.records import record_of
from strato.node.resizes import Pending
from strato.node.sandbox.containerworker import NodeServices
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.imagemanager import ImageUnavailable
from strato.node.sandbox.podworker import PodWorker
from strato.node.sandbox.runtime import ContainerLaunch, ContainerRun, Ended
from strato.node.sandbox.settings import NodePeriods


class FakeMachine:
    """Runtime and sandbox in one: each container runs as long and ends as ``plans`` says, the last plan again."""

    isolation = "plain"
    ip = "127.0.0.9"
    has_payloads = True
    is_unknown = False

    def __init__(self, clock: VirtualClock, plans: dict[str, list[tuple[float, int]]]) -> None:
        self.clock = clock
        self.plans = plans
        self.starts: list[tuple[str, float]] = []
        self.signals: list[tuple[str, bool, float]] = []
        self.stubborn = False
        self.missing = ""
        self.released = False
        self.volumes = self
        self.attempts: dict[str, ContainerRun] = {}
        self.refreshes: list[float] = []
        self.gpus_back_at: list[float] = []
        self.told_while_gpus_held: list[str] = []
        self.unenforced: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.blocked: Exception | None = None
        self.refused: Exception | None = None
        self.hook_seconds = 0.0
        self.hook_code = 0
        self.is_oom = False
        self.dropped: list[str] = []
        self.shown: list[tuple[str, str]] = []
        self.labels_seen: list[dict[str, str]] = []
        self.pending: Pending | None = None
        self.in_use = ""
        self.resized: list[tuple[str, dict[str, Any]]] = []
        self.resized_pods: list[dict[str, Any]] = []
        self.pod_in_use = ""

    def submitted(self, worker: PodWorker) -> None:
        first = worker.record.containers[0]
        self.shown.append((first.state, first.reason if first.ending is None else first.ending.reason))
        if not self.gpus_back_at:
            self.told_while_gpus_held.append(phase_of(worker.record))

    async def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        return {}

    async def exec(self, run: ContainerRun, argv: Sequence[str], *, timeout_seconds: float) -> int:
        await self.clock.sleep(self.hook_seconds)
        return self.hook_code

    def refusal(self) -> None:
        return None

    async def prepare(self, hosts: str, given: PodSpec) -> None:
        if self.blocked is not None:
            raise self.blocked

    async def refresh(self, now: float) -> None:
        self.refreshes.append(now)
        if len(self.refreshes) == 2:
            raise ConfigProblem('configmap "cm" not found')

    def write_hosts(self, text: str) -> None:
        pass

    def update(self, pod: Pod) -> None:
        self.labels_seen.append(dict(pod.metadata.labels or {}))

    async def ensure(self, pod: Pod, container: Container, commands: object, event: object) -> Image:
        if self.missing:
            raise ImageUnavailable(self.missing, "it is not there")
        return Image("strato/host", "")

    async def wait_for(self, container: Container, seconds: float) -> None:
        await self.clock.sleep(seconds)

    def launch(self, container: Container, attempt: int, image: Image) -> ContainerLaunch:
        if self.refused is not None:
            raise self.refused
        return ContainerLaunch(f"{container.name}/{attempt}", "", ["x"], {}, "h")

    async def start(self, launch: ContainerLaunch) -> ContainerRun:
        name, attempt = launch.directory.split("/")
        plan = self.plans[name][min(int(attempt), len(self.plans[name]) - 1)]
        now = self.clock.now()
        run = ContainerRun(launch.directory, 1, now, asyncio.get_running_loop().create_future())
        self.attempts[launch.directory] = run
        self.starts.append((name, self.clock.monotonic()))
        asyncio.get_running_loop().call_later(plan[0], self._end, run, plan[1], 0)
        return run

    def _end(self, run: ContainerRun, code: int, number: int) -> None:
        if not run.ended.done():
            run.ended.set_result(Ended(code, number, run.started_at, self.clock.now()))

    def adopt(self, directory: str) -> ContainerRun | None:
        return self.attempts.get(directory)

    def signal(self, run: ContainerRun, *, kill: bool) -> None:
        self.signals.append((run.directory, kill, self.clock.monotonic()))
        if kill or not self.stubborn:
            self._end(run, 137 if kill else 143, 9 if kill else 15)

    def last_attempt(self, container: str) -> int:
        return max((int(d.split("/")[1]) for d in self.attempts if d.startswith(container + "/")), default=-1)

    def attempt(self, container: str, number: int) -> str:
        return f"{container}/{number}"

    def drop_attempt(self, container: str, number: int) -> None:
        self.dropped.append(f"{container}/{number}")

    def oom_killed(self, container: str) -> bool:
        return self.is_oom

    def termination_message(self, container: Container, number: int, *, failed: bool) -> str:
        return f"{container.name}/{number} {'failed' if failed else 'passed'}"

    def unenforced_limits(self, container: Container) -> list[str]:
        return self.unenforced

    def resize(self, container: Container) -> str:
        if not self.in_use:
            self.resized.append((container.name, resources_json(container.resources)))
        return self.in_use

    def resize_pod(self, given: PodSpec) -> str:
        if given.resources is not None:
            self.resized_pods.append(resources_json(given.resources))
        return self.pod_in_use

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
            NodeServices(
                hosts=str,
                submit=lambda: machine.submitted(worker),
                confirm=lambda: clock.sleep(confirm_seconds),
                event=lambda _kind, reason, message: machine.events.append((reason, message)),
                images=machine,
                admit=lambda _pod: None,
                admit_resize=lambda _pod: machine.pending,
            ),
            NodePeriods(),
        )
        task = asyncio.create_task(worker.run())
        await story(worker, machine, clock)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(clock, main())


def changed(pod: Pod, **spec: Any) -> Pod:
    body = msgspec.to_builtins(pod)
    return msgspec.convert(body | {"spec": body["spec"] | spec}, Pod)
