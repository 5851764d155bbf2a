"""``strato doctor``: check the files of the embedded cluster, and salvage a damaged journal."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from strato.cli.connect import home_of, with_cluster
from strato.cli.home import Home
from strato.errors import StratoError, UsageError
from strato.units import human_bytes

_SECONDS_PER_DAY = 86400
_WARN_DAYS = 30
_LITTLE_ROOM_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    problem: str = ""
    """What is wrong and what to do; empty when nothing is."""


class Unsound(StratoError):
    """Something is wrong; it has been printed."""


@click.command()
@click.option("--salvage", is_flag=True, help="Keep what is readable of a damaged journal and list what is not.")
@click.option(
    "--data-dir", default=None, type=click.Path(path_type=Path), help="Where the journal is, instead of HOME/data."
)
@click.pass_context
def doctor(ctx: click.Context, salvage: bool, data_dir: Path | None) -> None:
    """Check the embedded cluster: journal, keys, certificates, permissions, room. Changes nothing without --salvage."""
    from strato.cli.apiserver import JOURNAL

    home = home_of(ctx)
    journal = (data_dir or home.data) / JOURNAL
    if salvage:
        _salvage(home, journal)
        return
    if not home.path.exists():
        raise UsageError(f"there is no cluster in {home.path}; name one with --home")
    problems = 0
    for finding in _findings(ctx, home, journal):
        problems += bool(finding.problem)
        click.echo(f"{'PROBLEM' if finding.problem else 'ok':<8} {finding.what}")
        if finding.problem:
            click.echo(f"         {finding.problem}")
    if problems:
        raise Unsound(f"{problems} problem{'s' if problems != 1 else ''} found in {home.path}")


def _findings(ctx: click.Context, home: Home, journal: Path) -> Iterator[Finding]:
    yield _process(ctx, home)
    yield _journal(home, journal)
    yield from _permissions(home, journal)
    yield from _certificates(home)
    yield _room(journal.parent if journal.parent.exists() else home.path)


def _process(ctx: click.Context, home: Home) -> Finding:
    pid = home.running_pid()
    if pid is None:
        return Finding("no process runs")
    if not home.ready():
        return Finding(f"process {pid}", f"it is not ready: see {home.log}")
    ctx.find_root().obj["kubeconfig"] = str(home.kubeconfig)
    try:
        with_cluster(ctx, lambda cluster: cluster.raw("GET", "/readyz"))
    except StratoError as error:
        return Finding(f"process {pid}", f"it does not answer as ready: {' '.join(str(error).split())}")
    return Finding(f"process {pid} serves at {home.ready()['address']}")


def _journal(home: Home, journal: Path) -> Finding:
    if home.running_pid() is not None:
        return Finding(f"{journal}: in use; it was checked when the cluster started")
    if not any(journal.parent.glob(f"{journal.name}*")):
        return Finding(f"{journal}: none yet")
    try:
        count, revision = check_journal(journal)
    except StratoError as error:
        return Finding(str(journal), str(error))
    return Finding(f"{journal}: {count} objects, revision {revision}, every checksum matches")


def check_journal(journal: Path) -> tuple[int, int]:
    """Check a journal as a start would, on a copy; return how many objects it holds and its newest revision.

    Raises:
        StratoError: It would be refused.
    """
    from strato.server.journal.file import JournalFile
    from strato.server.journal.salvage import journal_files

    with tempfile.TemporaryDirectory(dir=journal.parent, prefix=".strato-check-") as scratch:
        for file in journal_files(journal):
            shutil.copyfile(file, Path(scratch) / file.name)
        try:
            opened = JournalFile(Path(scratch) / journal.name)
            count = sum(1 for _ in opened.read())
            revision = opened.last_revision
            opened.close()
        except StratoError as error:
            raise StratoError(str(error).replace(scratch, str(journal.parent))) from error
        return count, revision


def _permissions(home: Home, journal: Path) -> Iterator[Finding]:
    secrets = [home.tokens, home.kubeconfig, *sorted(home.pki.glob("*.key")), *sorted(home.path.glob("kubeconfig.*"))]
    secrets += [path for path in sorted(journal.parent.glob(f"{journal.name}*")) if path.is_file()]
    open_ones = [path for path in secrets if path.exists() and path.stat().st_mode & 0o077]
    mode = home.path.stat().st_mode & 0o777
    if mode & 0o077:
        yield Finding(str(home.path), f"others may enter it (mode {mode:04o}): chmod 700 {home.path}")
    for path in open_ones:
        yield Finding(str(path), f"others may read it (mode {path.stat().st_mode & 0o777:04o}): chmod 600 {path}")
    if not open_ones and not mode & 0o077:
        yield Finding("keys, tokens and journal are their owner's alone")


def _certificates(home: Home) -> Iterator[Finding]:
    from cryptography import x509

    from strato.clock import SystemClock, format_time

    now = SystemClock().now()
    for path in sorted(home.pki.glob("*.crt")):
        try:
            ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
        except (OSError, ValueError) as error:
            yield Finding(str(path), f"it cannot be read ({error}): bring it back with 'strato restore'")
            continue
        left = (ends - now) / _SECONDS_PER_DAY
        if left < _WARN_DAYS:
            yield Finding(str(path), f"it ends {format_time(ends)}: restart the cluster, which renews it")
        else:
            yield Finding(f"{path}: good for {left:.0f} days")


def _room(directory: Path) -> Finding:
    free = shutil.disk_usage(directory).free
    if free < _LITTLE_ROOM_BYTES:
        return Finding(f"{directory}: {human_bytes(free)} free", "free some room: a full disk stops writes")
    return Finding(f"{directory}: {human_bytes(free)} free")


def _salvage(home: Home, journal: Path) -> None:
    from strato.server.journal.files import locked
    from strato.server.journal.salvage import salvage

    pid = home.running_pid()
    if pid is not None:
        raise UsageError(f"the cluster of {home.path} runs (process {pid}); stop it with 'strato down'")
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
