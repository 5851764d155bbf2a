"""``strato doctor``: check machine and cluster and say what to type; salvage a damaged journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from strato.cli.connect import NoCluster, connect, home_of, kubeconfig_paths, named_by
from strato.cli.diagnosis.findings import CheckResult, Status, problem
from strato.cli.home import Home
from strato.cli.inputs import FOLDER
from strato.clock import Clock, SystemClock
from strato.errors import StratoError, UsageError

_WORDS = {Status.OK: "ok", Status.WARNING: "WARNING", Status.PROBLEM: "PROBLEM"}


class Unsound(StratoError):
    """Something is wrong, and the findings have been printed: exit status 1 without a message."""


@click.command()
@click.option("--salvage", is_flag=True, help="Keep what is readable of a damaged journal and list what is not.")
@click.option(
    "--data-dir",
    default=None,
    type=FOLDER,
    help="Where the journal is, instead of HOME/data.",
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Format."
)
@click.pass_context
def doctor(ctx: click.Context, salvage: bool, data_dir: Path | None, output: str) -> None:
    """Check this machine and the cluster, and say what to type for each thing that is wrong.

    Of this machine: privileges, control groups, nftables, disk, memory, port, clock, and the embedded cluster's
    journal, keys and certificates. Of the cluster: kubeconfig, versions of both sides, clock, definitions, webhooks,
    who schedules. A cluster named by --kubeconfig, --master or --context is looked at alone. Changes nothing without
    --salvage. Exit status: 0 nothing is wrong, 1 something is, 2 unusable input.
    """
    from strato.cli.apiserver import JOURNAL

    home = home_of(ctx)
    journal = (data_dir or home.data) / JOURNAL
    if salvage:
        _salvage(home, journal)
        return
    found = list(_findings(ctx, home, journal, SystemClock()))
    problems = sum(finding.status is Status.PROBLEM for finding in found)
    click.echo(as_json(found) if output == "json" else as_text(found))
    if problems:
        raise Unsound(f"{problems} problem{'s' if problems != 1 else ''} found")


def as_text(found: Sequence[CheckResult]) -> str:
    """Write findings for a person: each with its check, and below it what to type."""
    width = max(len(finding.check) for finding in found) + 2
    lines = []
    for finding in found:
        lines.append(f"{_WORDS[finding.status]:<8} {finding.check:<{width}}{finding.what}")
        if finding.todo:
            lines.append(f"{'':<{9 + width}}→ {finding.todo}")
    return "\n".join(lines)


def as_json(found: Sequence[CheckResult]) -> str:
    """Write findings for a script."""
    is_ok = all(finding.status is not Status.PROBLEM for finding in found)
    return json.dumps({"ok": is_ok, "findings": [asdict(finding) for finding in found]}, indent=2)


def _findings(ctx: click.Context, home: Home, journal: Path, clock: Clock) -> Iterator[CheckResult]:
    from strato.cli.diagnosis.probe import kubectl_version

    options = ctx.find_root().obj
    if options["kubeconfig"] or options["master"] or options["context"]:
        paths = kubeconfig_paths(ctx)
        yield from _cluster(ctx, paths, clock, kubectl_version())
        return
    from strato.cli.diagnosis import files, machine
    from strato.cli.diagnosis.probe import machine_facts

    facts = machine_facts(home, journal.parent, clock)
    yield from machine.findings(facts)
    if home.path.exists():
        yield from files.findings(home, journal, clock)
    else:
        yield CheckResult("process", f"there is no cluster in {home.path} yet; 'strato up' starts one")
    try:
        paths = kubeconfig_paths(ctx)
    except NoCluster:
        yield CheckResult(
            "cluster", "none is named: no embedded cluster runs, KUBECONFIG and ~/.kube/config are not there"
        )
        return
    if home.running_pid() is not None and not home.ready():
        return  # it is starting, as the findings about its directory say
    try:
        yield from _cluster(ctx, paths, clock, facts.kubectl)
    except UsageError as error:
        todo = "mend the file, or name another one with --kubeconfig FILE"
        yield problem("kubeconfig", " ".join(str(error).split()), todo)


def _cluster(ctx: click.Context, paths: Sequence[Path], clock: Clock, kubectl: str) -> Iterator[CheckResult]:
    import asyncio

    from strato.cli.diagnosis.ask import cluster_facts
    from strato.cli.diagnosis.cluster import findings
    from strato.cli.diagnosis.findings import warning

    for path in paths:
        if path.exists() and path.stat().st_mode & 0o077:
            what = f"{path}: others may read it, and with it act as you"
            yield warning("kubeconfig", what, f"chmod 600 {path}")
    cluster = connect(ctx)

    async def ask() -> list[CheckResult]:
        try:
            return list(findings(await cluster_facts(cluster, clock, named_by=named_by(ctx), kubectl=kubectl)))
        finally:
            await cluster.close()

    yield from asyncio.run(ask())


def _salvage(home: Home, journal: Path) -> None:
    from strato.cli.diagnosis.files import check_journal
    from strato.server.journal.files import locked
    from strato.server.journal.salvage import salvage

    pid = home.running_pid()
    if pid is not None:
        raise UsageError(f"the cluster of {home.path} runs (process {pid}); stop it with '{home.command('down')}'")
    if not any(journal.parent.glob(f"{journal.name}*")):
        raise UsageError(f"there is no journal in {journal.parent}; name it with --data-dir")
    with home.held("doctor --salvage"), locked(journal):
        try:
            count, revision = check_journal(journal)
        except StratoError as error:
            click.echo(str(error))
        else:
            click.echo(f"nothing is damaged: {count} objects, revision {revision}; nothing was done")
            return
        salvaged, kept_path = salvage(journal)
    click.echo(f"kept {len(salvaged.objects)} objects in a new journal; the damaged files are in {kept_path}")
    if not salvaged.lost:
        click.echo("nothing is lost")
        return
    click.echo(f"lost ({len(salvaged.lost)}):")
    for line in salvaged.lost:
        click.echo(f"  {line}")
