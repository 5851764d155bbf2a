"""``strato backup``: write one file with all that the embedded cluster needs to come back."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.connect import home_of, with_cluster
from strato.cli.home import Home
from strato.cli.inputs import FOLDER
from strato.cli.outputs import problem_with
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.client.cluster import Cluster
    from strato.server.journal.backup import BackupManifest


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--data-dir",
    default=None,
    type=FOLDER,
    help="The journal of a stopped cluster, if elsewhere.",
)
@click.option("--force", is_flag=True, help="Write over FILE.")
@click.pass_context
def backup(ctx: click.Context, file: Path, data_dir: Path | None, force: bool) -> None:
    """Write a backup of the embedded cluster to FILE (- is standard output), running or stopped, and check it.

    It holds the journal, the keys and certificates of the cluster and the tokens of its users: keep it as safe as
    those. Keys of --encryption-key-file are not in it; what they encrypt stays encrypted.
    """
    home = home_of(ctx)
    if str(file) != "-":
        if file.is_file() and not force:
            raise UsageError(f"{file} exists; name another file, or give --force")
        problem = _made(file.parent) or problem_with(file)
        if problem:
            raise UsageError(f"{file} cannot be written: {problem}")
        _write(ctx, home, data_dir or home.data, file, str(file))
        return
    with tempfile.TemporaryDirectory(prefix="strato-backup-") as folder:
        draft = Path(folder) / "backup.tar"
        _write(ctx, home, data_dir or home.data, draft, "standard output")
        with draft.open("rb") as written:
            shutil.copyfileobj(written, sys.stdout.buffer)
        sys.stdout.flush()


def _made(folder: Path) -> str:
    """Create a directory; return the reason if that fails, else ""."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _write(ctx: click.Context, home: Home, data: Path, file: Path, name: str) -> None:
    if home.running_pid() is not None:
        _ask_the_server(ctx, home, file)
    else:
        _of_a_stopped_cluster(home, data, file)
    manifest = _checked(file)
    is_aside = name != str(file)
    count = len(manifest.files) - 1
    click.echo(f"{name}: revision {manifest.revision}, {count} files beside the journal, checked", err=is_aside)
    if manifest.encryption_keys:
        keys = ", ".join(manifest.encryption_keys)
        click.echo(f"  to restore it you need the key {keys}, which is not in it", err=is_aside)


def _ask_the_server(ctx: click.Context, home: Home, file: Path) -> None:
    import msgspec

    from strato.server.backups import PATH

    async def ask(cluster: Cluster) -> bytes:
        return await cluster.raw("POST", PATH)

    ctx.find_root().obj["kubeconfig"] = str(home.kubeconfig)
    written = Path(msgspec.json.decode(with_cluster(ctx, ask))["path"])
    draft = file.with_name(f".{file.name}.new")
    try:
        shutil.move(written, draft)
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _of_a_stopped_cluster(home: Home, data: Path, file: Path) -> None:
    from strato.cli.apiserver import JOURNAL
    from strato.clock import SystemClock, format_time
    from strato.server.encryption import key_id_of
    from strato.server.journal.backup import write_backup
    from strato.server.journal.file import JournalFile

    if not (data / JOURNAL).exists():
        raise UsageError(f"there is no journal in {data}; name the cluster with --home, or its journal with --data-dir")
    journal = JournalFile(data / JOURNAL)
    copy = data / f"{JOURNAL}.copy"
    try:
        keys = {key_id_of(stored) for _, _, _, stored in journal.read()} - {None}
        marked = journal.begin_copy()
        journal.copy_to(copy)
        write_backup(
            file,
            copy,
            marked,
            home.backed_up,
            created=format_time(SystemClock().now()),
            encryption_keys=sorted(key for key in keys if key is not None),
        )
    finally:
        journal.close()
        copy.unlink(missing_ok=True)


def _checked(file: Path) -> BackupManifest:
    from strato.server.journal.backup import opened_backup

    with (
        tempfile.TemporaryDirectory(dir=file.parent, prefix=".strato-check-") as scratch,
        opened_backup(file, Path(scratch)) as opened,
    ):
        for _ in opened.objects:
            pass
        return opened.manifest
