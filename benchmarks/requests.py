"""Requests that a job and a pod cost, by verb and kind, as the API server counts them.

    python -m benchmarks.requests [--gangs N] [--singles N] [--nodes N]

runs an embedded cluster; `benchmarks.kube` prints the same table of a real kube-apiserver, with calls of webhooks and
watch events. What time alone costs (leases, and whatever else is written while nothing happens) is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster import embedded
from benchmarks.end_to_end import throughput
from benchmarks.report import check_writable, publish
from strato.client import kubeconfig
from strato.client.http import HttpCluster
from strato.clock import SystemClock

_WRITES = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
_READS = {"LIST", "WATCH", "CONNECT", ""}
_SAMPLE = re.compile(r"^(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_IDLE_KINDS = {"leases", "endpointslices", "subjectaccessreviews", "tokenreviews"}


def counted(metrics: str) -> Counter[tuple[str, str]]:
    """Return how often everything was done, by what and to which kind; from the text of ``/metrics``."""
    found: Counter[tuple[str, str]] = Counter()
    for line in metrics.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        labels = dict(_LABEL.findall(sample["labels"]))
        what = _what(sample["name"], labels)
        if what is not None:
            found[what] += int(float(sample["value"]))
    return found


def _what(name: str, labels: Mapping[str, str]) -> tuple[str, str] | None:
    resource = labels.get("resource", "")
    match name:
        case "apiserver_request_total":
            verb = _WRITES.get(labels["verb"], labels["verb"].upper())
            if verb in _READS or not resource or resource in _IDLE_KINDS:
                return None
            code = labels["code"]
            failed = "" if code.startswith("2") else f" ({code})"
            return verb, "/".join(filter(None, (resource, labels.get("subresource", "")))) + failed
        case "apiserver_admission_webhook_request_total":
            return "webhook", labels["name"]
        case "apiserver_watch_events_total":
            return None if resource in _IDLE_KINDS else ("watch event", resource)
    return None


async def read(path: Path) -> Counter[tuple[str, str]]:
    """Return what `counted` does of a server."""
    cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
    try:
        return counted((await cluster.raw("GET", "/metrics", accept="text/plain")).decode())
    finally:
        await cluster.close()


def per_job(before: Mapping[Any, int], after: Mapping[Any, int], jobs: int, replicas: int) -> list[dict[str, object]]:
    """Return the rows of what was done in between, most first; what is rarer than once in fifty jobs is left out."""
    done = {what: count - before.get(what, 0) for what, count in after.items()}
    shown = sorted(((count, what) for what, count in done.items() if count >= jobs / 50), reverse=True)
    return [
        {"what": what, "kind": kind, "per job": count / jobs, "per pod": count / (jobs * replicas)}
        for count, (what, kind) in shown
    ]


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the rows of one workload, one line each."""
    return "\n".join(f"  {row['per job']:9.2f} {row['per pod']:9.3f}  {row['what']} {row['kind']}" for row in rows)


def main() -> None:
    """Measure an embedded cluster and publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--gangs", type=int, default=20, help="jobs of 50 pods; 0 leaves the workload out")
    parser.add_argument("--singles", type=int, default=400, help="jobs of one pod; 0 leaves the workload out")
    args = parser.parse_args()
    check_writable()
    published: list[dict[str, object]] = []
    for name, jobs, replicas in (("gangs", args.gangs, 50), ("single", args.singles, 1)):
        if not jobs:
            continue
        with embedded("--no-sandbox", "--hollow-nodes", str(args.nodes), "--cpu", "32", "--memory", "256Gi") as running:
            before = asyncio.run(read(running.kubeconfig))
            asyncio.run(throughput(running, running.kubeconfig, name, jobs, replicas, ["sleep", "3600"]))
            asyncio.run(asyncio.sleep(8))  # statuses and events follow; they are held back for seconds at most
            after = asyncio.run(read(running.kubeconfig))
        published += [{"workload": name, **row} for row in per_job(before, after, jobs, replicas)]
    publish("requests", published)


if __name__ == "__main__":
    main()
