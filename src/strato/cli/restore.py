"""``strato restore``: bring the embedded cluster back from a backup."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from strato.cli.connect import home_of
from strato.cli.home import Home
from strato.cli.inputs import FOLDER, INPUT_FILE, seekable
from strato.errors import UsageError


@click.command()
@click.argument("file", type=INPUT_FILE)
@click.option(
    "--data-dir",
    default=None,
    type=FOLDER,
    help="Where the journal goes, instead of HOME/data.",
)
@click.option("--force", is_flag=True, help="Replace the existing cluster; its journal is renamed and kept.")
@click.pass_context
def restore(ctx: click.Context, file: Path, data_dir: Path | None, force: bool) -> None:
    """Bring the embedded cluster back as it was when FILE (- is standard input) was written, keys and tokens included.

    Revisions go on far above all that were handed out since, so that every watch lists again.
    """
    from strato.cli.apiserver import JOURNAL
    from strato.server.auth.files import write_secret
    from strato.server.journal.backup import opened_backup
    from strato.server.journal.files import locked
    from strato.server.journal.rebuild import REVISION_STEP, write_journal

    home = home_of(ctx)
    journal = (data_dir or home.data) / JOURNAL
    _refuse_to_overwrite(home, journal, force)
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    journal.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        home.held("restore"),
        tempfile.TemporaryDirectory(dir=journal.parent, prefix=".strato-restore-") as scratch,
        seekable(file) as given,
        opened_backup(given, Path(scratch)) as opened,
        locked(journal),
    ):
        objects = list(opened.objects)  # reads and checks the whole backup before anything is replaced
        files = opened.files()
        revision = max(opened.manifest.revision, _newest_known(journal))
        kept_path = _move_aside(journal)
        for name, content in files.items():
            write_secret(home.path / name, content)
        count = write_journal(journal, objects, revision + REVISION_STEP)
    click.echo(f"restored {count} objects of revision {opened.manifest.revision}, written {opened.manifest.created}")
    if kept_path is not None:
        click.echo(f"  the journal that was there is kept in {kept_path}")
    if opened.manifest.encryption_keys:
        click.echo(f"  start with --encryption-key-file and key {', '.join(opened.manifest.encryption_keys)}")


def _refuse_to_overwrite(home: Home, journal: Path, force: bool) -> None:
    pid = home.running_pid()
    if pid is not None:
        raise UsageError(f"the cluster of {home.path} runs (process {pid}); stop it with '{home.command('down')}'")
    there = [str(path) for path in (journal, home.pki, home.tokens) if path.exists()]
    if there and not force:
        raise UsageError(
            f"a cluster is there already ({', '.join(there)}); --force replaces it, or name another --home"
        )


def _newest_known(journal: Path) -> int:
    """Return the newest revision that the journal in this place is known to have handed out."""
    from strato.server.journal.errors import JournalDamaged
    from strato.server.journal.mark import mark_path, read_mark

    try:
        marked = read_mark(mark_path(journal))
    except JournalDamaged:
        return 1
    return 1 if marked is None else marked.revision


def _move_aside(journal: Path) -> Path | None:
    from strato.server.journal.salvage import move_aside

    return move_aside(journal, "replaced")
