"""sacct: list jobs that wait, run or have ended, until the cluster deletes them."""

from __future__ import annotations

import click

from strato.cli.connect import with_cluster
from strato.cli.slurm.reading import JobFilter, columns_of, namespace_option, read_jobs, states, users, words
from strato.client.cluster import Cluster
from strato.interop.slurm.formats import accounting_columns, accounting_table
from strato.interop.slurm.jobs import SACCT_BRIEF, SACCT_FIELDS, SACCT_SHORT


@click.command()
@click.option("-j", "--jobs", default="", metavar="IDS", help="Only these jobs.")
@click.option("-u", "--user", default="", metavar="USERS", help="Only jobs of these users.")
@click.option("--me", is_flag=True, help="Only jobs of who types.")
@click.option("-s", "--state", "wanted_states", default="", metavar="STATES", help="Only jobs in these states.")
@click.option("--name", default="", metavar="NAMES", help="Only jobs of these names.")
@click.option("-r", "--partition", default="", metavar="QUEUES", help="Only jobs of these queues.")
@click.option("-A", "--accounts", default="", metavar="ACCOUNTS", help="Only jobs of these accounts.")
@click.option("-o", "--format", "text", default="", envvar="SACCT_FORMAT", metavar="FORMAT", help="JobID%30,State,….")
@click.option("-b", "--brief", is_flag=True, help="JobID,State,ExitCode.")
@click.option("-n", "--noheader", is_flag=True, help="No header.")
@click.option("-P", "--parsable2", is_flag=True, help="Texts between |, none at the end.")
@click.option("-p", "--parsable", is_flag=True, help="The same with one at the end.")
@click.option("--delimiter", default="|", show_default=True, help="Instead of |.")
@click.option("-X", "--allocations", is_flag=True, help="No steps; here jobs have none.")
@click.option("-a", "--allusers", is_flag=True, help="Jobs of all users, which are shown anyway.")
@namespace_option
@click.pass_context
def sacct(
    ctx: click.Context,
    /,
    user: str,
    me: bool,
    text: str,
    delimiter: str,
    namespace: str,
    **flags: str | bool,
) -> None:
    """List jobs with what they used and how they ended, as long as the cluster keeps them."""
    usual = SACCT_BRIEF if flags["brief"] else SACCT_SHORT
    columns = columns_of("--format", lambda: accounting_columns(text or usual, SACCT_FIELDS))
    wanted = JobFilter(
        jobs=words(str(flags["jobs"])),
        users=users(user, me),
        names=words(str(flags["name"])),
        partitions=words(str(flags["partition"])),
        accounts=words(str(flags["accounts"])),
        states=states(str(flags["wanted_states"])) if flags["wanted_states"] else None,
    )
    parsable = bool(flags["parsable"] or flags["parsable2"])

    async def work(cluster: Cluster) -> list[str]:
        views = await read_jobs(cluster, namespace, elements=True, why=False)
        return accounting_table(
            columns,
            [view.fields for view in views if wanted.has(view)],
            header=not flags["noheader"],
            delimiter=delimiter if parsable else "",
            closed=bool(flags["parsable"]),
        )

    for line in with_cluster(ctx, work):
        click.echo(line)
