"""``strato logs``: the log of a pod, or of every pod of a job."""

from __future__ import annotations

import asyncio
import sys

import click

from strato.api import catalog
from strato.cli.connect import with_cluster
from strato.cli.podtargets import job_meant
from strato.cli.reasons.reading import read
from strato.cli.reasons.workloads import report_of
from strato.client.cluster import Cluster
from strato.errors import ApiError, NotFound, StateError, StratoError, UsageError


@click.command()
@click.argument("target")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-c", "--container", default="", help="Container, when the pod has several.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the container ends.")
@click.option("--tail", "tail_lines", type=click.IntRange(0), default=None, help="Only that many lines from the end.")
@click.option("-p", "--previous", is_flag=True, help="The previous run of the container.")
@click.option("--timestamps", is_flag=True, help="Put the time before every line.")
@click.pass_context
def logs(
    ctx: click.Context,
    target: str,
    namespace: str,
    container: str,
    follow: bool,
    tail_lines: int | None,
    previous: bool,
    timestamps: bool,
) -> None:
    """Print the log of TARGET: a pod's name, or job/NAME for all pods of a job."""
    query = {"container": container} if container else {}
    query |= {
        name: "true" for name, on in (("follow", follow), ("previous", previous), ("timestamps", timestamps)) if on
    }
    if tail_lines is not None:
        query["tailLines"] = str(tail_lines)

    async def work(cluster: Cluster) -> None:
        kind, _, name = target.rpartition("/")
        if kind not in ("", "pod", "job", "vcjob"):
            raise UsageError(f"{target!r}: write a pod's name, pod/NAME or job/NAME")
        if kind in ("", "pod"):
            try:
                await _print_log(cluster, namespace, name, query, "")
            except NotFound as error:
                raise await job_meant(cluster, namespace, name, error) from error
            finally:
                await _print_reason(cluster, "pod", namespace, name)
            return
        pods = await cluster.list(catalog.POD, namespace, label_selector=f"volcano.sh/job-name={name}")
        if not pods.items:
            await cluster.get(catalog.VCJOB, name, namespace)  # raises NotFound if there is no such job
            await _print_reason(cluster, "vcjob", namespace, name)
            raise StateError(f"job {namespace}/{name} has no pods; see 'strato explain job/{name}'")
        names = [pod["metadata"]["name"] for pod in pods.items]
        reading = [asyncio.ensure_future(_print_log(cluster, namespace, pod, query, f"[{pod}] ")) for pod in names]
        try:
            read = await asyncio.gather(*reading)
        finally:
            for one in reading:  # when the reader of our output closes it, all tasks end without a message
                one.cancel()
        if not any(read):
            await _print_reason(cluster, "vcjob", namespace, name)
            raise StratoError(f"none of the {len(names)} pods of job {namespace}/{name} gave a log")
        await _print_reason(cluster, "vcjob", namespace, name)

    with_cluster(ctx, work)


async def _print_reason(cluster: Cluster, kind: str, namespace: str, name: str) -> None:
    """Print on standard error why a pod or a job failed or cannot go on."""
    try:
        report = report_of(*await read(cluster, kind, namespace, name))
    except (ApiError, StateError):
        return  # the log itself was printed, so the command has succeeded
    if report.code:
        click.echo(f"{report.key} is {report.state}: {report.summary}", err=True)


async def _print_log(cluster: Cluster, namespace: str, pod: str, query: dict[str, str], prefix: str) -> bool:
    """Print one pod's log, and return whether there was one; of several pods, one's error is printed as a line."""
    rest, refused = b"", False
    stdout = sys.stdout.buffer
    try:
        async for chunk in cluster.stream(catalog.POD.path(namespace, pod, "log"), query=query):
            if not prefix:
                stdout.write(chunk)
            else:
                *lines, rest = (rest + chunk).split(b"\n")
                stdout.writelines(prefix.encode() + line + b"\n" for line in lines)
            stdout.flush()
    except ApiError as error:
        if not prefix or isinstance(error, NotFound):
            raise
        click.echo(f"{prefix}{error}", err=True)  # one pod without a log does not hide the others
        refused = True
    if rest:
        stdout.write(prefix.encode() + rest + b"\n")
    return not refused
