"""Random faults of the API server under random workloads, in virtual time; after the faults everything has to be right.

A round is a whole cluster (server, controllers, scheduler, nodes) whose parts meet servers that refuse, throttle,
are slow, hang, lose answers and go away, each its own. During the round no pod may be bound twice; from a minute after
the last fault no gang may be half-started; in the end all statuses are as in a run without faults.

    python -m tests.attack.faults [--count N] [--seed S]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from strato.api.core import Pod
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.api.wire import User
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError
from strato.node.shapes import parse_nodes
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.testing.faults import WORLDS, Faults, FaultyCluster
from strato.testing.manifests import kind_of_manifest, pod, vcjob

FAULTY_SECONDS = 240.0
"""How long faults go on, and jobs come."""
SETTLED_SECONDS = 600.0
"""When everything has to be right after the last fault: job run times, retries of half a minute, back-offs of one."""
GRACE_SECONDS = 60.0
"""How long a gang may be half-started."""
LOOK_SECONDS = 2.0
_UID = 37
"""Characters of a UID and the dash before it, at the end of a group's name."""
PARTS = ("informers", "controllers", "scheduler", "node")

Json = dict[str, Any]


class FaultyWorld(SimulatedCluster):
    """A world whose parts meet misbehaving servers.

    Args:
        clock, random, options: As for `SimulatedCluster`.
        faults: By part.
    """

    def __init__(self, clock: VirtualClock, random: Random, options: ClusterOptions, faults: dict[str, Faults]) -> None:
        self.faulty: dict[str, FaultyCluster] = {}
        self._faults = faults
        self._luck = Random(random.getrandbits(64))
        super().__init__(clock, random, options)

    def cluster_as(self, user: User) -> LocalCluster:
        """Return a client that misbehaves, for the parts that are to meet that."""
        part = user.name.removeprefix("strato:")
        if part not in self._faults:
            return super().cluster_as(user)
        made = self.faulty.get(part)
        if made is None:
            quiet = Faults(connections=self._faults[part].connections)
            at_once = self._luck.choice((1, 64))
            luck = Random(self._luck.getrandbits(64))
            made = FaultyCluster(self.server, user, self.clock, luck, faults=quiet, at_once=at_once)
            self.faulty[part] = made
        return made

    def misbehave(self) -> None:
        """Begin."""
        for part, cluster in self.faulty.items():
            cluster.faults = self._faults[part]


class Round:
    """One workload on one cluster.

    Args:
        seed: Of the workload and the faults.
        faulty: Whether there are any.
    """

    def __init__(self, seed: int, *, faulty: bool) -> None:
        luck = Random(seed)
        self._clock = VirtualClock()
        self._workload = workload(luck)
        faults = {part: luck.choice(list(WORLDS.values())) for part in PARTS} if faulty else {}
        options = ClusterOptions(nodes=parse_nodes("4x8cpu,16Gi"), max_lease_rate=0.0)
        self._world = FaultyWorld(self._clock, Random(seed), options, faults)
        self._luck = Random(luck.getrandbits(64))
        self._bound: dict[str, str] = {}
        self._half_since: dict[str, float] = {}
        self.findings: list[str] = []
        self.faults = 0

    def play(self) -> Json:
        """Run the round and return what is in the cluster in the end."""
        return run_virtual(self._clock, self._play())

    async def _play(self) -> Json:
        world = self._world
        await world.start()
        world.misbehave()
        looking = asyncio.create_task(self._look())
        failing = asyncio.create_task(self._go_away())
        try:
            await self._submit()
            await self._clock.sleep(max(0.0, FAULTY_SECONDS - self._clock.monotonic()))
            failing.cancel()
            self.faults = sum(cluster.count for cluster in world.faulty.values())
            for cluster in world.faulty.values():
                cluster.heal()
            self._half_since.clear()
            await self._clock.sleep(SETTLED_SECONDS)
            world.check()
            return await self._result()
        finally:
            failing.cancel()
            looking.cancel()
            await world.stop()

    async def _submit(self) -> None:
        for at, manifest in self._workload:
            await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
            namespace = manifest["metadata"].get("namespace", "default")
            await self._world.admin.create(kind_of_manifest(manifest), manifest, namespace)

    async def _go_away(self) -> None:
        """Let servers go away for a while, now and then."""
        while self._world.faulty:
            await self._clock.sleep(self._luck.uniform(10, 60))
            cluster = self._luck.choice(list(self._world.faulty.values()))
            cluster.down = True
            await self._clock.sleep(self._luck.uniform(1, 30))
            cluster.down = False

    async def _look(self) -> None:
        while True:
            pods = (await self._world.admin.list(Pod, "default")).items
            for one in pods:
                before = self._bound.setdefault(one.metadata.uid, one.spec.node_name)
                if before and before != one.spec.node_name:
                    self.findings.append(f"pod {one.key} was bound to {before} and to {one.spec.node_name or 'none'}")
                self._bound[one.metadata.uid] = one.spec.node_name
            groups = (await self._world.admin.list(PodGroup, "default")).items
            self._look_at_gangs(groups, pods)
            await self._clock.sleep(LOOK_SECONDS)

    def _look_at_gangs(self, groups: Sequence[PodGroup], pods: Sequence[Pod]) -> None:
        started: Counter[str] = Counter()
        for one in pods:
            if one.spec.node_name:
                started[one.metadata.annotation("scheduling.k8s.io/group-name")] += 1
        now = self._clock.monotonic()
        half = {g.metadata.name for g in groups if 0 < started[g.metadata.name] < g.spec.min_member}
        self._half_since = {name: self._half_since.get(name, now) for name in half}
        for name, since in self._half_since.items():
            healed = now > FAULTY_SECONDS + GRACE_SECONDS
            if healed and now - since > GRACE_SECONDS:
                self.findings.append(f"gang {name} has been half-started for {now - since:.0f} s")
                self._half_since[name] = now

    async def _result(self) -> Json:
        admin = self._world.admin
        jobs = (await admin.list(Job, "default")).items
        pods = (await admin.list(Pod, "default")).items
        groups = (await admin.list(PodGroup, "default")).items
        queue = await admin.get(Queue, "default")
        return {
            "jobs": {j.metadata.name: (j.status.state.phase, j.status.running, j.status.succeeded) for j in jobs},
            "pods": {p.metadata.name: (p.status.phase, bool(p.spec.node_name), _condition(p)) for p in pods},
            "groups": sorted((g.metadata.name[:-_UID], g.status.phase, g.status.running) for g in groups),
            "queue": (queue.status.state, _amounts(queue.status.allocated)),
        }


