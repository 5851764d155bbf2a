"""Options of the journal: its encryption and its scheduled backups."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from strato.cli.optiongroups import option_group
from strato.cli.outputs import problem_with
from strato.errors import UsageError
from strato.units import duration_seconds


class StorageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Encryption and scheduled backups of the journal."""

    encryption_key_file: str = ""
    """File with the keys; empty encrypts nothing."""
    backup_dir: str = ""
    """Folder of scheduled backups; empty writes none."""
    backup_every_seconds: float = 3600.0
    backup_keep: int = 24
    """How many of the newest backups are kept."""


def _made(folder: Path) -> str:
    """Create a directory if needed and check that it is writable now: the first backup comes hours later."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        problem = problem_with(folder / "backup")
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise UsageError(f"--backup-dir {folder} cannot be written: {problem}")
    return str(folder.resolve())


def _interval(text: str) -> float:
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise UsageError(f"--backup-every: {error}") from error
    if seconds < 1:
        raise UsageError(f"--backup-every {text}: at least 1s")
    return seconds


def _storage(
    *, in_memory: bool, encryption_key_file: Path | None, backup_dir: Path | None, backup_every: str, backup_keep: int
) -> StorageOptions:
    if in_memory and (encryption_key_file or backup_dir):
        raise UsageError("--in-memory keeps nothing on disk: there is nothing to encrypt or to back up")
    return StorageOptions(
        encryption_key_file=str(encryption_key_file.resolve()) if encryption_key_file else "",
        backup_dir=_made(backup_dir) if backup_dir else "",
        backup_every_seconds=_interval(backup_every),
        backup_keep=backup_keep,
    )


_OPTIONS = (
    click.option(
        "--encryption-key-file",
        type=click.Path(path_type=Path),
        default=None,
        metavar="FILE",
        help="Encrypt Secrets in the journal: lines 'NAME: KEY', or an EncryptionConfiguration; the first key writes.",
    ),
    click.option(
        "--backup-dir",
        type=click.Path(path_type=Path),
        default=None,
        metavar="DIR",
        help="Write backups there, on schedule; 'strato backup' writes one at any time.",
    ),
    click.option("--backup-every", default="1h", show_default=True, metavar="DURATION", help="How often."),
    click.option("--backup-keep", default=24, show_default=True, type=click.IntRange(1), help="How many stay."),
)
storage_options = option_group("storage", _storage, _OPTIONS, looks_at=("in_memory",))
"""Adds the options to a command, which takes them as ``storage`` and must have an option ``in_memory``."""
