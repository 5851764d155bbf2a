"""From a full journal to the first bind: server and scheduler start on 5,000 nodes, 140,000 pods and 87,000 jobs.

``python -m benchmarks.cold_start [--nodes N] [--jobs N] [--pods N]``

The embedded server restarts from its SQLite journal; the scheduler lists and decodes everything through the API, as
in ``strato up``, decides, and binds. 80,000 of the jobs run, the rest waits. The clock stops when the server has
answered the first bind.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import uvloop

from benchmarks.report import check_writable, publish
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Handler, Request, Response, User
from strato.cli.serving import collect_hardly
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.scheduler import Scheduler
from strato.scheduler.placement.placer import warm_up
from strato.server.api import ApiServer
from strato.server.embedded import open_server
from strato.server.store import Store

CREATED = "2026-01-01T00:00:00Z"
QUEUES = 4
Json = dict[str, Any]


def history(nodes: int, jobs: int, running: int, pods: int) -> Iterator[tuple[Kind, str, Json]]:
    """Yield every object with its kind and key."""
    for q in range(QUEUES):
        yield catalog.QUEUE, f"q{q}", {"spec": {"weight": 1}, "status": {"state": "Open"}}
    for n in range(nodes):
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "250"}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": CREATED}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        yield catalog.NODE, f"node-{n}", {"spec": {}, "status": status}
    for j in range(jobs):
        phase = "Running" if j < running else "Inqueue"
        yield (
            catalog.PODGROUP,
            f"bench/j{j}",
            {"spec": {"minMember": 1, "queue": f"q{j % QUEUES}"}, "status": {"phase": phase}},
        )
    for p in range(pods):
        job, runs = p % jobs, p % jobs < running
        requests = {"cpu": f"{1000 + job % 50 * 10}m", "memory": "1Gi"}
        container = {"name": "main", "image": "busybox:1.36", "resources": {"requests": requests, "limits": requests}}
        spec: Json = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
        status: Json = {"phase": "Pending"}
        if runs:
            spec["nodeName"] = f"node-{p % nodes}"
            status = {"phase": "Running", "startTime": CREATED, "hostIP": "10.0.0.1", "podIP": "10.1.0.1"}
        annotations = {"scheduling.k8s.io/group-name": f"j{job}"}
        yield catalog.POD, f"bench/p{p}", {"metadata": {"annotations": annotations}, "spec": spec, "status": status}


def put(store: Store, kind: Kind, key: str, body: Json) -> None:
    """Write an object past the API, as an API server would have stored it."""
    namespace, _, name = key.rpartition("/")
    metadata = {"name": name, "uid": f"{kind.plural}-{name}", "creationTimestamp": CREATED, "generation": 1}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"resourceVersion": str(store.next_revision()), **body.get("metadata", {})}
    whole = {"apiVersion": kind.api_version, "kind": kind.name, **body, "metadata": metadata}
    store.write(kind.resource, key, msgspec.json.encode(whole))


async def fill(path: Path, nodes: int, jobs: int, running: int, pods: int) -> None:
    """Write the history into a journal."""
    server, journal = open_server(SystemClock(), Random(1), path)
    assert journal is not None
    for one in history(nodes, jobs, running, pods):
        put(server.store, *one)
    await server.store.wait_durable()
    journal.close()


class Watched(Handler):
    """A server that notes when it answered its first bind: monotonic time, and CPU seconds of this process."""

    def __init__(self, server: ApiServer) -> None:
        self.bound = asyncio.Event()
        self.bound_at = self.bound_cpu = 0.0
        self._server = server

    async def handle(self, request: Request) -> Response:
        """Hand a request through."""
        response = await self._server.handle(request)
        self._note(request, response)
        return response

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Hand requests through."""
        responses = await self._server.handle_all(requests)
        for request, response in zip(requests, responses, strict=True):
            self._note(request, response)
        return responses

    def _note(self, request: Request, response: Response) -> None:
        is_bind = request.method == "POST" and request.path.endswith("/binding")
        if is_bind and response.status < 300 and not self.bound.is_set():
            # now: whoever waits for it gets its turn after all that the scheduler sends with it
            self.bound_at, self.bound_cpu = time.monotonic(), time.process_time()
            self.bound.set()


async def start(path: Path) -> dict[str, float]:
    """Start on a journal; return seconds and CPU seconds until the server serves, all is read, and the first bind."""
    clock, began, cpu = SystemClock(), time.monotonic(), time.process_time()
    server, journal = open_server(clock, Random(1), path)
    assert journal is not None
    times = {"server s": time.monotonic() - began, "server cpu s": time.process_time() - cpu}
    watched = Watched(server)
    cluster = LocalCluster(watched, User("system:admin", ("system:masters",)), uncommitted=True)
    informers = Informers(cluster, clock, Random(2))
    scheduler = Scheduler(cluster, informers, clock, Random(3))
    running = asyncio.create_task(scheduler.run())
    await scheduler.ready.wait()
    times |= {"read s": time.monotonic() - began, "read cpu s": time.process_time() - cpu}
    await watched.bound.wait()
    times |= {"first bind s": watched.bound_at - began, "first bind cpu s": watched.bound_cpu - cpu}
    running.cancel()
    await asyncio.wait([running])
    await informers.stop()
    journal.close()
    return times


def main() -> int:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=87_000)
    parser.add_argument("--running", type=int, default=80_000)
    parser.add_argument("--pods", type=int, default=140_000)
    args = parser.parse_args()
    check_writable()
    collect_hardly()  # as `strato up` does
    warm_up()
    with tempfile.TemporaryDirectory(prefix="strato-bench-") as directory:
        path = Path(directory) / "journal.db"
        uvloop.run(fill(path, args.nodes, args.jobs, args.running, args.pods))
        gc.collect()
        times = uvloop.run(start(path))
    row = {"nodes": args.nodes, "pods": args.pods, "jobs": args.jobs, **times}
    publish("cold_start", [row], "bar: first bind after 15 s; times count from the server's start on its journal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
