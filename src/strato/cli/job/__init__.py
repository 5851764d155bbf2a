"""``strato job``: run, list, view, suspend, resume, delete and wait (spec volcano-cli A2)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from strato.api import catalog
from strato.cli.commands import issue_command
from strato.cli.connect import with_cluster
from strato.cli.inputs import NAME, SELECTOR
from strato.cli.job.listing import JOBS
from strato.cli.job.run import run
from strato.cli.job.view import render_job
from strato.cli.job.wait import wait_until_completed
from strato.cli.listing import listing_options, show_list, show_page, watch_option
from strato.cli.objectnames import object_name
from strato.cli.output import all_namespaces_option
from strato.cli.reasons.reading import report_on_job
from strato.cli.reasons.report import ReasonReport
from strato.cli.verbs import VerbGroup
from strato.cli.watching import Source
from strato.client.cluster import Cluster, Json
from strato.clock import SystemClock

__all__ = ["job"]

namespace_option = click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
name_option = object_name("-N", help="Name of the job.")


@click.group(cls=VerbGroup)
def job() -> None:
    """Run, list, view, suspend, resume, delete and wait for jobs; logs, top and tree show what they do."""


job.add_command(run)


@job.command(name="list")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@namespace_option
@click.option("-S", "--scheduler", default="", help="Only jobs of this scheduler.")
@all_namespaces_option("Jobs of every namespace.")
@click.option("--selector", default="", help="Only jobs whose name contains this.")
@click.option(
    "-l",
    "--labels",
    default="",
    type=SELECTOR,
    metavar="SELECTOR",
    help="Only jobs with these labels: team=a,tier!=test.",
)
@listing_options
@click.pass_context
def list_jobs(
    ctx: click.Context,
    queue: str,
    namespace: str,
    scheduler: str,
    all_namespaces: bool,
    selector: str,
    labels: str,
    output: str,
    watching: bool,
) -> None:
    """List jobs."""
    scope = "" if all_namespaces else namespace

    def keep(item: Json) -> bool:
        return _selected(item, queue, scheduler, selector)

    show_list(ctx, JOBS, output, watching=watching, namespace=scope, labels=labels, keep=keep)


def _selected(item: Json, queue: str, scheduler: str, selector: str) -> bool:
    spec = item.get("spec", {})
    return (
        (not queue or spec.get("queue") == queue)
        and (not scheduler or spec.get("schedulerName") == scheduler)
        and selector in item["metadata"]["name"]
    )


@job.command()
@namespace_option
@name_option
@listing_options
@click.pass_context
def view(ctx: click.Context, namespace: str, name: str, output: str, watching: bool) -> None:
    """Show one job, why it is as it is, and its events."""
    if output not in ("table", "wide"):
        show_list(ctx, JOBS, output, watching=watching, namespace=namespace, name=name)
        return

    async def read(cluster: Cluster) -> tuple[Json, Sequence[Json], ReasonReport | None]:
        found = await cluster.get(catalog.VCJOB, name, namespace)
        events = await cluster.list(catalog.EVENT, namespace)
        return found, events.items, await report_on_job(cluster, namespace, name)

    sources = [
        Source(catalog.VCJOB, namespace, field_selector=f"metadata.name={name}"),
        Source(catalog.EVENT, namespace, field_selector=f"involvedObject.name={name}"),
    ]
    show_page(ctx, sources, read, lambda found: render_job(*found), watching=watching)


@job.command()
@namespace_option
@name_option
@click.pass_context
def suspend(ctx: click.Context, namespace: str, name: str) -> None:
    """Abort a job so that it can be resumed."""
    _command(ctx, namespace, name, "AbortJob")
    click.echo(f"suspend job {name} successfully")


@job.command()
@namespace_option
@name_option
@click.pass_context
def resume(ctx: click.Context, namespace: str, name: str) -> None:
    """Resume a suspended job."""
    _command(ctx, namespace, name, "ResumeJob")
    click.echo(f"resume job {name} successfully")


def _command(ctx: click.Context, namespace: str, name: str, action: str) -> None:
    async def work(cluster: Cluster) -> None:
        target = await cluster.get(catalog.VCJOB, name, namespace)
        await issue_command(cluster, target, action, namespace=namespace)

    with_cluster(ctx, work)


@job.command()
@namespace_option
@name_option
@click.pass_context
def delete(ctx: click.Context, namespace: str, name: str) -> None:
    """Delete a job with everything it owns."""
    with_cluster(ctx, lambda cluster: cluster.delete(catalog.VCJOB, name, namespace))
    click.echo(f"delete job {name} successfully")


@job.command()
@namespace_option
@click.argument("names", nargs=-1, required=True, type=NAME)
@click.option(
    "--timeout", "timeout_seconds", type=click.FloatRange(min=0), default=None, help="Give up after that many seconds."
)
@click.pass_context
def wait(ctx: click.Context, namespace: str, names: Sequence[str], timeout_seconds: float | None) -> None:
    """Follow jobs NAMES until each has ended; fail when one fails."""
    with_cluster(ctx, lambda cluster: wait_until_completed(cluster, namespace, names, timeout_seconds))


@job.command()
@namespace_option
@click.argument("name", type=NAME)
@click.option("-t", "--task", default="", help="Only this task; the first one without it.")
@click.option("--all-tasks", is_flag=True, help="Every pod of every task.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, also with pods that start later.")
@click.option("-c", "--container", default="", help="Container, when pods have several.")
@click.option(
    "--tail", "tail_lines", type=click.IntRange(0), default=None, help="Only that many lines from the end of each."
)
@click.option("--timestamps", is_flag=True, help="Put the time before every line.")
@click.pass_context
def logs(
    ctx: click.Context,
    namespace: str,
    name: str,
    task: str,
    all_tasks: bool,
    follow: bool,
    container: str,
    tail_lines: int | None,
    timestamps: bool,
) -> None:
    """Print what the pods of job NAME print."""
    from strato.cli.job.logs import print_logs, print_reason

    query = {"container": container} if container else {}
    for word, on in (("follow", follow), ("timestamps", timestamps)):
        if on:
            query[word] = "true"
    if tail_lines is not None:
        query["tailLines"] = str(tail_lines)

    def write(lines: bytes) -> None:
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()

    async def work(cluster: Cluster) -> None:
        await print_logs(
            cluster, SystemClock(), namespace, name, task=task, all_tasks=all_tasks, query=query, write=write
        )
        await print_reason(cluster, namespace, name)

    with_cluster(ctx, work)


@job.command()
@namespace_option
@click.argument("name", type=NAME)
@watch_option
@click.pass_context
def top(ctx: click.Context, namespace: str, name: str, watching: bool) -> None:
    """Show what each task of job NAME asks for and, where the cluster measures it, uses."""
    from strato.cli.job.objects import read_objects
    from strato.cli.job.top import read_usage, render_top

    async def read(cluster: Cluster) -> str:
        objects = await read_objects(cluster, namespace, name, others=False)
        return render_top(objects, await read_usage(cluster, namespace, name))

    show_page(ctx, _parts_of(namespace, name), read, str, watching=watching)


@job.command()
@namespace_option
@click.argument("name", type=NAME)
@watch_option
@click.pass_context
def tree(ctx: click.Context, namespace: str, name: str, watching: bool) -> None:
    """Show job NAME with its pod group, tasks, pods and everything else it owns."""
    from strato.cli.job.objects import read_objects
    from strato.cli.job.tree import render_tree

    async def read(cluster: Cluster) -> str:
        return render_tree(await read_objects(cluster, namespace, name))

    show_page(ctx, _parts_of(namespace, name), read, str, watching=watching)


def _parts_of(namespace: str, name: str) -> list[Source]:
    """Return the sources of objects that change while a job runs."""
    return [
        Source(catalog.VCJOB, namespace, field_selector=f"metadata.name={name}"),
        Source(catalog.PODGROUP, namespace),
        Source(catalog.POD, namespace, label_selector=f"volcano.sh/job-name={name}"),
    ]
