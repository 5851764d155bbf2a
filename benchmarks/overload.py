"""Overload a real node: training of the lowest priority beside a service, with the node agent and without, in turns.

    python -m benchmarks.overload [--rounds N] [--seconds S]

``strato up --agent`` on this machine. In each round training pods (P2) burn more cores than there are, and a probe (P0)
answers a request every 20 ms that needs 3 ms of CPU; its latency counts from when the request was due, so that none is
forgiven for waiting. Rounds with ``suppress`` and without alternate; requests of the first seconds, before an agent can
have reacted, are left out of both. The reaction is from the first turn of the last stress loop to the kernel's first
lowered quota. Results keep the last pair of rounds second by second, for the pictures of docs/utilisation.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import Running, embedded
from benchmarks.report import RESULTS, check_writable, publish
from strato import kernelstats
from strato.agent.sampling.groupfiles import read_cpu, read_quota
from strato.agent.sampling.layouts import SandboxLayout
from strato.clock import format_time
from strato.node.sandbox.paths import NodePaths

POLICY = """\
sampling: {intervalSeconds: 0.25, roundSeconds: 0.5}
handlers:
  suppress: {enabled: %s, rounds: 1, overload: 0.7, warning: 0.5, evict: false}
  burst: {enabled: false}
  hotspots: {enabled: false}
"""
SETTLING_SECONDS = 4.0
"""After the beginning of a stress: what comes before is the reaction's, not the state's."""
LOOK_SECONDS = 0.05
PROBE = """
import time
def work(until):
    while time.thread_time() < until: pass
def waited():
    return int(open("/proc/self/schedstat").read().split()[1]) / 1e6
due, before = time.time(), waited()
while True:
    due += 0.02
    time.sleep(max(0.0, due - time.time()))
    work(time.thread_time() + 0.003)
    latency, after = (time.time() - due) * 1000, waited()
    print(f"{due:.3f} {latency:.2f} {after - before:.2f}", flush=True)
    before = after
"""
STRESS = "date +%s.%N; while :; do :; done"


class Node:
    """The embedded cluster, through kubectl and the kernel's files."""

    def __init__(self, running: Running) -> None:
        self.env = {**os.environ, "KUBECONFIG": str(running.kubeconfig)}
        self.layout = SandboxLayout(NodePaths(str(running.home / "node")).cgroups)

    def kubectl(self, *args: str, stdin: object = None) -> str:
        """Run kubectl on a manifest and return what it printed."""
        text = json.dumps(stdin) if stdin is not None else None
        done = subprocess.run(["kubectl", *args], input=text, text=True, capture_output=True, env=self.env, check=False)
        if done.returncode:
            raise SystemExit(f"kubectl {' '.join(args)}: {done.stderr}")
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": list(objects)})

    def requests(self, since: float) -> list[tuple[float, float, float]]:
        """Return the probe's requests from then on: when due, the latency in ms, and the wait for the run queue."""
        begin = f"--since-time={format_time(since)}"
        lines = (line.split() for line in self.kubectl("logs", "probe", begin).splitlines())
        return [(float(due), float(latency), float(waited)) for due, latency, waited in lines]

    def outweigh(self) -> None:
        """Give all pods together so much more weight than one process beside them has as the lowest niceness gives."""
        group = self.layout.all_pods()
        if group is not None:
            name, text = ("cpu.weight", "8700") if group.is_unified else ("cpu.shares", str(87 * 1024))
            Path(group.cpu, name).write_text(text)

    def pods_seconds(self) -> float:
        """Return the CPU seconds that all pods have used."""
        group = self.layout.all_pods()
        return read_cpu(group).used_seconds if group is not None else 0.0

    def quota(self, uid: str) -> int | None:
        """Return the millicores that the kernel holds a pod's container to; None: it is free."""
        group = self.layout.container(uid, "", "main", "")
        if group is None:
            raise SystemExit("this machine has no control group with a CPU controller that can be written")
        return read_quota(group).milli


