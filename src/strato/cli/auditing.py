"""Options of the audit log, named as kube-apiserver's are."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from strato.cli.optiongroups import option_group
from strato.errors import UsageError


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests the API server records, and in which file."""

    policy_file: str = ""
    """Empty records nothing."""
    log_path: str = ""
    """``-`` is standard output."""
    max_age_days: int = 0
    max_backups: int = 0
    max_megabytes: int = 0


def _audit(
    *,
    audit_policy_file: Path | None,
    audit_log_path: str,
    audit_log_maxage: int,
    audit_log_maxbackup: int,
    audit_log_maxsize: int,
) -> AuditOptions:
    if (audit_policy_file is None) is not (audit_log_path == ""):
        raise UsageError(
            "--audit-policy-file and --audit-log-path go together: one says what is recorded, the other one where"
        )
    if audit_policy_file is not None:
        from strato.server.audit.policy import load

        load(audit_policy_file.resolve())  # a bad policy is reported before anything starts
    return AuditOptions(
        policy_file=str(audit_policy_file.resolve()) if audit_policy_file is not None else "",
        log_path=audit_log_path if audit_log_path in ("", "-") else str(Path(audit_log_path).resolve()),
        max_age_days=audit_log_maxage,
        max_backups=audit_log_maxbackup,
        max_megabytes=audit_log_maxsize,
    )


_NUMBER = click.IntRange(0)
_OPTIONS = (
    click.option(
        "--audit-policy-file",
        type=click.Path(path_type=Path),
        default=None,
        metavar="FILE",
        help="Record requests by this audit.k8s.io/v1 Policy.",
    ),
    click.option("--audit-log-path", default="", metavar="FILE", help="Where to; - is standard output."),
    click.option("--audit-log-maxage", default=0, type=_NUMBER, help="Days rotated files are kept; 0 is for ever."),
    click.option("--audit-log-maxbackup", default=0, type=_NUMBER, help="Rotated files that are kept; 0 is all."),
    click.option("--audit-log-maxsize", default=0, type=_NUMBER, help="Megabytes before a rotation; 0 is 100."),
)
audit_options = option_group("audit", _audit, _OPTIONS)
"""Adds the options to a command, which takes them as ``audit``."""
