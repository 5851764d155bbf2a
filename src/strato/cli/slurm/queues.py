"""squeue and sinfo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

import click

from strato.api import catalog
from strato.cli.connect import with_cluster
from strato.cli.slurm.reading import JobFilter, columns_of, namespace_option, read_jobs, states, users, words
from strato.client.cluster import Cluster
from strato.clock import SystemClock
from strato.interop.slurm.formats import long_columns, short_columns, table
from strato.interop.slurm.jobs import ACTIVE, SQUEUE_FIELDS, SQUEUE_LONG, SQUEUE_SHORT
from strato.interop.slurm.nodes import (
    SINFO_FIELDS,
    SINFO_LONG,
    SINFO_NODES,
    SINFO_NODES_LONG,
    SINFO_SHORT,
    SINFO_SUMMARY,
    node_views,
    partition_records,
)

_iterate_option = click.option(
    "-i",
    "--iterate",
    "every_seconds",
    default=None,
    type=click.IntRange(1),
    metavar="SECONDS",
    help="Print again so often, until Ctrl-C.",
)


@click.command()
@click.option("-u", "--user", default="", metavar="USERS", help="Only jobs of these users.")
@click.option("--me", is_flag=True, help="Only jobs of who types.")
@click.option("-t", "--states", "wanted_states", default="", metavar="STATES", help="PD,R,…; all. [default: active]")
@click.option("-j", "--jobs", default="", metavar="IDS", help="Only these jobs.")
@click.option("-n", "--name", default="", metavar="NAMES", help="Only jobs of these names.")
@click.option("-p", "--partition", default="", metavar="QUEUES", help="Only jobs of these queues.")
@click.option("-A", "--account", default="", metavar="ACCOUNTS", help="Only jobs of these accounts.")
@click.option("-o", "--format", "short", default="", envvar="SQUEUE_FORMAT", metavar="FORMAT", help="%.18i %.9P ….")
@click.option("-O", "--Format", "long_format", default="", metavar="FORMAT", help="JobID:18,Partition:9,….")
@click.option("-l", "--long", "is_long", is_flag=True, help="More columns.")
@click.option("-h", "--noheader", is_flag=True, help="No header.")
@click.option("-r", "--array", "elements", is_flag=True, help="One line for each element that waits.")
@_iterate_option
@namespace_option
@click.pass_context
def squeue(
    ctx: click.Context,
    /,
    user: str,
    me: bool,
    wanted_states: str,
    jobs: str,
    namespace: str,
    short: str,
    long_format: str,
    every_seconds: int | None,
    **flags: str | bool,
) -> None:
    """List jobs that wait or run."""
    usual = SQUEUE_LONG if flags["is_long"] else SQUEUE_SHORT
    if long_format:
        columns = columns_of("--Format", lambda: long_columns(long_format, SQUEUE_FIELDS))
    else:
        columns = columns_of("--format", lambda: short_columns(short or usual, SQUEUE_FIELDS))
    active = None if jobs and not wanted_states else states(wanted_states) if wanted_states else tuple(ACTIVE)
    wanted = JobFilter(
        jobs=words(jobs),
        users=users(user, me),
        names=words(str(flags["name"])),
        partitions=words(str(flags["partition"])),
        accounts=words(str(flags["account"])),
        states=active,
    )

    async def work(cluster: Cluster) -> list[str]:
        views = await read_jobs(cluster, namespace, elements=bool(flags["elements"]))
        records = [view.fields for view in views if wanted.has(view)]
        return table(columns, records, header=not flags["noheader"])

    _print(ctx, work, every_seconds, dated=bool(flags["is_long"] and not flags["noheader"]))


def _print(
    ctx: click.Context, read: Callable[[Cluster], Awaitable[list[str]]], every_seconds: int | None, *, dated: bool
) -> None:
    """Print lines, preceded by the date if they are printed repeatedly or ``dated`` is true."""
    clock = SystemClock()

    async def work(cluster: Cluster) -> None:
        while True:
            lines = await read(cluster)
            if dated or every_seconds is not None:
                click.echo(datetime.fromtimestamp(clock.now()).strftime("%a %b %d %H:%M:%S %Y"))
            for line in lines:
                click.echo(line)
            if every_seconds is None:
                return
            click.echo()
            await clock.sleep(every_seconds)

    with_cluster(ctx, work)


@click.command()
@click.option("-N", "--Node", "by_node", is_flag=True, help="One line for each node.")
@click.option("-l", "--long", "is_long", is_flag=True, help="More columns.")
@click.option("-s", "--summarize", is_flag=True, help="One line for each queue.")
@click.option("-o", "--format", "short", default="", envvar="SINFO_FORMAT", metavar="FORMAT", help="%P %a %D %t %N ….")
@click.option("-O", "--Format", "long_format", default="", metavar="FORMAT", help="Partition:10,NodeList,….")
@click.option("-p", "--partition", default="", metavar="QUEUES", help="Only these queues.")
@click.option("-n", "--nodes", "names", default="", metavar="NODES", help="Only these nodes.")
@click.option(
    "-t", "--states", "wanted_states", default="", metavar="STATES", help="Only nodes in these states: idle,…."
)
@click.option("-h", "--noheader", is_flag=True, help="No header.")
@_iterate_option
@click.pass_context
def sinfo(
    ctx: click.Context,
    /,
    by_node: bool,
    is_long: bool,
    summarize: bool,
    short: str,
    long_format: str,
    noheader: bool,
    every_seconds: int | None,
    **flags: str,
) -> None:
    """List queues with the nodes they may use."""
    usual = SINFO_SUMMARY if summarize else SINFO_LONG if is_long else SINFO_SHORT
    if by_node:
        usual = SINFO_NODES_LONG if is_long else SINFO_NODES
    if long_format:
        columns = columns_of("--Format", lambda: long_columns(long_format, SINFO_FIELDS))
    else:
        columns = columns_of("--format", lambda: short_columns(short or usual, SINFO_FIELDS))
    partitions, names = words(flags["partition"]), words(flags["names"])
    states_wanted = tuple(word.lower() for word in words(flags["wanted_states"]))

    async def work(cluster: Cluster) -> list[str]:
        queues = (await cluster.list(catalog.QUEUE)).items
        nodes = (await cluster.list(catalog.NODE)).items
        pods = (await cluster.list(catalog.POD)).items
        views = [
            node
            for node in node_views(list(nodes), list(pods))
            if (not names or node.name in names)
            and (not states_wanted or any(node.state.startswith(word) for word in states_wanted))
        ]
        chosen = [one for one in queues if not partitions or one["metadata"]["name"] in partitions]
        records = partition_records(chosen, views, by_state=not summarize, by_node=by_node)
        return table(columns, records, header=not noheader)

    _print(ctx, work, every_seconds, dated=is_long and not noheader)