class FirstCut(threading.Thread):
    """Watches the kernel's files, while pods are still being started, for the first lowered quota."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        group = node.layout.all_pods()
        if group is None:
            raise SystemExit("this machine has no control group with a CPU controller that can be written")
        self._group = group
        self._at: float | None = None
        self._is_over = threading.Event()
        self.start()

    def run(self) -> None:
        while self._at is None and not self._is_over.wait(LOOK_SECONDS):
            for path in Path(self._group.cpu).glob("*/main"):
                with contextlib.suppress(OSError, ValueError):
                    if read_quota(self._group._replace(cpu=str(path))).milli is not None:
                        self._at = time.time()

    def ended(self) -> float | None:
        """Stop; return when the first quota was lowered, None if none was."""
        self._is_over.set()
        self.join()
        return self._at


def pod(name: str, priority: str, workload: str, request: str, command: list[str]) -> dict[str, Any]:
    resources = {"requests": {"cpu": request}}
    container = {"name": "main", "image": "strato/host", "command": command, "resources": resources}
    spec = {"priorityClassName": priority, "containers": [container], "terminationGracePeriodSeconds": 0}
    metadata = {"name": name, "labels": {"strato.io/workload": workload, "role": workload}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def priority_class(name: str, value: int) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}


def policy(*, is_on: bool) -> dict[str, Any]:
    metadata = {"name": "strato-agent", "namespace": "volcano-system"}
    data = {"policy.yaml": POLICY % str(is_on).lower()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def one_round(node: Node, number: int, seconds: float, per_core: int, *, is_on: bool) -> dict[str, Any]:
    """Overload the node once; return the probe's latencies, the reaction, and the host second by second."""
    node.apply(policy(is_on=is_on))
    cores = os.cpu_count() or 1
    names = [f"train-{number}-{index}" for index in range(per_core * cores)]
    request = f"{900 * cores // len(names)}m"
    time.sleep(2)  # the policy takes effect at the next decision
    watch = FirstCut(node)
    node.apply(*(pod(name, "p2-pri", "training", request, ["sh", "-c", STRESS]) for name in names))
    chosen = ("-l", "role=training")
    node.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod", *chosen, "--timeout=120s")
    uids = [one["metadata"]["uid"] for one in json.loads(node.kubectl("get", "pod", *chosen, "-o", "json"))["items"]]
    began = max(map(float, node.kubectl("logs", *chosen, "--tail=-1", f"--max-log-requests={len(names)}").split()))
    host, before = [], (time.time(), kernelstats.busy_seconds("/proc"))
    pods_before = node.pods_seconds()
    while time.time() < began + SETTLING_SECONDS + seconds:
        time.sleep(LOOK_SECONDS)
        quotas = [node.quota(uid) for uid in uids]
        now = time.time()
        if now - before[0] >= 1:
            busy = kernelstats.busy_seconds("/proc")
            cpu = (busy - before[1]) / (now - before[0]) / cores
            free = [quota for quota in quotas if quota is not None]
            used = node.pods_seconds()
            mine = (used - pods_before) / (now - before[0])
            host.append({"at": now - began, "cpu": cpu, "used": mine, "quotas": sum(free) / 1000, "cut": len(free)})
            before, pods_before = (now, busy), used
    requests = [(due - began, latency, waited) for due, latency, waited in node.requests(began - 5)]
    cut_at = watch.ended()
    node.kubectl("delete", "pod", "-l", "role=training", "--now")
    return {
        "suppressed": is_on,
        "reaction": None if cut_at is None else max(0.0, cut_at - began),
        "host": host,
        "requests": [one for one in requests if -5 <= one[0] <= SETTLING_SECONDS + seconds],
    }


def without_training(node: Node) -> list[float]:
    """Return the sorted latencies of the probe alone: what this machine and its other work leave to reach."""
    began = time.time()
    time.sleep(2 * SETTLING_SECONDS)
    return sorted(latency for due, latency, _ in node.requests(began) if due >= began)


