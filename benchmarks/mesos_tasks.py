"""Tasks of a Mesos framework on hollow nodes of ``strato up --mesos``: launched, seen running, ended, acknowledged.

``python -m benchmarks.mesos_tasks [--tasks N] [--nodes N] [--seconds S]``

The framework is a process of its own, speaks JSON over HTTP and accepts what it is offered until all tasks are
launched. The clock runs from its first offer to the last task's end. The bar is 500 tasks/s on 2 cores, framework
included.
"""

from __future__ import annotations

import argparse
import socket
import threading
import time
from itertools import islice
from typing import Any

from benchmarks.cluster import embedded
from benchmarks.report import check_writable, publish
from strato.api.meta import Json
from strato.testing.mesosframework import FrameworkClient, command_task, fitting

CPUS, MEMORY_MIB = 0.3, 32.0
"""Of a task: 106 fill a node of 32 cpus, which takes 110 pods."""
TERMINAL = ("TASK_FINISHED", "TASK_FAILED", "TASK_LOST", "TASK_KILLED", "TASK_ERROR")


class Load:
    """What the framework has done so far."""

    def __init__(self, tasks: int, seconds: float) -> None:
        self.names = iter(range(tasks))
        self.tasks, self.command = tasks, f"sleep {seconds}"
        self.begun_at = self.running_at = self.ended_at = 0.0
        self.running: set[str] = set()
        self.ended: dict[str, str] = {}
        self.why = ""
        """What the first update says that is no success."""
        self.done = threading.Event()

    def on_event(self, framework: FrameworkClient, event: Json) -> None:
        if event["type"] == "OFFERS":
            self.begun_at = self.begun_at or time.monotonic()
            for offer in event["offers"]["offers"]:
                numbers = list(islice(self.names, fitting(offer, CPUS, MEMORY_MIB)))
                infos = [command_task(f"t-{n}", offer, self.command, CPUS, MEMORY_MIB) for n in numbers]
                operations = [{"type": "LAUNCH", "launch": {"task_infos": infos}}]
                framework.post("ACCEPT", offer_ids=[offer["id"]], operations=operations, filters={"refuse_seconds": 1})
        elif event["type"] == "UPDATE":
            framework.acknowledge(event)
            status: Any = event["update"]["status"]
            name, state = status["task_id"]["value"], status["state"]
            if state == "TASK_RUNNING":
                self.running.add(name)
                if len(self.running) == self.tasks:
                    self.running_at = time.monotonic()
            elif state in TERMINAL:
                self.ended[name] = state
                if state != "TASK_FINISHED":
                    self.why = self.why or f"{state}: {status.get('message', '')}"
                if len(self.ended) == self.tasks:
                    self.ended_at = time.monotonic()
                    self.done.set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each task runs")
    arguments = parser.parse_args()
    check_writable()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    options = ("--no-sandbox", "--hollow-nodes", str(arguments.nodes), "--mesos", "--mesos-port", str(port))
    load = Load(arguments.tasks, arguments.seconds)
    with embedded(*options) as cluster:
        cpu = cluster.cpu_seconds()
        info = {"user": "bench", "name": "bench", "failover_timeout": 600.0}
        with FrameworkClient(f"127.0.0.1:{port}", info, load.on_event, workers=4) as framework:
            finished = load.done.wait(900)
            if framework.errors:
                print(f"{len(framework.errors)} errors, the first: {framework.errors[0]}")
            if not finished:
                raise SystemExit(f"after 900 s {len(load.ended)} of {load.tasks} tasks have ended")
        lost = sorted(name for name, state in load.ended.items() if state != "TASK_FINISHED")
        if lost:
            raise SystemExit(f"{len(lost)} of {load.tasks} tasks have failed, the first: {lost[0]}, {load.why}")
        cpu = cluster.cpu_seconds() - cpu
        seconds = load.ended_at - load.begun_at
        row = {
            "tasks": load.tasks,
            "nodes": arguments.nodes,
            "seconds": round(seconds, 1),
            "tasks/s": round(load.tasks / seconds),
            "cluster cpu s": round(cpu, 1),
            "MiB": cluster.resident_mib(),
        }
    publish("mesos_tasks", [row])


if __name__ == "__main__":
    main()
