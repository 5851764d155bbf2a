"""Run several copies of the training job at once on a cluster that holds one and a half, and watch them finish.

    python examples/parameter-server/demo.py [--copies 5] [--json FILE]

Starts an embedded cluster of its own in a temporary directory, submits the copies, prints what happens, checks that
no gang was ever half-started, and stops the cluster. Exit status 0 means that every copy completed. The file gets when
each pod was bound and ended, in seconds since the first job was submitted.
"""

import argparse
import asyncio
import collections
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from strato.api import catalog
from strato.client import kubeconfig
from strato.client.cluster import EventType, Json
from strato.client.http import HttpCluster
from strato.clock import SystemClock

HERE = Path(__file__).parent
PODS_PER_COPY = 6
CPUS = 9  # one and a half copies
ENDED = {"Completed", "Failed", "Terminated", "Aborted"}


class Story:
    """Turns watch events into a story, and checks the promise of gang scheduling on the way."""

    def __init__(self, copies: int) -> None:
        self.copies = copies
        self.started = time.monotonic()
        self.phases: dict[str, str] = {}
        self.bound: dict[str, set[str]] = collections.defaultdict(set)
        self.first_bound: list[str] = []
        self.times: dict[str, dict[str, dict[str, float]]] = collections.defaultdict(dict)  # by job, pod and event
        self.done = asyncio.Event()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)

    def job(self, job: Json) -> None:
        name, phase = job["metadata"]["name"], job.get("status", {}).get("state", {}).get("phase", "")
        if phase and phase != self.phases.get(name):
            self.phases[name] = phase
            self.say(f"job {name}: {phase}")
        if sum(phase in ENDED for phase in self.phases.values()) == self.copies:
            self.done.set()

    def pod(self, pod: Json) -> None:
        job = (pod["metadata"].get("labels") or {}).get("volcano.sh/job-name")
        if job and pod["spec"].get("nodeName"):
            if not self.bound[job]:
                self.first_bound.append(job)
            self.note(job, pod["metadata"]["name"], "bound")
            if pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") in ("Succeeded", "Failed"):
                self.note(job, pod["metadata"]["name"], "ended")
            before = len(self.bound[job])
            self.bound[job].add(pod["metadata"]["name"])
            if before < PODS_PER_COPY == len(self.bound[job]):
                self.say(f"job {job}: all {PODS_PER_COPY} pods placed")

    def note(self, job: str, pod: str, event: str) -> None:
        now = time.monotonic() - self.started
        self.times[job].setdefault(pod, {}).setdefault(event, round(now, 2))

    def verdict(self) -> str | None:
        """Return what went wrong, or None."""
        failed = sorted(name for name, phase in self.phases.items() if phase != "Completed")
        if failed:
            return f"not completed: {', '.join(f'{name} ({self.phases[name]})' for name in failed)}"
        partial = sorted(name for name, pods in self.bound.items() if len(pods) != PODS_PER_COPY)
        return f"half-started: {', '.join(partial)}" if partial else None


async def follow(cluster: HttpCluster, story: Story) -> None:
    async def watch(kind, observe) -> None:  # type: ignore[no-untyped-def]  # an example, kept short
        async for batch in cluster.watch(kind, "default"):
            for event in batch:
                if event.type is not EventType.BOOKMARK:
                    observe(event.object)

    watches = [
        asyncio.create_task(watch(catalog.VCJOB, story.job)),
        asyncio.create_task(watch(catalog.POD, story.pod)),
    ]
    done = asyncio.create_task(story.done.wait())
    await asyncio.wait([done, *watches], return_when=asyncio.FIRST_COMPLETED)
    for task in [done, *watches]:
        task.cancel()
    if not story.done.is_set():
        await asyncio.gather(*watches)  # raises what ended the watch


async def run(home: Path, story: Story, timeout_seconds: float) -> str | None:
    config = kubeconfig.load([home / "kubeconfig"])
    cluster = HttpCluster(config, SystemClock())
    copies = story.copies
    try:
        script = {"metadata": {"name": "parameter-server"}, "data": {"train.py": (HERE / "train.py").read_text()}}
        await cluster.create(catalog.CONFIGMAP, {"apiVersion": "v1", "kind": "ConfigMap", **script}, "default")
        job = yaml.safe_load((HERE / "job.yaml").read_text())
        for copy in range(1, copies + 1):
            await cluster.create(catalog.VCJOB, {**job, "metadata": {"name": f"train-{copy}"}}, "default")
        story.say(f"submitted {copies} jobs of {PODS_PER_COPY} pods; {CPUS} cpus hold {CPUS / PODS_PER_COPY:g} jobs")
        try:
            await asyncio.wait_for(follow(cluster, story), timeout_seconds)
        except TimeoutError:
            return f"not finished after {timeout_seconds:g} s: {story.phases}"
        for name in story.first_bound[:1]:
            text = await cluster.raw("GET", catalog.POD.path("default", f"{name}-worker-0", "log"), accept="*/*")
            story.say(f"log of {name}-worker-0:\n    " + text.decode().strip().replace("\n", "\n    "))
        return story.verdict()
    finally:
        await cluster.close()


def strato(home: Path, *args: str) -> None:
    done = subprocess.run([sys.executable, "-m", "strato.cli.main", "--home", str(home), *args], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds until giving up")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the times of the run here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="strato-demo-") as directory:
        home = Path(directory)
        strato(home, "up", "--cpus", str(CPUS), "--port", "0")
        try:
            story = Story(args.copies)
            problem = asyncio.run(run(home, story, args.timeout))
            if problem:
                strato(home, "status")
        finally:
            strato(home, "down")
    if problem:
        sys.exit(f"demo failed: {problem}")
    if args.json:
        args.json.write_text(json.dumps({"cpus": CPUS, "pods": story.times}, indent=1, sort_keys=True) + "\n")
    print(f"all {args.copies} jobs completed, one gang after another, none half-started")


if __name__ == "__main__":
    main()
