"""`play`: one chaos run from its plan to its findings, in virtual time.

The adversary injects the plan's faults while users carry out its steps. Then everything heals, and within
`SETTLED_SECONDS` the cluster must settle (`strato.testing.chaos.settled`); users delete the objects they created, and
none may be left.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import User
from strato.clock import VirtualClock
from strato.errors import AlreadyExists, ApiError, InvariantError, NotFound, StratoError
from strato.server.api import ApiServer
from strato.testing.chaos.cluster import ProcessCluster
from strato.testing.chaos.invariants import BrokenInvariant, Watchdog
from strato.testing.chaos.network import ProcessClient, Window
from strato.testing.chaos.plan import (
    FAULTY_SECONDS,
    ChaosPlan,
    FaultKind,
    PlannedFault,
    UserRequest,
    draw_faults,
    draw_setting,
)
from strato.testing.chaos.processes import Process, ProcessLoop
from strato.testing.chaos.settled import WORKLOADS, left_over, unsettled
from strato.testing.chaos.workload import draw_steps

SETTLED_SECONDS: Final = 900.0
"""Time in which a healed cluster must settle; covers run times, taints of lost nodes (300 s), back-offs of a minute."""
GONE_SECONDS: Final = 300.0
"""Time in which all objects that users delete must be gone."""
START_SECONDS: Final = 60.0
"""Time in which a cluster must start."""
RESTART_SECONDS: Final = 1.0
"""Time after which a component that ended by itself is restarted."""
_LOOK_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0
_START: Final = 1_700_000_000.0


@dataclass(frozen=True, slots=True)
class ChaosResult:
    """The result of a run."""

    plan: ChaosPlan
    findings: list[BrokenInvariant]
    digest: str
    """Hash of everything that happened; equal runs have equal digests."""
    changes: int
    """Number of published writes."""
    story: list[tuple[float, str]] = field(repr=False)

    @property
    def rules(self) -> frozenset[str]:
        """Names of the broken rules."""
        return frozenset(finding.rule for finding in self.findings)


def draw_plan(seed: int, config: str = "") -> ChaosPlan:
    """Draw the plan of a seed; ``config`` is the scheduler's configuration, empty for the embedded cluster's."""
    random = Random(seed)
    setting = msgspec.structs.replace(draw_setting(random, seed), config=config)
    return ChaosPlan(seed=seed, setting=setting, steps=draw_steps(random, setting), faults=draw_faults(random, setting))


def play(plan: ChaosPlan) -> ChaosResult:
    """Run a plan."""
    clock = VirtualClock(_START)
    loop = ProcessLoop(clock)
    with (
        tempfile.TemporaryDirectory(prefix="strato-chaos-", dir=_memory_folder()) as folder,
        _garbage_left_alone(),
    ):
        run = _Run(plan, loop, clock, Path(folder))
        try:
            loop.set_exception_handler(run.on_bug)
            loop.run_until_complete(run.main())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        run.replay()
    watchdog = run.watchdog
    return ChaosResult(plan, watchdog.findings, watchdog.digest, watchdog.changes, watchdog.story)


@contextmanager
def _garbage_left_alone() -> Iterator[None]:
    """Turn garbage collection off for the block: runs leave little garbage, and collecting takes 20 % of their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _memory_folder() -> str | None:
    """Return a folder in memory, where flushing files is cheap; None uses the default for temporary files."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class _Run:
    """A run in progress."""

    def __init__(self, plan: ChaosPlan, loop: ProcessLoop, clock: VirtualClock, folder: Path) -> None:
        self._plan = plan
        self._loop = loop
        self._cluster = cluster = ProcessCluster(loop, clock, plan.seed, plan.setting, folder)
        self._clock = clock
        self._began = 0.0
        self.watchdog = Watchdog(self._seconds, self._has_newer_scheduler)
        self._users: ProcessClient | None = None
        self._is_over = False
        self._users_are_done = False
        cluster.on_server = self._on_server
        cluster.on_crash = self._on_crash
        cluster.on_end = self._on_end
        cluster.network.on_carried_out = self.watchdog.carried_out
        cluster.network.on_acknowledged = self.watchdog.acknowledged

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an unhandled error of the event loop as a finding."""
        del loop
        if not self._is_over:
            error = context.get("exception")
            text = f"{context.get('message')}: {error!r}"
            self.watchdog.report("a part failed", text, once_for=text)

    async def main(self) -> None:
        """Carry out the plan."""
        try:
            self._cluster.start()
            if await self._until(self._has_started, START_SECONDS, "the cluster has not started"):
                self._began = self._clock.monotonic()
                await self._work()
        finally:
            self._is_over = True
            self._cluster.network.server_died()
            await self._loop.end()
            journal = self._cluster.disk.journal
            if journal is not None:
                journal.file.close()

    async def _work(self) -> None:
        cluster = self._cluster
        self._loop.start_process("users", self._work_as_users)
        async with asyncio.TaskGroup() as group:
            for fault in self._plan.faults:
                group.create_task(self._befall(fault))
        await self._clock.sleep(max(0.0, FAULTY_SECONDS - self._seconds()))
        self.watchdog.note("everything heals")
        cluster.retire_rivals()
        for clock in cluster.clocks.values():
            clock.offset_seconds = 0.0
        if not await self._until(self._unsettled, SETTLED_SECONDS, "not settled"):
            return
        self.watchdog.note("everything is settled")
        await self._delete_all()
        await self._until(lambda: left_over(_server(cluster)), GONE_SECONDS, "left over")

    def replay(self) -> None:
        """Replay the schedulers' logs after all schedulers have ended."""
        for text in self._cluster.recordings.problems():
            self.watchdog.report("a replay decides otherwise", text)

    def _unsettled(self) -> list[str]:
        undone = [] if self._users_are_done else ["users are not done"]
        return [*undone, *unsettled(_server(self._cluster))]

    async def _until(self, look: Callable[[], list[str]], seconds: float, rule: str) -> bool:
        """Wait until ``look`` returns no complaints; return whether that happened in time."""
        until = self._clock.monotonic() + seconds
        while True:
            wrong = look()
            if not wrong or self.watchdog.findings:
                return not wrong
            if self._clock.monotonic() >= until:
                for text in wrong:
                    self.watchdog.report(rule, f"after {seconds:g} s: {text}", once_for=text)
                return False
            await self._clock.sleep(_LOOK_SECONDS)

    def _has_started(self) -> list[str]:
        cluster = self._cluster
        server = cluster.server
        if server is None:
            return ["there is no server"]
        wanted = sum(self._plan.setting.nodes.values())
        have = len(server.store.bucket(catalog.NODE.resource).objects)
        wrong = [] if have == wanted else [f"{have} of {wanted} nodes are registered"]
        return wrong if cluster.epoch else [*wrong, "no scheduler decides"]

    # The cluster's hooks

    def _on_server(self, server: ApiServer) -> None:
        self.watchdog.server_started(server)

    def _on_crash(self) -> None:
        self.watchdog.server_crashed(self._cluster.disk.last_revision)

    def _on_end(self, part: str, error: BaseException | None) -> None:
        if self._is_over:
            return
        if error is not None and not _gives_up(error):
            self.watchdog.report("a part ended", f"{part}: {error!r}", once_for=part)
        self.watchdog.note(f"{part} ended and is started again")
        self._cluster.kill(part)
        self._cluster.network.outside(self._clock.monotonic() + RESTART_SECONDS, lambda: self._cluster.start_part(part))

    def _has_newer_scheduler(self, line: ProcessClient) -> bool:
        setting = self._plan.setting
        if setting.schedulers > 1 and not setting.is_elected:
            return True
        return self._cluster.epochs.get(line.process, 0) < self._cluster.epoch

    # The adversary

    async def _befall(self, fault: PlannedFault) -> None:
        """Inject a fault at its time."""
        await self._clock.sleep(max(0.0, fault.at - self._seconds()))
        self.watchdog.note(f"FAULT {fault}")
        act = {
            FaultKind.CRASH: self._crash,
            FaultKind.PAUSE: self._pause,
            FaultKind.CLOCK: self._set_clock,
            FaultKind.DISK_FULL: self._fill_disk,
            FaultKind.NODE_DEATH: self._stop_node,
        }.get(fault.kind, self._disturb)
        await act(fault)

    async def _disturb(self, fault: PlannedFault) -> None:
        window: Window = self._cluster.network.begin(fault)
        await self._clock.sleep(fault.seconds)
        self._cluster.network.end(window)

    async def _crash(self, fault: PlannedFault) -> None:
        cluster = self._cluster
        if fault.part == "server":
            if "server" in cluster.running:
                cluster.crash_server()
                await self._clock.sleep(fault.seconds)
                cluster.start_server()
                if self._plan.setting.is_embedded:
                    await self._clock.sleep(RESTART_SECONDS)
                    if "components" not in cluster.running:
                        cluster.start_part("components")
            return
        process = cluster.running.get(fault.part)
        if process is None or process.turns_left >= 0:
            return
        died = asyncio.Event()
        process.on_death.append(died.set)
        if fault.amount:
            process.turns_left = int(fault.amount)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, FAULTY_SECONDS - self._seconds())):
                    await died.wait()
            process.turns_left = -1
        else:
            self._loop.kill(process)
        if not died.is_set() or cluster.running.get(fault.part) is not process:
            return
        del cluster.running[fault.part]
        self.watchdog.note(f"{process} is killed")
        await self._clock.sleep(fault.seconds)
        if not (self._plan.setting.is_embedded and "server" not in cluster.running):
            cluster.start_part(fault.part)

    async def _pause(self, fault: PlannedFault) -> None:
        process = self._cluster.running.get(fault.part)
        if process is None or process.is_paused:
            return
        self._loop.pause(process)
        await self._clock.sleep(fault.seconds)
        self._loop.resume(process)

    async def _set_clock(self, fault: PlannedFault) -> None:
        self._cluster.clocks[fault.part].offset_seconds += fault.amount

    async def _fill_disk(self, fault: PlannedFault) -> None:
        journal = self._cluster.disk.journal
        if journal is not None:
            journal.is_full = True
            await self._clock.sleep(fault.seconds)
            journal.is_full = False

    async def _stop_node(self, fault: PlannedFault) -> None:
        cluster, node = self._cluster, fault.part
        if node in cluster.stopped_nodes:
            return
        cluster.stop_node(node)
        await self._clock.sleep(fault.seconds)
        cluster.start_node(node)

    # Users

    async def _work_as_users(self, process: Process) -> None:
        user = User("alice", ("system:masters", "system:authenticated"))
        line = self._users = ProcessClient(self._cluster.network, "users", process, user, is_embedded=False)
        of_objects: dict[tuple[str, str], list[UserRequest]] = {}
        for step in self._plan.steps:
            key = step.manifest["kind"], step.manifest["metadata"]["name"]
            of_objects.setdefault(key, []).append(step)
        async with asyncio.TaskGroup() as group:
            for steps in of_objects.values():
                group.create_task(self._follow(line, steps))
        self._users_are_done = True

    async def _follow(self, line: ProcessClient, steps: Sequence[UserRequest]) -> None:
        """Carry out the steps on one object, each at its time, or later when the one before is confirmed."""
        for step in steps:
            await self._clock.sleep(max(0.0, step.at - self._seconds()))
            await self._confirmed(partial(_do, line, step), str(step))

    async def _confirmed(self, do: Callable[[], Awaitable[object]], text: str) -> None:
        while True:
            try:
                await do()
            except ApiError as error:
                if not self._is_over and self._seconds() > FAULTY_SECONDS + SETTLED_SECONDS / 2:
                    self.watchdog.report("a user's request is refused", f"{text}: {error}", once_for=text)
                    return
            else:
                self.watchdog.note(f"user: {text}")
                return
            await self._clock.sleep(_RETRY_SECONDS)

    async def _delete_all(self) -> None:
        line = self._users
        assert line is not None, "users have worked"
        for kind in WORKLOADS:
            for body in (await line.list(kind)).items:
                metadata = body["metadata"]
                step = UserRequest(
                    at=0.0,
                    verb="delete",
                    manifest={"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata},
                )
                await self._confirmed(partial(_do, line, step), str(step))


def _gives_up(error: BaseException) -> bool:
    """Return whether a component may end with this error: a message to its operator, such as an unreachable API.

    An error answer of the API must not end a component.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(_gives_up(one) for one in error.exceptions)
    return isinstance(error, StratoError) and not isinstance(error, ApiError | InvariantError)


def _server(cluster: ProcessCluster) -> ApiServer:
    assert cluster.server is not None, "the cluster has healed"
    return cluster.server


async def _do(line: ProcessClient, step: UserRequest) -> None:
    manifest = step.manifest
    kind = catalog.find_named(manifest["apiVersion"], manifest["kind"])
    assert kind is not None, "the workload makes kinds that are known"
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", "")
    if step.verb == "create":
        with suppress(AlreadyExists):
            await line.create(kind, manifest, namespace)
    elif step.verb == "patch":
        with suppress(NotFound):
            body = {key: value for key, value in manifest.items() if key == "spec"}
            await line.patch(kind, metadata["name"], namespace, body)
    elif step.verb == "delete":
        with suppress(NotFound):
            await line.delete(kind, metadata["name"], namespace, propagation="Background")
    elif step.verb == "drain":
        await _drain(line, metadata["name"])
    else:
        await _command(line, kind, metadata["name"], namespace, step)


async def _drain(line: ProcessClient, node: str) -> None:
    """Evict all pods of a node."""
    for body in (await line.list(catalog.POD, field_selector=f"spec.nodeName={node}")).items:
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        with suppress(NotFound):
            path = catalog.POD.path(namespace, name, "eviction")
            await line.raw("POST", path, body=msgspec.json.encode(eviction))


async def _command(line: ProcessClient, kind: Kind, name: str, namespace: str, step: UserRequest) -> None:
    """Create a Command for a job, as `vcctl job suspend` and `resume` do."""
    with suppress(NotFound):
        owner = (await line.get(kind, name, namespace))["metadata"]
        reference = {"apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": owner["uid"]}
        command = {
            "apiVersion": catalog.COMMAND.api_version,
            "kind": catalog.COMMAND.name,
            "metadata": {"name": f"{name}-{step.verb}", "namespace": namespace, "ownerReferences": [reference]},
            "target": reference,
            "action": {"abort": "AbortJob", "resume": "ResumeJob"}[step.verb],
        }
        with suppress(AlreadyExists):
            await line.create(catalog.COMMAND, command, namespace)
