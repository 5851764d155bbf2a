"""``strato job logs``: the output of a job's pods, with ``--follow`` also of pods that start later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import click

from strato.api import catalog
from strato.cli.job.objects import read_objects, task_of
from strato.cli.job.wait import FINISHED
from strato.cli.reasons.reading import report_on_job
from strato.cli.verbs import VerbFailed
from strato.client.cluster import Cluster, Json
from strato.clock import Clock
from strato.errors import ApiError, NotFound

_LOOK_SECONDS = 0.5

Write = Callable[[bytes], None]


async def print_logs(
    cluster: Cluster,
    clock: Clock,
    namespace: str,
    name: str,
    *,
    task: str,
    all_tasks: bool,
    query: Mapping[str, str],
    write: Write,
) -> None:
    """Print the logs; with ``follow`` in the query until the job has ended and every pod has been read to its end.

    Raises:
        VerbFailed: There is no such task, or nothing has started and waiting was not asked for.
        ApiError: The job does not exist, or the server did not answer.
    """
    follow = query.get("follow") == "true"
    streams: dict[str, asyncio.Task[bool]] = {}
    try:
        while True:
            objects = await read_objects(cluster, namespace, name, others=False)
            tasks = [one.get("name", "") for one in objects.job.get("spec", {}).get("tasks", ())]
            if task and task not in tasks:
                raise VerbFailed(f"job {name} has no task {task!r}; it has {', '.join(tasks)}")
            wanted = set(tasks) if all_tasks else {task or tasks[0]}
            pods = [pod for pod in objects.pods if task_of(pod) in wanted and has_started(pod)]
            prefixed = all_tasks or len(pods) > 1 or follow
            for pod in pods:
                meta = pod["metadata"]
                if meta["uid"] not in streams:
                    prefix = f"[{meta['name']}] ".encode() if prefixed else b""
                    streams[meta["uid"]] = asyncio.ensure_future(
                        _print(cluster, namespace, meta["name"], query, prefix, write)
                    )
            phase = (objects.job.get("status", {}).get("state") or {}).get("phase", "")
            if not follow or phase in FINISHED:
                break
            await clock.sleep(_LOOK_SECONDS)
        if not streams and not follow:
            report = await report_on_job(cluster, namespace, name)
            reason = f": {report.summary}" if report is not None else ""
            raise VerbFailed(
                f"no pod of job {name} has started{reason}; ask 'strato explain job/{name}' why, or use --follow"
            )
        read = await asyncio.gather(*streams.values())
        if read and not any(read):
            raise VerbFailed(f"no pod of job {name} gave a log")
    finally:
        for stream in streams.values():
            stream.cancel()


async def print_reason(cluster: Cluster, namespace: str, name: str) -> None:
    """Print on standard error why a job failed or cannot go on; nothing when it completed or runs."""
    report = await report_on_job(cluster, namespace, name)
    if report is not None and report.code:
        click.echo(f"{report.key} is {report.state}: {report.summary}", err=True)


def has_started(pod: Json) -> bool:
    """Whether a pod may have printed something."""
    return pod.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed")


async def _print(
    cluster: Cluster, namespace: str, pod: str, query: Mapping[str, str], prefix: bytes, write: Write
) -> bool:
    """Print one pod's log, and return whether there was one."""
    rest, refused = b"", False
    try:
        async for chunk in cluster.stream(catalog.POD.path(namespace, pod, "log"), query=dict(query)):
            *lines, rest = (rest + chunk).split(b"\n")
            write(b"".join(prefix + line + b"\n" for line in lines))
    except NotFound:
        return True  # deleted meanwhile; what it printed is gone with it
    except ApiError as error:
        write(prefix + f"no log: {error}\n".encode())
        refused = True
    if rest:
        write(prefix + rest + b"\n")
    return not refused
