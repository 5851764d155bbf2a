"""Evictions decided twice, or in vain: random interleavings of cycles, echoes and failures.

``python -m tests.attack.evictions --count N --seed S``. Each round builds a full cluster, lets important pods come, and
runs the scheduler's own cycle, world, evictor and eviction records against an API that is told when to do what:
requests are answered late, lost before or after they took effect, refused; watches tell of each pod in order but late,
twice, or by a new list; the scheduler dies and starts again, pods are deleted and replaced by namesakes. After each
step all sums are compared with those made from scratch. What counts as a finding: a pod evicted twice, more pods
deleted than the important ones need, a node over its capacity, wrong sums, and pods left waiting at the end. One pod
more is allowed for each eviction that the API refused and each restart: half of a gang's room may then go to others.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from strato.api.core import Pod
from strato.errors import ApiError, Conflict, Forbidden, NotFound, TooManyRequests, Unavailable
from strato.scheduler.binding.evictor import PodEvictor
from strato.scheduler.cache.world import World
from strato.scheduler.config import EMBEDDED_TEXT, parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import HOLDS_RESOURCES
from strato.scheduler.model.plan import Bind, Eviction, Plan
from strato.scheduler.model.tasks import BINDING, PENDING, RELEASING
from strato.scheduler.placement.placer import Placer
from strato.scheduler.reporting.evictionrecords import NEEDLESS, EvictionRecords
from tests.scheduler import worlds

Json = dict[str, Any]

_TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: %s}, {name: nodeorder}]
"""
_TOPOLOGY_AWARE = """
configurations: [{name: preempt, arguments: {enableTopologyAwarePreemption: true}}]
"""
_FLOW = """
configurations: [{name: flow, arguments: {preemption: true}}]
"""
MODES = {
    "preempt": 'actions: "enqueue, allocate, preempt, backfill"' + _TIERS % "drf",
    "topology-aware": 'actions: "enqueue, allocate, preempt, backfill"' + _TIERS % "drf" + _TOPOLOGY_AWARE,
    "reclaim": 'actions: "enqueue, allocate, reclaim, backfill"' + _TIERS % "capacity",
    "gangpreempt": 'actions: "enqueue, allocate, gangpreempt"' + _TIERS % "drf",
    "gangreclaim": 'actions: "enqueue, allocate, gangreclaim"' + _TIERS % "capacity",
    "pods": EMBEDDED_TEXT,
    "flow": 'actions: "enqueue, flow"' + _TIERS % "drf" + _FLOW,
}
"""Configurations by name; each round has one of them."""
HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
_STEPS = 90
_DRAIN = 400


class Finding(AssertionError):
    """The scheduler did something that it must not."""


@dataclass
class _Call:
    """One request, as the evictor makes it; the round decides when and how it is answered."""

    verb: str
    name: str
    uid: str
    body: Json = field(default_factory=dict)

    def __await__(self) -> Generator[_Call, Any, Any]:
        return (yield self)


class _Requests:
    """What the evictor takes for its cluster: every call waits for the round."""

    async def patch(self, _view: object, name: str, _namespace: str, body: Json, **_: object) -> None:
        await _Call("patch", name, body["metadata"]["uid"], body)

    async def delete(self, _kind: object, name: str, _namespace: str, *, uid: str) -> None:
        await _Call("delete", name, uid)

    async def get(self, _view: object, name: str, _namespace: str) -> Pod:
        pod: Pod = await _Call("get", name, "")
        return pod


class _Quiet:
    """Takes events."""

    def event(self, *_: object) -> None:
        """Nobody reads them."""


class _Conditions(NamedTuple):
    """Takes conditions of pods that stay, and has them written as soon as the round answers."""

    eviction_refused: Callable[[Task, list[Json]], None]

    def eviction_begins(self, _: Task) -> None:
        """Each write is tried once: nothing waits."""


