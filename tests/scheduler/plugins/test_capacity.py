"""capacity gives what the slow, literal reference gives, on random queues: flat ones, and trees of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.framework.plugin import GANG_PREEMPT, GANG_RECLAIM
from strato.scheduler.model.answers import Evictor
from strato.scheduler.model.jobs import Task
from strato.scheduler.plugins.capacity import Capacity
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

GPU = "nvidia.com/gpu"
GIB = 1 << 30
UNIT = {"cpu": 1000.0, "memory": float(GIB), GPU: 1000.0}
"""Internal units in one that people write."""
FIRST = ("cpu", "memory")
ENDLESS = float("inf")
Json = dict[str, Any]
Amounts = dict[str, float]


def wire(amounts: Amounts) -> Json:
    return {name: f"{amount:g}Gi" if name == "memory" else f"{amount:g}" for name, amount in amounts.items()}


@dataclass
class Slow:
    """A queue as the specification has it (volcano-plugins 6); amounts in whole units, absent is not the same as 0."""

    name: str
    parent: str
    deserved: Amounts
    capability: Amounts
    guarantee: Amounts
    is_open: bool = True
    children: list[str] = field(default_factory=list)
    ancestors: list[str] = field(default_factory=list)
    real: Amounts = field(default_factory=dict)
    held: Amounts = field(default_factory=dict)

    def limit(self, name: str) -> float:
        amount = self.capability.get(name)
        return ENDLESS if amount is None or (amount <= 0 and name in FIRST) else amount


def of(amounts: Amounts, name: str) -> float:
    return amounts.get(name, 0.0)


def plus(left: Amounts, right: Amounts, by: int = 1) -> Amounts:
    return {name: of(left, name) + by * of(right, name) for name in {**left, **right}}


def share_a_dimension(left: Amounts, right: Amounts) -> bool:
    return any(of(left, name) > 0 and of(right, name) > 0 for name in UNIT)


def exceeds(held: Amounts, queue: Slow, wanted: Amounts) -> bool:
    """Whether more is held than deserved of something wanted that the deserved part defines."""
    defined = {n for n, amount in queue.deserved.items() if n not in FIRST or amount > 0}
    return any(of(held, n) > of(queue.deserved, n) for n in wanted if wanted[n] > 0 and n in defined)


class Reference:
    """Random queues, jobs and pods: as objects, and as the specification sees them."""

    def __init__(self, seed: int, *, tree: bool) -> None:
        rng = random.Random(seed)
        self.tree = tree
        self.level = rng.choice((0, 1, 2)) if tree else 0
        self.total: Amounts = {"cpu": 16.0, "memory": 32.0, GPU: float(rng.choice((0, 4)))}
        more = {GPU: "4"} if self.total[GPU] else {}
        self.objects: list[Json] = [worlds.node("n", cpu="16", memory="32Gi", **more)]
        self.queues: dict[str, Slow] = {}
        self.pods: dict[str, tuple[str, Amounts]] = {}
        leaves = []
        if tree:
            self._add(Slow("root", "", {}, {}, {}))
            for name in ("p", "q"):
                self._add(self._queue(rng, name, "root"))
            parents = [rng.choice(("p", "q", "root")) for _ in range(rng.randint(2, 4))]
            leaves += [self._add(self._queue(rng, f"l{number}", parent)) for number, parent in enumerate(parents)]
            leaves += [queue for queue in self.queues.values() if queue.name in ("p", "q") and not queue.children]
        else:
            leaves = [self._add(self._queue(rng, f"l{number}", "")) for number in range(rng.randint(1, 4))]
        for queue in leaves:
            self._job(rng, queue)
        for queue in self.queues.values():
            spec: Json = {"deserved": wire(queue.deserved), "capability": wire(queue.capability)}
            spec["guarantee"] = {"resource": wire(queue.guarantee)}
            state = "Open" if queue.is_open else "Closed"
            self.objects.append(worlds.queue(queue.name, parent=queue.parent, state=state, **spec))
        self._entitle()

    def _queue(self, rng: random.Random, name: str, parent: str) -> Slow:
        def some(most: int, chance: float) -> Amounts:
            return {n: float(rng.choice((0, rng.randint(0, most)))) for n in UNIT if rng.random() < chance}

        return Slow(name, parent, some(6, 0.6), some(10, 0.3), some(2, 0.2), rng.random() < 0.9)

    def _add(self, queue: Slow) -> Slow:
        self.queues[queue.name] = queue
        if self.tree and queue.parent:
            self.queues[queue.parent].children.append(queue.name)
            queue.ancestors = [*self.queues[queue.parent].ancestors, queue.parent]
        return queue

    def _job(self, rng: random.Random, queue: Slow) -> None:
        self.objects.append(worlds.group(queue.name, 0, queue=queue.name, phase="Running"))
        for number in range(rng.randint(1, 5)):
            asked = {
                "cpu": float(rng.randint(0, 2)),
                "memory": float(rng.randint(0, 3)),
                GPU: float(rng.random() < 0.3),
            }
            name, runs = f"{queue.name}-{number}", number > 0 and rng.random() < 0.8
            where: Json = {"phase": "Running", "nodeName": "n"} if runs else {}
            text = wire({n: amount for n, amount in asked.items() if amount})
            extra = {GPU: text[GPU]} if GPU in text else {}
            pod = worlds.pod(name, queue.name, text.get("cpu", ""), text.get("memory", ""), resources=extra, **where)
            self.objects.append(pod)
            self.pods[name] = (queue.name, asked)
            if runs:
                for at in (queue.name, *queue.ancestors):
                    self.queues[at].held = plus(self.queues[at].held, asked)

    def _entitle(self) -> None:
        if self.tree:
            root = self.queues["root"]
            root.real = {n: ENDLESS if n in FIRST or of(self.total, n) else 0.0 for n in UNIT}
            self._entitle_below(root, dict(root.real))
            return
        kept: Amounts = {}
        for queue in self.queues.values():
            kept = plus(kept, queue.guarantee)
        for queue in self.queues.values():
            room = {n: max(of(self.total, n) - of(kept, n), 0) + of(queue.guarantee, n) for n in UNIT}
            queue.real = {n: min(room[n], queue.limit(n)) for n in UNIT}
            declared = set(queue.deserved) | set(queue.guarantee)
            queue.deserved = {
                n: max(min(of(queue.deserved, n), queue.real[n]), of(queue.guarantee, n)) for n in declared
            }

    def _entitle_below(self, parent: Slow, limits: Amounts) -> None:
        children = [self.queues[name] for name in parent.children]
        kept: Amounts = {}
        for child in children:
            kept = plus(kept, child.guarantee)
        for child in children:
            declared = set(child.deserved) | set(child.guarantee)
            child.deserved = {n: max(of(child.deserved, n), of(child.guarantee, n)) for n in declared}
        if parent.name == "root":
            parent.guarantee = kept
            parent.deserved = {}
            for child in children:
                parent.deserved = plus(parent.deserved, child.deserved)
        for child in children:
            mine = {n: limits[n] if child.limit(n) == ENDLESS else child.limit(n) for n in UNIT}
            room = {n: max(parent.real[n] - of(kept, n), 0) + of(child.guarantee, n) for n in UNIT}
            child.real = {n: min(room[n], mine[n]) for n in UNIT}
            self._entitle_below(child, mine)

    # -- questions -----------------------------------------------------------------------------------------------------

    def _lineage(self, queue: Slow) -> list[Slow]:
        return [queue, *(self.queues[name] for name in queue.ancestors)]

    def allocatable(self, queue: Slow, asked: Amounts, count: int) -> int:
        if not queue.is_open or queue.children:
            return 0
        for at in self._lineage(queue):
            for n, amount in asked.items():
                if amount > 0:
                    count = min(
                        count, int(max((at.real[n] - of(at.held, n)) // amount, 0)) if at.real[n] < ENDLESS else count
                    )
        return count

    def preemptive(self, queue: Slow, asked: Amounts) -> bool:
        wanted = [n for n, amount in asked.items() if amount > 0]
        if not queue.is_open or any(of(queue.held, n) + asked[n] > queue.real[n] for n in wanted):
            return False

        def partly(at: Slow) -> bool:
            return any(of(at.held, n) + asked[n] <= of(at.deserved, n) for n in wanted)

        near = [self.queues[n] for n in reversed(queue.ancestors) if n != "root"][: self.level]
        return any(partly(at) for at in (queue, *near))

    def reclaimable(self, mine: str, victims: list[str]) -> list[str]:
        home, asked = self.pods[mine]
        held = {name: queue.held for name, queue in self.queues.items()}
        gone = []
        for victim in victims:
            name, request = self.pods[victim]
            queue = self.queues[name]
            if not share_a_dimension(request, asked):
                continue
            if any(of(queue.guarantee, n) > of(held[name], n) - of(request, n) for n in UNIT):
                continue
            if not share_a_dimension(request, queue.deserved):
                near, theirs = self._near(queue), self._near(self.queues[home])
                if near & theirs and not share_a_dimension(asked, self.queues[home].deserved):
                    continue
            elif not exceeds(held[name], queue, asked):
                continue
            consulted = self._consulted(queue, self.queues[home])
            if all(
                not share_a_dimension(request, at.deserved) or exceeds(held[at.name], at, asked) for at in consulted
            ):
                gone.append(victim)
                for at in (queue, *consulted):
                    held[at.name] = plus(held[at.name], request, -1)
        return gone

    def _near(self, queue: Slow) -> set[str]:
        return {name for name in queue.ancestors[::-1][: self.level] if name != "root"}

    def _consulted(self, queue: Slow, home: Slow) -> list[Slow]:
        mine, theirs = queue.ancestors[::-1], home.ancestors[::-1]
        out = []
        for level in range(self.level):
            if level >= len(mine) or mine[level] == "root" or (level < len(theirs) and theirs[level] == mine[level]):
                continue
            out.append(self.queues[mine[level]])
        return out

    def evictable(self, job: str, victims: list[str]) -> list[str]:
        asked: Amounts = {}
        for name, (home, request) in self.pods.items():
            if home == job and name in self.pending:
                asked = plus(asked, request)
        held = {name: queue.held for name, queue in self.queues.items()}
        gone = []
        for victim in victims:
            name, request = self.pods[victim]
            queue = self.queues[name]
            if any(of(queue.guarantee, n) > of(held[name], n) - of(request, n) for n in UNIT):
                continue
            if share_a_dimension(request, queue.deserved) and not exceeds(held[name], queue, asked):
                continue
            gone.append(victim)
            held[name] = plus(held[name], request, -1)
        return gone

    # -- the plugin ----------------------------------------------------------------------------------------------------

    def opened(self) -> tuple[Session, Capacity]:
        more = {"enableHierarchy": True, "arguments": {"ancestorReclaimLevel": self.level}} if self.tree else {}
        ssn = asking.session(worlds.world(*self.objects), {"name": "capacity", **more})
        self.pending = {task.name for task in ssn.world.tasks.values() if task.row < 0}
        (plugin,) = [one for one in ssn.plugins if isinstance(one, Capacity)]
        return ssn, plugin


@pytest.mark.parametrize("tree", [False, True], ids=["flat", "tree"])
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_capacity_equals_the_reference(tree: bool, seed: int) -> None:
    slow = Reference(seed, tree=tree)
    ssn, plugin = slow.opened()
    column = {name: ssn.world.column(name) for name in UNIT}
    plugin.close(ssn)
    for name, queue in slow.queues.items():
        facts = ssn.queue_facts[name]
        for n, unit in UNIT.items():
            assert facts.vectors["deserved"][column[n]] == of(queue.deserved, n) * unit, (name, n)
            assert facts.vectors["real_capacity"][column[n]] == queue.real[n] * unit, (name, n)
    by_name = {task.name: task for task in ssn.world.tasks.values()}
    running = [name for name in by_name if name not in slow.pending]
    for name in sorted(slow.pending):
        home, asked = slow.pods[name]
        queue, task = ssn.world.queues[home], by_name[name]
        assert plugin.allocatable(queue, task, 9) == slow.allocatable(slow.queues[home], asked, 9)
        assert plugin.preemptive(queue, [task]) == slow.preemptive(slow.queues[home], asked)
        others = [by_name[other] for other in running if slow.pods[other][0] != home]
        ordered = asking.keys(ssn.victims_in_order(others, task))
        assert asking.keys(plugin.reclaimable(task, others)[0]) == slow.reclaimable(name, ordered)
        job = task.job
        assert job is not None
        found = plugin.unified_evictable(Evictor(GANG_RECLAIM, job, 0), others)[0]
        assert asking.keys(found) == slow.evictable(home, asking.keys(others))
        assert plugin.unified_evictable(Evictor(GANG_PREEMPT, job, 0), others)[0] == others


def opened(*objects: Json, tree: bool = False) -> tuple[Session, Capacity]:
    more = {"enableHierarchy": True} if tree else {}
    ssn = asking.session(worlds.world(worlds.node("n", cpu="8", memory="8Gi"), *objects), {"name": "capacity", **more})
    (plugin,) = [one for one in ssn.plugins if isinstance(one, Capacity)]
    return ssn, plugin


def inner(name: str, parent: str = "root") -> Json:
    return worlds.queue(name, parent=parent)


BROKEN: list[Any] = [
    pytest.param([worlds.queue("l", parent="root")], id="no root"),
    pytest.param([inner("root", ""), inner("l", "gone")], id="a parent that is not there"),
    pytest.param([inner("root", ""), inner("l"), inner("x", "y"), inner("y", "x")], id="a circle"),
    pytest.param([inner("root", ""), inner("l"), inner("x", "l")], id="a job in an inner queue"),
]


@pytest.mark.parametrize("queues", BROKEN)
def test_a_broken_tree_gives_nothing_to_anybody(queues: list[Json]) -> None:
    job = worlds.group("j", 1, queue="l", phase="Pending", minResources={"cpu": "1"})
    ssn, plugin = opened(*queues, job, worlds.pod("p", "j"), tree=True)
    queue, task = ssn.world.queues["l"], asking.task(ssn, "p")
    assert plugin.allocatable(queue, task, 1) == 0
    assert not plugin.preemptive(queue, [task])
    assert plugin.job_enqueueable(ssn.world.jobs["ns/j"]) < 0
    assert plugin.reclaimable(task, [task])[0] == ()
    assert task.job is not None
    assert plugin.unified_evictable(Evictor(GANG_RECLAIM, task.job, 0), [task])[0] == ()


def enqueued(ssn: Session, plugin: Capacity, *names: str) -> list[bool]:
    out = []
    for name in names:
        job = ssn.world.jobs[f"ns/{name}"]
        enters = plugin.job_enqueueable(job) > 0
        if enters:
            plugin.job_enqueued(job)
        out.append(enters)
    return out


def asks(name: str, cpu: str, home: str = "l") -> Json:
    return worlds.group(name, 1, queue=home, phase="Pending", minResources={"cpu": cpu} if cpu else None)


def test_who_was_let_in_counts_for_the_queue_and_all_above_it() -> None:
    queues = [inner("root", ""), inner("p"), inner("l", "p"), inner("m", "p")]
    queues[1]["spec"]["capability"] = {"cpu": "4"}
    ssn, plugin = opened(*queues, asks("a", "3"), asks("b", "1", "m"), asks("c", "1m", "m"), asks("d", ""), tree=True)
    assert enqueued(ssn, plugin, "a", "b", "c", "d") == [True, True, False, True]
    (verdict,) = ssn.note(ssn.world.jobs["ns/c"]).verdicts
    assert (verdict.code, verdict.text) == ("QueueQuota", "queue resource quota insufficient: insufficient cpu")
    assert verdict.numbers == {"wanted cpu": 4001.0, "capability cpu": 4000.0}


def test_nobody_enters_a_queue_that_is_not_open_or_an_inner_one() -> None:
    queues = [inner("root", ""), inner("p"), worlds.queue("l", parent="p", state="Closing"), inner("o")]
    ssn, plugin = opened(*queues, asks("a", "1"), asks("b", "1", "o"), tree=True)
    assert enqueued(ssn, plugin, "a", "b") == [False, True]
    (verdict,) = ssn.note(ssn.world.jobs["ns/a"]).verdicts
    assert (verdict.code, verdict.text) == ("QueueClosed", "queue l is not open, it is Closing")


def holds(name: str, home: str, cpu: int) -> list[Json]:
    pods: list[Json] = [worlds.pod(f"{name}{i}", name, phase="Running", nodeName="n") for i in range(cpu)]
    return [worlds.group(name, 0, queue=home, phase="Running"), *pods]


def share(ssn: Session, plugin: Capacity, name: str) -> tuple[float, bool]:
    plugin.close(ssn)
    return ssn.queue_facts[name].share, ssn.queue_facts[name].overused


SHARES: list[Any] = [
    pytest.param({"cpu": "4", "memory": "8Gi"}, 2, (0.5, False), id="half"),
    pytest.param(
        {"cpu": "4", "memory": "2Gi"}, 2, (1.0, False), id="the largest share counts, and all is not too much"
    ),
    pytest.param({"cpu": "2", "memory": "8Gi"}, 3, (1.5, True), id="more than deserved"),
    pytest.param({}, 1, (1.0, False), id="who deserves nothing has it all"),
]


@pytest.mark.parametrize(("deserved", "held", "expected"), SHARES)
def test_share(deserved: Json, held: int, expected: tuple[float, bool]) -> None:
    ssn, plugin = opened(worlds.queue("l", deserved=deserved), *holds("a", "l", held))
    assert share(ssn, plugin, "l") == expected


def test_places_given_and_taken_count_all_the_way_up() -> None:
    queues = [inner("root", ""), inner("p"), inner("l", "p"), inner("o")]
    for queue in queues:
        queue["spec"]["deserved"] = {"cpu": "4", "memory": "8Gi"}
    waiting: list[Json] = [worlds.group("j", 0, queue="l"), worlds.pod("x", "j", cpu="2")]
    ssn, plugin = opened(*queues, *holds("a", "l", 1), *waiting, tree=True)
    stmt = ssn.statement()
    stmt.pipeline(asking.task(ssn, "x"), ssn.world.nodes.row_of["n"], evicted=False)
    assert [share(ssn, plugin, name)[0] for name in ("l", "p", "o")] == [0.75, 0.75, 0.0]
    victim: Task = asking.task(ssn, "a0")
    stmt.evict(victim, "for the test")
    assert [share(ssn, plugin, name)[0] for name in ("l", "p", "o")] == [0.5, 0.5, 0.0]
    stmt.discard()
    assert [share(ssn, plugin, name)[0] for name in ("l", "p", "o")] == [0.25, 0.25, 0.0]


def test_a_job_whose_devices_its_queue_may_not_hold_stays_out() -> None:
    claims: list[Json] = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"c{i}", "namespace": "ns"},
            "spec": {"devices": {"requests": [{"name": "it", "exactly": {"deviceClassName": "gpu", "count": 1}}]}},
        }
        for i in range(2)
    ]  # fmt: skip
    pods = [
        worlds.pod(f"p{i}", name, resourceClaims=[{"name": "it", "resourceClaimName": f"c{i}"}])
        for i, name in enumerate("ab")
    ]
    limited = worlds.queue("l", capability={"deviceclass/gpu": "1"})
    ssn, plugin = opened(limited, *claims, asks("a", "1"), asks("b", "1"), *pods)
    assert enqueued(ssn, plugin, "a", "b") == [True, False]
    (verdict,) = ssn.note(ssn.world.jobs["ns/b"]).verdicts
    assert verdict.text == "queue resource quota insufficient: insufficient deviceclass/gpu"
    task = asking.task(ssn, "p0")
    assert plugin.allocatable(ssn.world.queues["l"], task, 1) == 1
    ssn.statement().pipeline(task, ssn.world.nodes.row_of["n"], evicted=False)
    assert plugin.allocatable(ssn.world.queues["l"], asking.task(ssn, "p1"), 1) == 0


def test_who_is_in_no_queue_gives_nothing_and_gets_nothing() -> None:
    stray, lost = (
        worlds.pod("s", "", phase="Running", nodeName="n"),
        worlds.pod("t", "j", phase="Running", nodeName="n"),
    )
    mine: list[Json] = [worlds.group("g", 0, queue="l"), worlds.pod("p", "g")]
    ssn, plugin = opened(worlds.queue("l"), stray, worlds.group("j", 0, queue="gone"), lost, *mine)
    victims = [asking.task(ssn, name) for name in ("s", "t")]
    asker = asking.task(ssn, "p")
    assert asker.job is not None
    assert plugin.unified_evictable(Evictor(GANG_RECLAIM, asker.job, 0), victims)[0] == []
    assert plugin.reclaimable(asker, victims)[0] == []
    assert plugin.reclaimable(victims[0], [asker])[0] == ()
    job = ssn.world.jobs["ns/j"]
    assert plugin.job_enqueueable(job) < 0


@pytest.mark.parametrize(
    ("deserved", "given"),
    [
        pytest.param({}, ["a0"], id="a queue that deserves nothing gives what it has"),
        pytest.param({"pods": "9"}, [], id="a number of pods is something to deserve"),
    ],
)
def test_what_a_queue_deserves_keeps_its_pods(deserved: Json, given: list[str]) -> None:
    mine: list[Json] = [worlds.group("g", 0, queue="m"), worlds.pod("p", "g")]
    ssn, plugin = opened(worlds.queue("l", deserved=deserved), worlds.queue("m"), *holds("a", "l", 1), *mine)
    found = plugin.reclaimable(asking.task(ssn, "p"), [asking.task(ssn, "a0")])[0]
    assert asking.keys(found) == given


def test_nearer_relatives_give_first() -> None:
    queues = [inner("root", ""), inner("p"), inner("a", "p"), inner("b", "p"), inner("c")]
    jobs = [one for name in "abc" for one in (worlds.group(name, 0, queue=name), worlds.pod(f"{name}0", name))]
    ssn, plugin = opened(*queues, *jobs, tree=True)
    mine = ssn.world.queues["a"]
    orders = {name: plugin.victim_queue_order(ssn.world.queues[name], mine) for name in "abc"}
    assert orders == {"a": -3, "b": -2, "c": -1}
    ssn.world.queues["gone"] = type(mine)("gone", ssn.world.dims)
    assert plugin.victim_queue_order(ssn.world.queues["gone"], mine) == 0