def settled(rounds: list[dict[str, Any]], *, is_on: bool, column: int = 1) -> list[float]:
    """Return the sorted latencies, in ms, of all rounds of a kind once they had settled; column 2 is their waits."""
    chosen = (one["requests"] for one in rounds if one["suppressed"] is is_on)
    return sorted(one[column] for requests in chosen for one in requests if one[0] >= SETTLING_SECONDS)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def foreign(one: dict[str, Any]) -> float:
    """Return the cores that neither the probe nor cut training uses once a round has settled: this machine's others."""
    looks = [
        look["cpu"] * (os.cpu_count() or 1) - look["used"] for look in one["host"] if look["at"] >= SETTLING_SECONDS
    ]
    return max(0.0, mean(looks))


def quantile(ordered: list[float], fraction: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))] if ordered else float("nan")


def by_second(one: dict[str, Any]) -> dict[str, Any]:
    """Return a round with the worst hundredth of the requests of each second, which is what is drawn."""
    seconds: dict[int, list[float]] = {}
    for at, latency, _ in one["requests"]:
        seconds.setdefault(int(at // 1), []).append(latency)
    latencies = [[second, round(quantile(sorted(found), 0.99), 2)] for second, found in sorted(seconds.items())]
    host = [{key: round(value, 3) for key, value in look.items()} for look in one["host"]]
    return {"suppressed": one["suppressed"], "reaction": one["reaction"], "host": host, "p99_ms": latencies}


def main() -> None:
    parser = argparse.ArgumentParser(description="Overload this machine's node with the agent and without, in turns.")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of rounds")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round, once it has settled")
    parser.add_argument("--per-core", type=int, default=8, help="training pods")
    parser.add_argument("--trace", type=Path, default=RESULTS / "overload-trace.json", help="what is drawn")
    parser.add_argument("--isolate", action="store_true", help="put what else this machine does behind, in all rounds")
    options = parser.parse_args()
    check_writable()
    if options.isolate:  # all that is started here inherits it: kubectl, the cluster, its pods alike
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    with embedded("--agent", "--pod-network", "host") as running:
        node = Node(running)
        if options.isolate:
            node.outweigh()
        node.apply(priority_class("p0-pri", 1000), priority_class("p2-pri", 0))
        node.apply(pod("probe", "p0-pri", "online", "10m", ["python3", "-c", PROBE]))
        node.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/probe", "--timeout=60s")
        alone = without_training(node)
        pairs = range(2 * max(1, options.rounds))
        rounds = [
            one_round(node, number, options.seconds, options.per_core, is_on=bool(number % 2)) for number in pairs
        ]
    free, cut = settled(rounds, is_on=False), settled(rounds, is_on=True)
    reactions = [one["reaction"] for one in rounds if one["suppressed"] and one["reaction"] is not None]
    row = {
        "rounds each": len(rounds) // 2,
        "training pods": options.per_core * (os.cpu_count() or 1),
        "requests each": min(len(free), len(cut)),
        "p50 ms without": quantile(free, 0.5),
        "p50 ms with": quantile(cut, 0.5),
        "p99 ms alone": quantile(alone, 0.99),
        "p99 ms without": quantile(free, 0.99),
        "p99 ms with": quantile(cut, 0.99),
        "p99 better": quantile(free, 0.99) / quantile(cut, 0.99),
        "run queue ms a request without": mean(settled(rounds, is_on=False, column=2)),
        "run queue ms a request with": mean(settled(rounds, is_on=True, column=2)),
        "reaction s, worst": max(reactions, default=float("nan")),
        "host's other load, cores": mean([foreign(one) for one in rounds if one["suppressed"]]),
    }
    publish("overload", [row])
    options.trace.write_text(json.dumps([by_second(one) for one in rounds[-2:]], indent=1) + "\n")


if __name__ == "__main__":
    main()