class Api:
    """What is true: pods by name, and what the watch has still to tell of each."""

    def __init__(self, requests_of: Callable[[str], int]) -> None:
        self.pods: dict[str, Json] = {}
        self.untold: dict[str, deque[Json | None]] = {}
        self.told: dict[str, Json] = {}
        self.deleted: list[str] = []
        self.generation = 0
        self._size = requests_of

    def put(self, pod: Json) -> None:
        """Store a pod and tell of it."""
        name = pod["metadata"]["name"]
        self.pods[name] = pod
        self.untold.setdefault(name, deque()).append(pod)

    def change(
        self, name: str, *, meta: Json | None = None, spec: Json | None = None, status: Json | None = None
    ) -> None:
        """Store a new version of a pod."""
        old = self.pods[name]
        self.put(
            {
                **old,
                "metadata": {**old["metadata"], **(meta or {})},
                "spec": {**old["spec"], **(spec or {})},
                "status": {**old["status"], **(status or {})},
            }
        )

    def drop(self, name: str) -> None:
        """Have a pod gone."""
        del self.pods[name]
        self.untold.setdefault(name, deque()).append(None)

    def do(self, call: _Call) -> Any:
        """Carry out a request."""
        pod = self.pods.get(call.name)
        if pod is None:
            raise NotFound("gone")
        if call.verb == "get":
            return msgspec.convert(pod, Pod)
        if pod["metadata"]["uid"] != call.uid:
            raise Conflict("another uid")
        if call.verb == "patch":
            self.change(call.name, status={"conditions": merged(pod, call.body["status"]["conditions"])})
        elif "deletionTimestamp" not in pod["metadata"]:
            self.deleted.append(call.uid)
            self.change(call.name, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        return None


def merged(pod: Json, conditions: list[Json]) -> list[Json]:
    """Return a pod's conditions after a strategic merge."""
    by_type = {c["type"]: c for c in pod["status"].get("conditions", ())}
    for condition in conditions:
        if condition.get("$patch") == "delete":
            by_type.pop(condition["type"], None)
        else:
            both = {**by_type.get(condition["type"], {}), **condition}
            by_type[condition["type"]] = {k: v for k, v in both.items() if v is not None}
    return list(by_type.values())


class _Clock:
    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time


class Round:
    """One random history.

    Args:
        seed: Decides everything.
        mode: One of `MODES`.
        config: That mode's configuration, read.
    """

    def __init__(self, seed: int, mode: str, config: Config) -> None:
        self.rng, self.mode, self.config = random.Random(seed), mode, config
        self.clock = _Clock()
        self.counts: Counter[str] = Counter()
        self.sizes: dict[str, int] = {}
        self.api = Api(lambda name: self.sizes[name])
        self.refusals = self.rng.random() < 0.4
        self.refused: set[str] = set()
        self.large = not self.refusals and self.rng.random() < 0.3
        self.important = 0
        self.needed = 0
        self.taken = 0
        """Unimportant pods that took room; allowed where it was not evicted for the important ones."""
        self.capacity = self.rng.randint(2, 4)
        self.fixed = self._build()
        self._start()

    # -- the cluster ---------------------------------------------------------------------------------------------------

    def _build(self) -> list[Json]:
        between = "reclaim" in self.mode
        nodes = self.rng.randint(1, 4)
        objects: list[Json] = [HIGH]
        if between:
            share = {"cpu": str(nodes * self.capacity), "memory": "1Ti"}
            objects += [worlds.queue("high", deserved=share), worlds.queue("low", deserved={"cpu": "0", "memory": "0"})]
        else:
            objects.append(worlds.queue())
        objects += [worlds.node(f"n{i}", cpu=str(self.capacity), memory="64Gi") for i in range(nodes)]
        low_queue = "low" if between else "default"
        self.high_queue = "high" if between else "default"
        jobs = self.rng.randint(1, 3)
        objects += [worlds.group(f"low{j}", 0, phase="Running", queue=low_queue) for j in range(jobs)]
        for i in range(nodes):
            for k in range(self.capacity):
                pod = self._pod(f"low-{i}-{k}", f"low{(i + k) % jobs}", phase="Running", nodeName=f"n{i}", priority=0)
                self._born(pod, 1)
        self.most = nodes * self.capacity
        return objects

    def _pod(self, name: str, group: str, **more: Any) -> Json:
        """Return a pod of a group, or without one where the round is about such pods."""
        if self.mode == "pods":
            return worlds.pod(name, scheduler="default-scheduler", **more)
        return worlds.pod(name, group, **more)

    def _born(self, pod: Json, size: int) -> None:
        self.api.generation += 1
        pod["metadata"]["uid"] = f"{pod['metadata']['name']}-{self.api.generation}"
        pod["metadata"]["generation"] = 1
        self.sizes[pod["metadata"]["name"]] = size
        self.api.put(pod)

    def _start(self) -> None:
        """Start a scheduler on what the API has now; requests of the one before are lost."""
        self.world = World(("volcano", "default-scheduler"))
        worlds.feed(self.world, *self.fixed, *self.api.pods.values())
        self.api.untold.clear()
        self.api.told = dict(self.api.pods)
        self.placer = Placer(self.world.nodes, self.rng.getrandbits(8))
        recorder: Any = _Quiet()
        cluster: Any = _Requests()
        clock: Any = self.clock
        self.records = EvictionRecords(there=self._is_there)
        pods: Any = _Conditions(self._write_conditions)
        self.evictor = PodEvictor(cluster, clock, self.world, recorder, pods, self._on_refused)
        self.calls: list[tuple[_Call, Coroutine[_Call, Any, Any], Eviction | None]] = []
        self.later: list[Eviction] = []
        self.under_way: set[str] = set()
        """Uids of victims that the scheduler decided on and did not take back."""
        self.binding: list[Bind] = []
        self.nominating: list[tuple[str, str, str]] = []

    # -- what the scheduler does ---------------------------------------------------------------------------------------

    def cycle(self) -> Plan:
        """Decide."""
        for job in self.world.jobs.values():
            self.world.dirty_jobs[job.key] = None
        plan = run_cycle(self.world, self.config, now=self.clock.time, rng=self.rng, uid="u", placer=self.placer)
        if plan.failures:
            raise Finding(f"a cycle failed: {plan.failures}")
        self.binding += plan.binds
        for verdict in plan.pods:
            if verdict.nominated:
                self.nominating.append((verdict.task.name, verdict.task.uid, verdict.nominated))
        for eviction in plan.evictions:
            if eviction.task.uid in self.under_way:
                raise Finding(f"{eviction.task.uid} is evicted twice")
            self.under_way.add(eviction.task.uid)
        self.records.look(self.world.tasks, self.clock.time)
        self.records.note(plan.evictions, self.world.nodes.names, self.clock.time)
        self.counts["evictions"] += len(plan.evictions)
        self.later += plan.evictions
        return plan

    def _write_conditions(self, task: Task, conditions: list[Json]) -> None:
        async def write() -> None:
            with suppress(ApiError):
                await _Call("patch", task.name, task.uid, {"status": {"conditions": conditions}})

        self._advance(write(), None)

    def _on_refused(self, eviction: Eviction) -> None:
        self.counts["taken back"] += 1
        self.under_way.remove(eviction.task.uid)
        self.records.refused(eviction.task.key, eviction.task.uid, self.clock.time)

    def begin(self) -> None:
        """Have a worker take an eviction."""
        if self.later:
            eviction = self.later.pop(self.rng.randrange(len(self.later)))
            self._advance(self.evictor.evict(eviction), eviction)

    def _advance(
        self,
        work: Coroutine[_Call, Any, Any],
        eviction: Eviction | None,
        answer: Any = None,
        error: ApiError | None = None,
    ) -> None:
        try:
            call = work.throw(error) if error is not None else work.send(answer)
        except StopIteration as end:
            if end.value is not None and eviction is not None:
                self.later.append(eviction)
            return
        self.calls.append((call, work, eviction))

    def answer(self, *, well: bool = False) -> None:
        """Have the API answer one request, one way or the other."""
        if not self.calls:
            return None
        call, work, eviction = self.calls.pop(self.rng.randrange(len(self.calls)))
        error: ApiError | None = None
        chance = 1.0 if well else self.rng.random()
        if self.refusals and not well and chance < 0.1 and call.verb == "delete" and call.uid not in self.refused:
            self.refused.add(call.uid)
            self.counts["refused"] += 1
            return self._advance(work, eviction, error=Forbidden("no"))
        if chance < 0.2:
            self.counts["requests lost"] += 1
            return self._advance(work, eviction, error=self.rng.choice((Unavailable, TooManyRequests))("busy"))
        try:
            answer = self.api.do(call)
        except ApiError as refusal:
            answer, error = None, refusal
        if chance < 0.35:
            self.counts["answers lost"] += 1
            error = Unavailable("timeout")
        return self._advance(work, eviction, answer, error)

    def bind(self) -> None:
        """Have one bind written, or refused because the pod is not what it was."""
        if not self.binding:
            return
        bind = self.binding.pop(0)
        task = bind.task
        pod = self.api.pods.get(task.name)
        leaving = pod is not None and "deletionTimestamp" in pod["metadata"]
        if pod is not None and pod["metadata"]["uid"] == task.uid and not leaving:
            self.api.change(task.name, spec={"nodeName": bind.node})
            self._check_capacity(bind.node)
            self.taken += task.name.startswith("low")
            self.records.started(task.key, self.clock.time, bind.node)
            return
        if self.world.tasks.get(task.key) is not task:
            return
        if task.status == BINDING:
            self.world.move(task, PENDING)
        if pod is None:
            self.world.remove_pod(task.key)
        else:
            self.world.set_pod(msgspec.convert(pod, Pod))

    def _is_there(self, entry: Any) -> bool:
        pod = self.api.pods.get(entry.victim.partition("/")[2])
        ended = pod is None or pod["status"]["phase"] == "Succeeded"
        return pod is not None and pod["metadata"]["uid"] == entry.uid and not ended

    def nominate(self) -> None:
        """Have one nominated node written."""
        if self.nominating:
            name, uid, node = self.nominating.pop(0)
            pod = self.api.pods.get(name)
            if pod is not None and pod["metadata"]["uid"] == uid:
                self.api.change(name, status={"nominatedNodeName": node})

    # -- what the watch tells ------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Hear the next of one pod, whose it is left to chance; sometimes what was told before once more."""
        names = [name for name, waiting in self.api.untold.items() if waiting]
        if names and (self.rng.random() < 0.9 or not self.api.told):
            name = self.rng.choice(names)
            self._hear(name, self.api.untold[name].popleft())
        elif self.api.told:
            self.counts["told twice"] += 1
            name = self.rng.choice(list(self.api.told))
            self._hear(name, self.api.told[name])

    def _hear(self, name: str, pod: Json | None) -> None:
        if pod is None:
            self.api.told.pop(name, None)
            self.world.remove_pod(f"ns/{name}")
        else:
            self.api.told[name] = pod
            self.world.set_pod(msgspec.convert(pod, Pod))

    def list_again(self) -> None:
        """Take a new list: what was missed in between is never told."""
        self.counts["lists"] += 1
        for name in [*self.api.told]:
            if name not in self.api.pods:
                self._hear(name, None)
        for name, pod in self.api.pods.items():
            self._hear(name, pod)
        self.api.untold.clear()

    # -- what others do ------------------------------------------------------------------------------------------------

    def kubelet(self) -> None:
        """Start a bound pod, or end one that is leaving."""
        ready = [
            name
            for name, pod in self.api.pods.items()
            if "deletionTimestamp" in pod["metadata"]
            or (pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending")
        ]
        if not ready:
            return
        name = self.rng.choice(ready)
        if "deletionTimestamp" in self.api.pods[name]["metadata"]:
            self.api.drop(name)
        else:
            self.api.change(name, status={"phase": "Running"})

    def arrive(self) -> None:
        """Have an important pod, or a gang of them, created."""
        if self.large:
            size, members = (self.rng.randint(1, self.capacity), 1) if self.important == 0 else (0, 0)
        else:
            size, members = 1, self.rng.randint(1, 2)
        if not members or self.needed + size * members > self.most:
            return
        group = f"high{self.important}"
        self.important += 1
        self.needed += size * members
        made = worlds.group(group, members, queue=self.high_queue, priorityClassName="high")
        self.fixed.append(made)
        worlds.feed(self.world, made)
        for i in range(members):
            pod = self._pod(f"{group}-{i}", group, cpu=str(size), priority=100)
            self._born(pod, size)
        self.counts["important pods"] += members

    def meddle(self) -> None:
        """Have a pod deleted by its user, ended, changed or replaced."""
        choice = self.rng.random()
        names = [n for n, p in self.api.pods.items() if "deletionTimestamp" not in p["metadata"]]
        if choice < 0.45 or not names:
            self._replace()
            return
        name = self.rng.choice(names)
        if choice < 0.75:
            self.api.change(
                name, meta={"annotations": {**self.api.pods[name]["metadata"]["annotations"], "n": str(choice)}}
            )
        elif self.large:
            return
        elif choice < 0.9:
            running = self.api.pods[name]["spec"].get("nodeName")
            self.counts["deleted by users"] += 1
            if running:
                self.api.change(name, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
            else:
                self.api.drop(name)
        elif self.api.pods[name]["status"]["phase"] == "Running":
            self.counts["ended"] += 1
            self.api.change(name, status={"phase": "Succeeded"})

    def _replace(self) -> None:
        """Have the owner of a pod that went make a namesake."""
        gone = [name for name in self.sizes if name.startswith("low") and name not in self.api.pods]
        if gone:
            self.counts["replaced"] += 1
            name = self.rng.choice(gone)
            job = next(o["metadata"]["name"] for o in self.fixed if o["kind"] == "PodGroup")
            self._born(self._pod(name, job, priority=0), 1)

    def restart(self) -> None:
        """Kill the scheduler and start another."""
        if self.large:
            return
        self.counts["restarts"] += 1
        for _, work, _ in self.calls:
            work.close()
        self._start()

    # -- what must hold ------------------------------------------------------------------------------------------------

    def _check_capacity(self, node: str) -> None:
        held = sum(
            self.sizes[name]
            for name, pod in self.api.pods.items()
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in ("Succeeded", "Failed")
        )
        if held > self.capacity:
            raise Finding(f"{node} holds {held} of {self.capacity}")

    def check(self) -> None:
        """Compare all sums with those made from scratch."""
        check_sums(self.world)
        freed = (
            self.counts["deleted by users"] + self.counts["ended"] + self.counts["refused"] + self.counts["restarts"]
        )
        needed = self.needed + (self.taken if freed else 0) + self.counts["refused"] + self.counts["restarts"]
        if len(self.api.deleted) > needed:
            raise Finding(f"{len(self.api.deleted)} pods deleted where {needed} suffice")
        if not freed and any(entry.outcome == NEEDLESS for entry in self.records.entries):
            raise Finding("the records have a needless eviction")

    def run(self) -> None:
        """Do everything at random, then let all come to rest."""
        steps: list[tuple[Callable[[], object], float]] = [
            (self.cycle, 4),
            (self.hear, 7),
            (self.begin, 3),
            (self.answer, 5),
            (self.bind, 3),
            (self.nominate, 1),
            (self.kubelet, 3),
            (self.arrive, 1),
            (self.meddle, 1),
            (self.list_again, 0.3),
            (self.restart, 0.2),
        ]
        for step in self.rng.choices([step for step, _ in steps], [weight for _, weight in steps], k=_STEPS):
            self.clock.time += self.rng.random()
            step()
            self.check()
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        quiet = 0
        for _ in range(_DRAIN):
            self.clock.time += 2.0
            plan = self.cycle()
            quiet = 0 if plan.binds or plan.evictions or self._has_work() else quiet + 1
            for _ in range(200):
                if not self._has_work():
                    break
                self.begin()
                self.answer(well=True)
                self.bind()
                self.nominate()
                self.kubelet()
                self.hear()
                self.check()
            if quiet > 2:
                break
        waiting = [n for n, p in self.api.pods.items() if n.startswith("high") and not p["spec"].get("nodeName")]
        if waiting and not self._gang_is_broken(waiting):
            raise Finding(f"left waiting at the end: {waiting}")
        if self.world.evictions.unconfirmed:
            raise Finding(f"never confirmed nor refused: {list(self.world.evictions.unconfirmed)}")

    def _has_work(self) -> bool:
        """Whether anything is under way."""
        pods = self.api.pods.values()
        ours = self.later or self.calls or self.binding or self.nominating or any(self.api.untold.values())
        return bool(ours) or any(
            "deletionTimestamp" in pod["metadata"]
            or (pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending")
            for pod in pods
        )

    def _gang_is_broken(self, waiting: list[str]) -> bool:
        """Whether those that wait lack a member that a user deleted."""
        return all(
            sum(n.rpartition("-")[0] == name.rpartition("-")[0] for n in self.api.pods)
            < next(o["spec"]["minMember"] for o in self.fixed if o["metadata"]["name"] == name.rpartition("-")[0])
            for name in waiting
        )


def check_sums(world: World) -> None:
    """Compare every account with the sum of its parts.

    Raises:
        Finding: They differ, or a node holds more than it has.
    """
    nodes = world.nodes
    for name, row in nodes.row_of.items():
        tasks = nodes.tasks[row].values()
        zero = world.dims.zeros()
        held = sum((t.cls.request for t in tasks), zero)
        leaving = sum((t.cls.request for t in tasks if t.status == RELEASING), zero)
        if (nodes.idle[row] != nodes.allocatable[row] - held).any() or (nodes.idle[row] < 0).any():
            raise Finding(f"{name} is over capacity or its sum is wrong")
        if (nodes.releasing[row] != leaving).any() or nodes.pipelined[row].any():
            raise Finding(f"what is leaving {name} is not counted once")
        if any(t.row != row for t in tasks):
            raise Finding(f"{name} counts pods that are elsewhere")
    if nodes.leaving != sum(t.status == RELEASING and t.row >= 0 for t in world.tasks.values()):
        raise Finding("the number of leaving pods is wrong")
    for job in world.jobs.values():
        members = list(job.tasks.values())
        used = sum((t.cls.request for t in members if HOLDS_RESOURCES[t.status]), world.dims.zeros())
        if not np.array_equal(job.used, used) or job.counts[RELEASING] != sum(t.status == RELEASING for t in members):
            raise Finding(f"sums of {job.key} are wrong")
    for queue in world.queues.values():
        used = sum((job.used for job in world.jobs_of(queue)), world.dims.zeros())
        if not np.array_equal(queue.used, used):
            raise Finding(f"sums of queue {queue.name} are wrong")


def attack(count: int, seed: int, *, progress: bool = False) -> tuple[Counter[str], list[str]]:
    """Run rounds; return counts and what was found."""
    configs = {mode: parse_config(text) for mode, text in MODES.items()}
    counts: Counter[str] = Counter()
    findings: list[str] = []
    for number in range(seed, seed + count):
        mode = list(MODES)[number % len(MODES)]
        this = Round(number, mode, configs[mode])
        try:
            this.run()
        except Finding as finding:
            findings.append(f"round {number} ({mode}): {finding}")
        counts.update(this.counts)
        counts["rounds"] += 1
        counts["deletions"] += len(this.api.deleted)
        if progress and (number - seed + 1) % 250 == 0:
            print(f"{number - seed + 1} rounds, {len(findings)} findings", file=sys.stderr, flush=True)
    return counts, findings


def main() -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts, findings = attack(options.count, options.seed, progress=True)
    for name, number in sorted(counts.items()):
        print(f"{name:<20}{number:>10}")
    for finding in findings[:50]:
        print(finding)
    print(f"{len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
