"""What an embedded cluster takes of the processor while nothing happens, by process; the bar is 0.5 % of one core.

    python -m benchmarks.idle [--seconds 120] [--bar 0.5]

Three clusters after another: this machine as the node; the same with a namespace that cannot end, because a finalizer
nobody removes is in it; and a job's pod that runs. Exit status 1 where one takes more. CPU time is counted, so that
other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.cluster import STRATO, Running, embedded
from benchmarks.report import check_writable, publish

SETTLE_SECONDS = 30.0
"""What a start still does after it is ready."""
Prepare = Callable[[Running], None]


def nothing(_: Running) -> None:
    pass


def stuck_namespace(cluster: Running) -> None:
    """Delete a namespace with a ConfigMap that has a finalizer."""
    _create(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stuck"}})
    meta = {"name": "held", "namespace": "stuck", "finalizers": ["example.com/nobody"]}
    _create(cluster, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    _kubectl(cluster, "delete", "namespace", "stuck", "--wait=false")


def running_pod(cluster: Running) -> None:
    container = {"name": "c", "image": "strato/host", "command": ["sleep", "100000"]}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    _create(
        cluster,
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}} | {"spec": spec},
    )
    _kubectl(cluster, "wait", "--for=jsonpath={.status.ready}=1", "job/j", "--timeout=120s")


CASES: dict[str, Prepare] = {
    "nothing": nothing,
    "a namespace that cannot end": stuck_namespace,
    "a running pod": running_pod,
}


def _create(cluster: Running, body: object) -> None:
    _kubectl(cluster, "create", "-f", "-", stdin=json.dumps(body))


def _kubectl(cluster: Running, *arguments: str, stdin: str = "") -> None:
    command = [*STRATO, "--kubeconfig", str(cluster.kubeconfig), "kubectl", *arguments]
    subprocess.run(command, input=stdin, text=True, check=True, stdout=subprocess.DEVNULL)


def family(pid: int) -> Iterator[int]:
    """Yield a process and all it has started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def cpu_by_process(pid: int) -> dict[str, float]:
    """Return the CPU seconds of each process of a cluster, under its id and what it is."""
    found = {}
    for one in family(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        words = Path(f"/proc/{one}/cmdline").read_bytes().decode(errors="replace").split("\0")
        module = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "-m"), words[0])
        found[f"{one} {module}"] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def measure(name: str, prepare: Prepare, seconds: float) -> list[dict[str, object]]:
    with embedded() as cluster:
        prepare(cluster)
        time.sleep(SETTLE_SECONDS)
        before, began = cpu_by_process(cluster.pid), time.monotonic()
        time.sleep(seconds)
        after, elapsed = cpu_by_process(cluster.pid), time.monotonic() - began
    shares = {key: 100 * (used - before.get(key, used)) / elapsed for key, used in after.items()}
    rows = [(key.split()[1], share) for key, share in shares.items()]
    return [
        {"cluster": name, "process": process, "percent of a core": round(share, 3)}
        for process, share in [*rows, ("all", sum(shares.values()))]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to look")
    parser.add_argument("--bar", type=float, default=0.5, help="percent of a core")
    options = parser.parse_args()
    check_writable()
    rows = [row for name, prepare in CASES.items() for row in measure(name, prepare, options.seconds)]
    publish(
        "idle", rows, f"{options.seconds:g} s each, {SETTLE_SECONDS:g} s after the start; the bar is {options.bar:g} %"
    )
    return int(any(float(str(row["percent of a core"])) > options.bar for row in rows if row["process"] == "all"))


if __name__ == "__main__":
    sys.exit(main())
