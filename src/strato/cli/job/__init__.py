"""``strato job``: run, list, view, suspend, resume, delete and wait (spec volcano-cli A2)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import click

from strato.api import catalog
from strato.cli.commands import issue_command
from strato.cli.connect import with_cluster
from strato.cli.inputs import NAME
from strato.cli.job.listing import job_table
from strato.cli.job.manifest import job_from_file, job_from_flags
from strato.cli.job.view import render_job
from strato.cli.job.wait import wait_for_jobs
from strato.cli.output import NOTHING_FOUND, all_namespaces_option, output_option, print_objects
from strato.cli.verbs import VerbFailed, VerbGroup
from strato.client.cluster import Cluster, Json
from strato.clock import SystemClock

__all__ = ["job", "show_job"]

namespace_option = click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
name_option = click.option("-N", "--name", required=True, type=NAME, help="Name of the job.")


@click.group(cls=VerbGroup)
def job() -> None:
    """Run, list, view, suspend, resume, delete and wait for jobs; logs, top and tree show what they do."""


@job.command()
@click.option("-i", "--image", default="busybox", show_default=True, help="Image of the container.")
@namespace_option
@click.option("-N", "--name", default="", help="Name of the job.")
@click.option("-m", "--min", "min_available", default=1, show_default=True, type=int, help="Pods that must start.")
@click.option("-r", "--replicas", default=1, show_default=True, type=int, help="Pods of the job.")
@click.option("-R", "--requests", default="cpu=1000m,memory=100Mi", show_default=True, help="Requests per pod.")
@click.option("-L", "--limits", default="cpu=1000m,memory=100Mi", show_default=True, help="Limits per pod.")
@click.option("-S", "--scheduler", default="volcano", show_default=True, help="Scheduler of the pods.")
@click.option("-c", "--command", default="", help="Command of the container, split as a shell does.")
@click.option("-f", "--filename", default="", help="YAML file with a Job; the other flags are then ignored.")
@click.option("--wait", is_flag=True, help="Follow the job until it ends; fail when the job fails.")
@click.option(
    "--timeout", "timeout_seconds", type=click.FloatRange(min=0), default=None, help="Seconds to wait with --wait."
)
@click.pass_context
def run(
    ctx: click.Context,
    image: str,
    namespace: str,
    name: str,
    min_available: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    command: str,
    filename: str,
    wait: bool,
    timeout_seconds: float | None,
) -> None:
    """Create a job from flags or from a file."""
    if filename:
        body = job_from_file(filename)
    else:
        body = job_from_flags(
            name=name,
            namespace=namespace,
            image=image,
            min_available=min_available,
            replicas=replicas,
            requests=requests,
            limits=limits,
            scheduler=scheduler,
            command=command,
        )

    async def work(cluster: Cluster) -> dict[str, str]:
        created = await cluster.create(catalog.VCJOB, body, namespace)
        job_name: str = created["metadata"]["name"]
        click.echo(f"run job {job_name} successfully")
        return await wait_for_jobs(cluster, namespace, [job_name], timeout_seconds) if wait else {}

    _fail_unless_completed(with_cluster(ctx, work))


@job.command(name="list")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@namespace_option
@click.option("-S", "--scheduler", default="", help="Only jobs of this scheduler.")
@all_namespaces_option("Jobs of every namespace.")
@click.option("--selector", default="", help="Only jobs whose name contains this.")
@click.option("-l", "--labels", default="", metavar="SELECTOR", help="Only jobs with these labels: team=a,tier!=test.")
@output_option
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
) -> None:
    """List jobs."""
    scope = "" if all_namespaces else namespace
    page = with_cluster(ctx, lambda cluster: cluster.list(catalog.VCJOB, scope, label_selector=labels))
    jobs = [item for item in page.items if _selected(item, queue, scheduler, selector)]
    if output != "table":
        print_objects(catalog.VCJOB, jobs, output)
    elif not page.items:
        click.echo(NOTHING_FOUND)
    else:
        click.echo(job_table(jobs, with_namespace=all_namespaces))


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
@output_option
@click.pass_context
def view(ctx: click.Context, namespace: str, name: str, output: str) -> None:
    """Show one job with its events."""
    show_job(ctx, namespace, name, output)


def show_job(ctx: click.Context, namespace: str, name: str, output: str, *, conditions: bool = True) -> None:
    """Print one job: its page, with or without the section of its conditions, or the whole object."""

    async def work(cluster: Cluster) -> tuple[Json, Sequence[Json]]:
        found = await cluster.get(catalog.VCJOB, name, namespace)
        events = await cluster.list(catalog.EVENT, namespace)
        return found, events.items

    found, events = with_cluster(ctx, work)
    if output != "table":
        print_objects(catalog.VCJOB, [found], output, single=True)
    else:
        click.echo(render_job(found, events, conditions=conditions))


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
    _fail_unless_completed(with_cluster(ctx, lambda cluster: wait_for_jobs(cluster, namespace, names, timeout_seconds)))


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
    from strato.cli.job.logs import print_logs

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

    with_cluster(ctx, work)


@job.command()
@namespace_option
@click.argument("name", type=NAME)
@click.pass_context
def top(ctx: click.Context, namespace: str, name: str) -> None:
    """Show what each task of job NAME asks for and, where the cluster measures it, uses."""
    from strato.cli.job.objects import read_objects
    from strato.cli.job.top import read_usage, render_top

    async def work(cluster: Cluster) -> str:
        objects = await read_objects(cluster, namespace, name, others=False)
        return render_top(objects, await read_usage(cluster, namespace, name))

    click.echo(with_cluster(ctx, work))


@job.command()
@namespace_option
@click.argument("name", type=NAME)
@click.pass_context
def tree(ctx: click.Context, namespace: str, name: str) -> None:
    """Show job NAME with its pod group, tasks, pods and everything else it owns."""
    from strato.cli.job.objects import read_objects
    from strato.cli.job.tree import render_tree

    click.echo(render_tree(with_cluster(ctx, lambda cluster: read_objects(cluster, namespace, name))))


def _fail_unless_completed(phases: Mapping[str, str]) -> None:
    bad = [f"{name} ended as {phase}" for name, phase in phases.items() if phase != "Completed"]
    if bad:
        raise VerbFailed("; ".join(bad))
