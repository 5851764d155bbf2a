"""Two schedulers and two controllers on a real kube-apiserver, under load: leaders are killed and stopped.

Every few seconds the leader of one of the two kinds is killed (-9), or stopped for longer than its lease and let go on.
No pod may be bound twice, no node be given more than it has, no gang be half-started for longer than a minute, and in
the end every job has run.

    python -m tests.attack.failover [--count N] [--seed S] [--minutes M]

It needs the control plane that tests/e2e/kube/controlplane/build.sh builds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.api.quantity import milli
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.client import kubeconfig
from strato.client.cluster import Cluster
from strato.client.http import HttpCluster
from strato.client.informer import Change, Informers
from strato.clock import SystemClock
from strato.errors import ApiError
from strato.testing.manifests import vcjob
from tests.e2e.worlds import KubeWorld

LEASE_SECONDS = 3.0
LEASES = ("--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s")
LEASES += ("--leader-elect-retry-period", "400ms")
KINDS = {"scheduler": "volcano", "controllers": "vc-controller-manager"}
"""The kinds of process that are killed, and the usual names of their leases."""
NAMES = ("a", "b")
NAMESPACE = "default"
HALF_SECONDS = 60.0
JOBS_PER_SECOND = 1.0
TAKE_OVER_SECONDS = 90.0
END_SECONDS = 240.0


class Watcher:
    """Looks at every change of pods for what must not be."""

    def __init__(self, informers: Informers) -> None:
        self.findings: list[str] = []
        self.bound = 0
        self._nodes = informers.informer(Node)
        self._pods = informers.informer(Pod)
        self._groups = informers.informer(PodGroup)
        self._node_of: dict[str, str] = {}
        self._half_since: dict[str, float] = {}
        self._pods.add_handler(self._on_pod)

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None or not pod.spec.node_name:
            return
        before = self._node_of.get(pod.metadata.uid)
        if before is None:
            self._node_of[pod.metadata.uid] = pod.spec.node_name
            self.bound += 1
        elif before != pod.spec.node_name:
            self.findings.append(f"pod {pod.key} was bound to {before} and to {pod.spec.node_name}")

    def look(self) -> None:
        """Look at what follows from many pods."""
        used: Counter[str] = Counter()
        started: Counter[str] = Counter()
        for pod in self._pods.list():
            if pod.spec.node_name:
                started[pod.metadata.annotation("scheduling.k8s.io/group-name")] += 1
                if not pod.is_finished:
                    used[pod.spec.node_name] += sum(
                        milli(c.resources.requests.get("cpu", 0)) for c in pod.spec.containers
                    )
        for node in self._nodes.list():
            room, name = milli(node.status.allocatable.get("cpu", 0)), node.metadata.name
            if used[name] > room:
                self.findings.append(f"node {name} was given {used[name]} of {room} milli-cpu")
        now = time.monotonic()
        groups = [group for group in self._groups.list() if group.metadata.deletion_timestamp is None]
        half = {g.metadata.name for g in groups if 0 < started[g.metadata.name] < g.spec.min_member}
        self._half_since = {name: self._half_since.get(name, now) for name in half}
        for name, since in self._half_since.items():
            if now - since > HALF_SECONDS:
                self.findings.append(f"gang {name} has been half-started for {now - since:.0f} s")
                self._half_since[name] = now

    @property
    def longest_half_seconds(self) -> float:
        """For how long the gang that is half-started longest has been so."""
        return max((time.monotonic() - since for since in self._half_since.values()), default=0.0)


class Failover(KubeWorld):
    """The world of the campaign."""

    def start(self) -> None:
        """Start all but the webhook, which has nothing to do with it."""
        self.start_control_plane()
        self.strato("install", "--only", "namespace", "--only", "crds", "--only", "rbac")
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
        self._wait_for_roles()
        for kind in KINDS:
            for name in NAMES:
                self.start_one(kind, name)
        self.start_part("node", *self.nodes)

    def start_one(self, kind: str, name: str) -> None:
        """Start one of the processes that are killed."""
        self.start_part(kind, *LEASES, name=f"{kind}-{name}")

    def restart_ended(self) -> None:
        """Start again what has ended: whoever lost its lease does."""
        for kind in KINDS:
            for name in NAMES:
                process = self.processes.get(f"{kind}-{name}")
                if process is None or process.poll() is not None:
                    self.start_one(kind, name)

    def client(self) -> HttpCluster:
        """Return a client that may do everything."""
        return HttpCluster(kubeconfig.load([self.kubeconfig]), SystemClock())


class Campaign:
    """Loads the cluster, kills, and looks.

    Args:
        world: Where.
        count: Kills.
        seed: Of all chance.
        seconds: After which no kill begins any more.
    """

    def __init__(self, world: Failover, count: int, seed: int, seconds: float) -> None:
        self._world = world
        self._count = count
        self._luck = Random(seed)
        self._until = time.monotonic() + seconds
        self.kills: Counter[str] = Counter()
        self.jobs = 0
        self.findings: list[str] = []
        self.bound = 0

    async def run(self) -> None:
        """Run the campaign."""
        clock = SystemClock()
        cluster = self._world.client()
        informers = Informers(cluster, clock, Random(1))
        watcher = Watcher(informers)
        informers.start()
        await informers.wait_synced()
        looking = asyncio.create_task(self._look(watcher))
        loading = asyncio.create_task(self._load(cluster))
        try:
            await self._kill_all(cluster)
            loading.cancel()
            await self._end(cluster, watcher)
        finally:
            looking.cancel()
            loading.cancel()
            await informers.stop()
            await cluster.close()
        self.findings += watcher.findings
        self.bound = watcher.bound

    async def _look(self, watcher: Watcher) -> None:
        while True:
            await asyncio.sleep(0.5)
            watcher.look()

    async def _load(self, cluster: Cluster) -> None:
        while True:
            replicas = self._luck.randint(1, 6)
            run = self._luck.choice((1.0, 5.0, 15.0))
            job: Any = vcjob(f"job{self.jobs}", min_available=replicas)
            job = job.task("w", replicas, cpu=self._luck.choice(("500m", "1", "2")), run_seconds=run)
            job["spec"]["ttlSecondsAfterFinished"] = 20
            with contextlib.suppress(ApiError):
                await cluster.create(catalog.VCJOB, job, NAMESPACE)
                self.jobs += 1
            await asyncio.sleep(self._luck.expovariate(JOBS_PER_SECOND))

    async def _kill_all(self, cluster: Cluster) -> None:
        for number in range(1, self._count + 1):
            if time.monotonic() > self._until:
                break
            kind = self._luck.choice(list(KINDS))
            name = await self._leader(cluster, kind)
            await asyncio.sleep(self._luck.uniform(0.0, 1.5))
            process = self._world.processes[name]
            if self._luck.random() < 0.6:
                process.kill()
                await asyncio.to_thread(process.wait)
                self.kills[f"{kind} killed"] += 1
            else:
                process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(LEASE_SECONDS + self._luck.uniform(0.5, 4.0))
                process.send_signal(signal.SIGCONT)
                self.kills[f"{kind} stopped"] += 1
            self._world.restart_ended()
            print(f"\r{number}/{self._count} kills, {self.jobs} jobs", end="", flush=True)
        await self._leader(cluster, "scheduler")
        await self._leader(cluster, "controllers")

    async def _leader(self, cluster: Cluster, kind: str) -> str:
        """Wait until one of our living processes leads, and return its name."""
        until = time.monotonic() + TAKE_OVER_SECONDS
        while time.monotonic() < until:
            self._world.restart_ended()
            for name in await self._leading(cluster, kind):
                return name
            await asyncio.sleep(0.1)
        logs = "".join(f"\n{kind}-{name}: {self._world.log(f'{kind}-{name}')[-2000:]}" for name in NAMES)
        raise AssertionError(f"no {kind} leads after {TAKE_OVER_SECONDS:g} s{logs}")

    async def _leading(self, cluster: Cluster, kind: str) -> Sequence[str]:
        try:
            lease = await cluster.get(catalog.LEASE, KINDS[kind], "volcano-system")
        except ApiError:
            return ()
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        names = [f"{kind}-{name}" for name in NAMES]
        return [name for name in names if f"_{self._world.processes[name].pid}_" in holder]

    async def _end(self, cluster: Cluster, watcher: Watcher) -> None:
        """Wait until every job has run."""
        began = time.monotonic()
        while time.monotonic() < began + END_SECONDS:
            self._world.restart_ended()
            jobs = (await cluster.list(Job, NAMESPACE)).items
            waiting = {j.metadata.name: j.status.state.phase for j in jobs if j.status.state.phase != "Completed"}
            if not waiting:
                return
            await asyncio.sleep(0.5)
        self.findings += [f"job {name} is {phase or 'without a phase'} in the end" for name, phase in waiting.items()]


def play(count: int, seed: int, minutes: float) -> Campaign:
    """Run the campaign in a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="strato-failover-") as directory:
        world = Failover(Path(directory), hollow_nodes=8, cpu="8")
        try:
            world.start()
            campaign = Campaign(world, count, seed, minutes * 60)
            asyncio.run(campaign.run())
        finally:
            world.stop()
        return campaign


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="kills (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="after these no more kills (default: %(default)s)")
    options = parser.parse_args(arguments)
    campaign = play(options.count, options.seed, options.minutes)
    print("\n")
    for what, number in sorted(campaign.kills.items()):
        print(f"{what:<24}{number:6}")
    total = sum(campaign.kills.values())
    print(f"{'in all':<24}{total:6}\n{'jobs':<24}{campaign.jobs:6}\n{'pods bound':<24}{campaign.bound:6}")
    for finding in campaign.findings:
        print(finding)
    print(f"{'findings':<24}{len(campaign.findings):6}")
    return int(bool(campaign.findings))


if __name__ == "__main__":
    sys.exit(main())
