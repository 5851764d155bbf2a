"""scancel and scontrol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from strato.api import catalog
from strato.cli.commands import issue_command
from strato.cli.connect import with_cluster
from strato.cli.slurm.reading import JobFilter, namespace_option, read_jobs, states, users, words
from strato.client.cluster import Cluster
from strato.errors import StateError, UsageError
from strato.interop.slurm.jobs import ACTIVE, JobView
from strato.interop.slurm.nodes import node_views
from strato.interop.slurm.pages import job_page, node_page, partition_page

ACTIONS: Final = {
    "suspend": "AbortJob",
    "hold": "AbortJob",
    "resume": "ResumeJob",
    "release": "ResumeJob",
    "requeue": "RestartJob",
}
"""Actions of the Commands that are created, by scontrol's verb."""


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("-u", "--user", default="", metavar="USER", help="Jobs of this user.")
@click.option("--me", is_flag=True, help="Jobs of who types.")
@click.option("-n", "--name", "--jobname", default="", metavar="NAME", help="Jobs of this name.")
@click.option("-t", "--state", "wanted_states", default="", metavar="STATE", help="PENDING, RUNNING or SUSPENDED ones.")
@click.option("-p", "--partition", default="", metavar="QUEUE", help="Jobs of this queue.")
@click.option("-A", "--account", default="", metavar="ACCOUNT", help="Jobs of this account.")
@click.option("-Q", "--quiet", is_flag=True, help="Say nothing of jobs that have ended or are not there.")
@click.option("-v", "--verbose", is_flag=True, help="Name each job.")
@namespace_option
@click.pass_context
def scancel(
    ctx: click.Context,
    /,
    ids: tuple[str, ...],
    user: str,
    me: bool,
    wanted_states: str,
    namespace: str,
    quiet: bool,
    verbose: bool,
    **flags: str,
) -> None:
    """End jobs; they stay to be seen as CANCELLED."""
    asked = tuple(word for one in ids for word in words(one))
    wanted = JobFilter(
        asked,
        users(user, me),
        words(flags["name"]),
        words(flags["partition"]),
        words(flags["account"]),
        states(wanted_states) if wanted_states else None,
    )
    if wanted == JobFilter():
        raise UsageError("no job: give ids, or --user, --me, --name, --state, --partition or --account")

    async def work(cluster: Cluster) -> list[str]:
        views = await read_jobs(cluster, namespace, elements=True, why=False)
        problems = _unknown(asked, views)
        whole = {view.name: view for view in views if wanted.has(view) and view.state in ACTIVE}
        for name in whole:
            if verbose:
                click.echo(f"scancel: Terminating job {name}", err=True)
            job = {**whole[name].job, "apiVersion": catalog.VCJOB.api_version, "kind": catalog.VCJOB.name}
            await issue_command(cluster, job, "TerminateJob", namespace=namespace)
        return problems

    problems = with_cluster(ctx, work)
    for problem in () if quiet else problems:
        click.echo(f"scancel: error: {problem}", err=True)
    if problems and not quiet:
        ctx.exit(1)


def _unknown(asked: Sequence[str], views: Sequence[JobView]) -> list[str]:
    """Return the errors about ids: unknown ones, and elements of arrays, which cannot be cancelled alone."""
    problems = []
    jobs, elements = {view.name for view in views}, {view.fields["jobid"] for view in views}
    for one in asked:
        if one in jobs:
            continue
        if one in elements:
            raise UsageError(f"{one}: an element of an array ends with its job; cancel {one.rpartition('_')[0]}")
        problems.append(f"Kill job error on job id {one}: Invalid job id specified")
    return problems


@click.command()
@click.argument("verb", type=click.Choice(["show", *ACTIONS]))
@click.argument("things", nargs=-1, metavar="[job|node|partition] [NAME]...")
@click.option("-o", "--oneliner", is_flag=True, help="One line for each.")
@namespace_option
@click.pass_context
def scontrol(ctx: click.Context, verb: str, things: tuple[str, ...], oneliner: bool, namespace: str) -> None:
    """Show a job, a node or a partition; suspend, resume or requeue jobs."""
    if verb != "show":
        names = tuple(word for one in things for word in words(one.removeprefix("JobId=")))
        if not names:
            raise UsageError(f"{verb}: no job is named")
        with_cluster(ctx, lambda cluster: _act(cluster, namespace, ACTIONS[verb], names))
        return
    kind, *rest = things or ("",)
    kind, equals, value = kind.partition("=")
    names = tuple(word for one in (*((value,) if equals else ()), *rest) for word in words(one))
    kind = kind.lower().rstrip("s")
    if kind == "jobid":
        kind = "job"
    if kind not in ("job", "node", "partition"):
        raise UsageError(f"show {kind or '…'}: job, node and partition are known")
    pages = with_cluster(ctx, lambda cluster: _pages(cluster, namespace, kind, names))
    for page in pages:
        click.echo(" ".join(line.strip() for line in page) if oneliner else "\n".join(page))
        if not oneliner:
            click.echo()


async def _act(cluster: Cluster, namespace: str, action: str, names: Sequence[str]) -> None:
    for name in names:
        job = await cluster.get(catalog.VCJOB, name, namespace)
        target = {**job, "apiVersion": catalog.VCJOB.api_version, "kind": catalog.VCJOB.name}
        await issue_command(cluster, target, action, namespace=namespace)


async def _pages(cluster: Cluster, namespace: str, kind: str, names: Sequence[str]) -> list[list[str]]:
    if kind == "job":
        views = [one for one in await read_jobs(cluster, namespace) if not names or JobFilter(jobs=names).has(one)]
        if names and not views:
            raise StateError(f"{', '.join(names)}: Invalid job id specified")
        return [job_page(view) for view in views]
    nodes = (await cluster.list(catalog.NODE)).items
    if kind == "node":
        pods = (await cluster.list(catalog.POD)).items
        found = [one for one in node_views(list(nodes), list(pods)) if not names or one.name in names]
        pages = [node_page(one) for one in found]
    else:
        queues = [one for one in (await cluster.list(catalog.QUEUE)).items if one["metadata"]["name"] != "root"]
        found_queues = [one for one in queues if not names or one["metadata"]["name"] in names]
        pages = [partition_page(one, node_views(list(nodes), ())) for one in found_queues]
    if names and not pages:
        raise StateError(f"{kind.capitalize()} {names[0]} not found")
    return pages
