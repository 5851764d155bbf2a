"""Our scheduler, controllers and hollow nodes on a real kube-apiserver: pods per second and CPU seconds by process.

    make bench-kube
    make bench-kube PEER=volcano

The control plane is the one of the end-to-end tests: kube-apiserver, etcd and kube-controller-manager on this machine.
With a peer, Volcano's own scheduler and controllers do the same work in the same run, each side and workload in a world
of its own, so that machines of any speed compare the two.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.gobuild import NotBuilt
from tests.e2e.worlds import KubeWorld, eventually

from benchmarks.end_to_end import throughput
from benchmarks.peer import VolcanoWorld, volcano_programs, volcano_version
from benchmarks.report import check_writable, publish
from benchmarks.requests import per_job, read, table
from strato.admission.chain import ALL_WEBHOOKS
from strato.api import catalog
from strato.api.kinds import Kind
from strato.client import kubeconfig
from strato.client.cluster import EventType
from strato.client.http import HttpCluster
from strato.clock import SystemClock

STRATO, VOLCANO = "strato", "volcano"
Row = dict[str, object]
_COMPARED = {
    "pods running per second": "running pods/s",
    "CPU time of scheduler": "scheduler cpu s",
    "controllers": "controllers cpu s",
    "kube-apiserver": "kube-apiserver cpu s",
}
_UNLIMITED = ("--kube-api-qps=1000", "--kube-api-burst=1000")
"""Limits of kube-controller-manager's client; at its own 20 a second a thousand nodes' events take minutes."""
_FOLLOWED = (catalog.EVENT, catalog.PODGROUP, catalog.VCJOB, catalog.QUEUE, catalog.POD)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ready_nodes(world: KubeWorld) -> int:
    """Count the nodes that are Ready and without the taint of new ones; a part that ended will not get them there.

    Raises:
        RuntimeError: A process ended.
    """
    for part, process in world.processes.items():
        if process.poll() is not None:
            raise RuntimeError(f"{part} ended with status {process.returncode}: {world.log(part)[-500:]}")
    path = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status}{.spec.taints[*].key}{' '}{end}"
    return world.kubectl("get", "nodes", "-o", path).split().count("True")


async def settle(world: KubeWorld, quiet_seconds: float = 5.0, longest_seconds: float = 300.0) -> dict[str, float]:
    """Return each process's CPU seconds when the last status and event that follow the workload were written.

    They belong to the work of whoever schedules, and nobody sees when they end but the API: nothing is written for
    ``quiet_seconds``. What a part uses after the last write is not counted, so that idling costs nobody anything.

    Raises:
        SystemExit: Something is still being written after ``longest_seconds``.
    """
    cluster = HttpCluster(kubeconfig.load([world.kubeconfig]), SystemClock())
    written = 0

    async def follow(kind: Kind, version: str) -> None:
        nonlocal written
        async for batch in cluster.watch(kind, resource_version=version):
            written += sum(event.type is not EventType.BOOKMARK for event in batch)

    followers: list[asyncio.Task[None]] = []
    try:
        for kind in _FOLLOWED:
            page = await cluster.list(kind, limit=1)
            followers.append(asyncio.create_task(follow(kind, page.resource_version)))
        used, seen = cpu_by_part(world), 0
        began = last = time.monotonic()
        while (now := time.monotonic()) < last + quiet_seconds:
            if now > began + longest_seconds or any(follower.done() for follower in followers):
                raise SystemExit(f"statuses and events do not end, or cannot be followed: {written} so far")
            await asyncio.sleep(0.5)
            if written != seen:
                seen, last, used = written, time.monotonic(), cpu_by_part(world)
        return used
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        await cluster.close()


def cpu_by_part(world: KubeWorld) -> dict[str, float]:
    """Return the CPU time of every process of a world so far."""
    return {part: cpu_seconds(process.pid) for part, process in world.processes.items()}


async def events_of(path: Path) -> int:
    """Count the events that say a pod was scheduled, whoever wrote them."""
    cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
    try:
        page = await cluster.list(catalog.EVENT, "default", field_selector="reason=Scheduled")
    finally:
        await cluster.close()
    return len(page.items)


def workload(world: KubeWorld, name: str, jobs: int, replicas: int) -> tuple[dict[str, object], list[Row]]:
    """Run one workload; return its row, and the requests it cost."""
    requests = asyncio.run(read(world.kubeconfig))
    before = cpu_by_part(world)
    row = asyncio.run(throughput(None, world.kubeconfig, name, jobs, replicas, ["sleep", "3600"]))
    used = asyncio.run(settle(world))
    shown = {key: value for key, value in row.items() if key not in ("cpu s", "RSS MiB")}
    bound_per_second = jobs * replicas / float(row["all bound s"])
    costs = {f"{part} cpu s": used[part] - before[part] for part in used}
    told = asyncio.run(events_of(world.kubeconfig))
    cost = per_job(requests, asyncio.run(read(world.kubeconfig)), jobs, replicas)
    return shown | {"bound pods/s": bound_per_second, "Scheduled events": told} | costs, cost


def measure(side: str, name: str, jobs: int, replicas: int, nodes: int) -> tuple[dict[str, object], list[Row]]:
    """Run one workload on a control plane of its own, scheduled by one side."""
    with tempfile.TemporaryDirectory(prefix="strato-kube-") as directory:
        make = VolcanoWorld if side == VOLCANO else KubeWorld
        world = make(Path(directory), hollow_nodes=nodes, cpu="32", memory="256Gi", admission=ALL_WEBHOOKS)
        world.manager_options = _UNLIMITED
        try:
            world.start()
            eventually(lambda: ready_nodes(world) == nodes, timeout=600, what=f"{nodes} nodes are usable", every=2)
            asyncio.run(settle(world))  # the events of new nodes, too, are over
            row, requests = workload(world, name, jobs, replicas)
            by = {"scheduled by": side}
            return by | row, [by | {"workload": name} | one for one in requests]
        finally:
            world.stop()


def ratios(rows: Sequence[Mapping[str, object]]) -> str:
    """Say for each workload how our rate and each part's CPU time compare with Volcano's."""
    lines = []
    for name in dict.fromkeys(row["workload"] for row in rows):
        said = []
        for label, column in _COMPARED.items():
            ours, theirs = (
                [float(str(row[column])) for row in rows if (row["workload"], row["scheduled by"]) == (name, by)]
                for by in (STRATO, VOLCANO)
            )
            if ours and theirs and sum(theirs) > 0:
                said.append(f"{label} {statistics.mean(ours) / statistics.mean(theirs):.3f}")
        if said:
            lines.append(f"{name}: ours / Volcano's: {', '.join(said)}")
    return "\n".join(lines)


def main() -> int:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=100, help="jobs of 50 pods; 0 leaves the workload out")
    parser.add_argument("--singles", type=int, default=2000, help="jobs of one pod; 0 leaves the workload out")
    parser.add_argument("--peer", choices=[VOLCANO], help="measure Volcano's own scheduler and controllers, too")
    parser.add_argument("--rounds", type=int, default=1, help="how often each workload runs, on each side")
    args = parser.parse_args()
    check_writable()
    wanted = (("gangs", args.gangs, 50), ("single", args.singles, 1))
    workloads = [row for row in wanted if row[1] > 0]
    if args.nodes < 1 or args.rounds < 1 or not workloads:
        parser.error("there is nothing to measure: ask for nodes, for rounds, and for gangs or singles")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    if not (KubeWorld.find_binaries() / "kube-apiserver").exists():
        print(f"benchmarks.kube: skipped, no control plane in {KubeWorld.find_binaries()}; run: make bench-kube")
        return 0
    sides, notes = [STRATO], ""
    if args.peer:
        try:
            volcano_programs()
        except NotBuilt as error:
            print(f"benchmarks.kube: skipped, Volcano cannot be built: {error}")
            return 0
        sides, notes = [VOLCANO, STRATO], f"Volcano {volcano_version()}, default configuration, client limits lifted."
    rows: list[Row] = []
    requests: list[Row] = []
    for turn in range(args.rounds):
        for name, jobs, replicas in workloads:
            for side in sides if turn % 2 == 0 else sides[::-1]:
                row, cost = measure(side, name, jobs, replicas, args.nodes)
                rows.append(row)
                requests += cost
                print(f"{side}, {name}: scheduler {row['scheduler cpu s']:.2f} s of CPU; per job and per pod:")
                print(table(cost), flush=True)
    publish("kube_requests", requests)
    publish("kube", rows, "\n".join(line for line in (notes, ratios(rows)) if line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
