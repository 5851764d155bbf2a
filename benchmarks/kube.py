"""Our scheduler, controllers and hollow nodes on a real kube-apiserver: pods per second and CPU seconds by process.

    make bench-kube

The control plane is the one of the end-to-end tests: kube-apiserver, etcd and kube-controller-manager on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.worlds import KubeWorld, eventually

from benchmarks.end_to_end import throughput
from benchmarks.report import publish


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ready_nodes(world: KubeWorld) -> int:
    """Count the nodes that are Ready; a part that ended will not get them there.

    Raises:
        RuntimeError: A process ended.
    """
    for part, process in world.processes.items():
        if process.poll() is not None:
            raise RuntimeError(f"{part} ended with status {process.returncode}: {world.log(part)[-500:]}")
    path = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status}{' '}{end}"
    return world.kubectl("get", "nodes", "-o", path).split().count("True")


def settle(world: KubeWorld, longest_seconds: float = 120.0) -> None:
    """Wait until our scheduler rests: statuses and events that follow the last pod belong to the work."""
    pid, deadline = world.processes["scheduler"].pid, time.monotonic() + longest_seconds
    used = resting = 0.0
    while time.monotonic() < deadline and resting < 3:
        before, used = used, cpu_seconds(pid)
        resting = resting + 1 if used - before < 0.1 else 0
        time.sleep(1)


def workload(world: KubeWorld, name: str, jobs: int, replicas: int) -> dict[str, object]:
    """Run one workload and return its row."""
    before = {part: cpu_seconds(process.pid) for part, process in world.processes.items()}
    row = asyncio.run(throughput(None, world.kubeconfig, name, jobs, replicas, ["sleep", "3600"]))
    settle(world)
    used = {f"{part} cpu s": cpu_seconds(process.pid) - before[part] for part, process in world.processes.items()}
    return {key: value for key, value in row.items() if key not in ("cpu s", "RSS MiB")} | used


def main() -> int:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=100, help="jobs of 50 pods; 0 leaves the workload out")
    parser.add_argument("--singles", type=int, default=2000, help="jobs of one pod; 0 leaves the workload out")
    args = parser.parse_args()
    wanted = (("gangs", args.gangs, 50), ("single", args.singles, 1))
    workloads = [row for row in wanted if row[1] > 0]
    if args.nodes < 1 or not workloads:
        parser.error("there is nothing to measure: ask for nodes, and for gangs or singles")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    with tempfile.TemporaryDirectory(prefix="strato-kube-") as directory:
        world = KubeWorld(Path(directory), hollow_nodes=args.nodes, cpu="32", memory="256Gi")
        if not (world.binaries / "kube-apiserver").exists():
            print(f"benchmarks.kube: skipped, there is no control plane in {world.binaries}; run: make bench-kube")
            return 0
        try:
            world.start()
            eventually(
                lambda: ready_nodes(world) == args.nodes, timeout=600, what=f"{args.nodes} nodes are Ready", every=2
            )
            rows = []
            for name, jobs, replicas in workloads:
                if rows:
                    world.kubectl("delete", "vcjob", "--all", "--wait=false")
                    eventually(lambda: not world.kubectl("get", "pods", "-o", "name"), timeout=600, what="no pods")
                rows.append(workload(world, name, jobs, replicas))
        finally:
            world.stop()
    publish("kube", rows, "Volcano on the same kind of machine: 110 running pods/s for the gangs, 31 for the singles.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