def _condition(one: Pod) -> str:
    found = one.status.condition("PodScheduled")
    if found is None or found.status == "True":
        return ""
    return "Unschedulable" if found.reason in ("Unschedulable", "Schedulable") else found.reason


def _amounts(allocated: Any) -> Json:
    return {name: amount for name, amount in sorted(allocated.items()) if str(amount) != "0"}


def workload(luck: Random) -> list[tuple[float, Json]]:
    """Return what is submitted and when; its end does not depend on the order in which it is served."""
    made: list[tuple[float, Json]] = []
    stays = 16
    for number in range(luck.randint(3, 10)):
        replicas = luck.randint(1, 5)
        job: Any = vcjob(f"job{number}", min_available=luck.randint(1, replicas))
        forever = luck.random() < 0.3 and replicas <= stays
        stays -= replicas if forever else 0
        run = None if forever else luck.choice((1.0, 10.0, 40.0))
        job = job.task("w", replicas, cpu="1" if forever else luck.choice(("500m", "1", "2")), run_seconds=run)
        made.append((luck.uniform(0, FAULTY_SECONDS * 0.8), job))
    huge = vcjob("huge", min_available=2).task("w", 2, cpu="9")
    made.append((luck.uniform(0, FAULTY_SECONDS), huge))
    for number in range(luck.randint(0, 4)):
        alone = pod(f"pod{number}", cpu="1", run_seconds=luck.choice((5.0, 60.0)))
        made.append((luck.uniform(0, FAULTY_SECONDS * 0.8), alone))
    return sorted(made, key=lambda entry: entry[0])


def play(seed: int) -> tuple[list[str], int]:
    """Play a round with faults and one without; return what is wrong, and how many faults there were."""
    wanted = Round(seed, faulty=False).play()
    faulty = Round(seed, faulty=True)
    try:
        found = faulty.play()
    except (ApiError, AssertionError) as error:
        return [f"the round broke off: {error!r}"], faulty.faults
    findings = list(faulty.findings)
    for part, want in wanted.items():
        have = found[part]
        if have == want:
            continue
        if isinstance(want, dict):
            names = [name for name in want.keys() | have.keys() if want.get(name) != have.get(name)]
            findings += [f"{part} {n}: {have.get(n)} instead of {want.get(n)}" for n in sorted(names)]
        else:
            findings.append(f"{part}: {have} instead of {want}")
    return findings, faulty.faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="rounds (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first round (default: %(default)s)")
    options = parser.parse_args(arguments)
    logging.getLogger("strato").setLevel(logging.CRITICAL)
    began, faults, bad = time.monotonic(), 0, 0
    for number, seed in enumerate(range(options.seed, options.seed + options.count), 1):
        findings, met = play(seed)
        faults += met
        bad += bool(findings)
        for finding in findings:
            print(f"\nseed {seed}: {finding}")
        print(f"\r{number}/{options.count} rounds, {faults} faults, {bad} with findings", end="", flush=True)
    seconds = time.monotonic() - began
    print(f"\n\nrounds  faults  with findings  seconds\n{options.count:6}  {faults:6}  {bad:13}  {seconds:7.0f}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
