"""Check the directory of the embedded cluster: process, journal, permissions, certificates."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from strato.cli.diagnosis.cluster import SECONDS_PER_DAY, WARN_DAYS
from strato.cli.diagnosis.findings import CheckResult, problem, warning
from strato.cli.home import Home
from strato.clock import Clock, format_time
from strato.errors import StratoError


def findings(home: Home, journal: Path, clock: Clock) -> Iterator[CheckResult]:
    """Check the directory and return all findings."""
    yield _process(home)
    yield from _node(home)
    yield _journal(home, journal)
    yield from _permissions(home, journal)
    yield from _certificates(home, clock.now())


def _again(home: Home) -> str:
    return f"{home.command('down')}; {home.command('up')}"


def _process(home: Home) -> CheckResult:
    pid = home.running_pid()
    if pid is None:
        return CheckResult("process", f"no cluster runs in {home.path}; '{home.command('up')}' starts one")
    if not home.ready():
        what = f"process {pid} is not ready; the very first start compiles for up to a minute"
        return problem("process", what, f"tail -f {home.log}")
    return CheckResult("process", f"process {pid} serves at {home.ready()['address']}")


def _node(home: Home) -> Iterator[CheckResult]:
    """Yield the node's warnings from the running cluster's ready file: its process may have other rights than ours."""
    if home.running_pid() is not None:
        for text in (home.ready().get("node") or {}).get("warnings", ()):
            yield warning("node", str(text), f"what it says, then: {_again(home)}")


def _journal(home: Home, journal: Path) -> CheckResult:
    if home.running_pid() is not None:
        return CheckResult("journal", f"{journal}: in use; it was checked when the cluster started")
    if not any(journal.parent.glob(f"{journal.name}*")):
        return CheckResult("journal", f"{journal}: none yet")
    try:
        count, revision = check_journal(journal)
    except StratoError as error:
        what = str(error) if str(journal) in str(error) else f"{journal}: {error}"
        return problem("journal", what, "strato restore FILE, or: strato doctor --salvage")
    return CheckResult("journal", f"{journal}: {count} objects, revision {revision}, every checksum matches")


def check_journal(journal: Path) -> tuple[int, int]:
    """Check a journal as a start would, on a copy; return how many objects it holds and its newest revision.

    Raises:
        StratoError: A start would refuse the journal.
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


def _permissions(home: Home, journal: Path) -> Iterator[CheckResult]:
    check = "permissions"
    secrets = [home.tokens, home.kubeconfig, *sorted(home.pki.glob("*.key")), *sorted(home.path.glob("kubeconfig.*"))]
    secrets += [path for path in sorted(journal.parent.glob(f"{journal.name}*")) if path.is_file()]
    open_ones = [path for path in secrets if path.exists() and path.stat().st_mode & 0o077]
    mode = home.path.stat().st_mode & 0o777
    if mode & 0o077:
        yield problem(check, f"{home.path}: others may enter it (mode {mode:04o})", f"chmod 700 {home.path}")
    for path in open_ones:
        mode_of_it = path.stat().st_mode & 0o777
        yield problem(check, f"{path}: others may read it (mode {mode_of_it:04o})", f"chmod 600 {path}")
    if not open_ones and not mode & 0o077:
        yield CheckResult(check, "keys, tokens and journal are their owner's alone")


def _certificates(home: Home, now: float) -> Iterator[CheckResult]:
    from strato.cli.diagnosis.ask import ends_of

    check = "certificates"
    for path in sorted(home.pki.glob("*.crt")):
        ends = ends_of(path.read_bytes())
        if ends is None:
            if path.name == "ca.crt":
                todo = f"bring it back: strato restore FILE; or make a new one: rm {path} {path.with_suffix('.key')}"
                yield problem(check, f"{path}: it is no certificate", todo)
            else:
                yield problem(check, f"{path}: it is no certificate; a start makes a new one", _again(home))
        elif ends - now < WARN_DAYS * SECONDS_PER_DAY:
            yield problem(check, f"{path}: it ends {format_time(ends)}; a start renews it", _again(home))
        else:
            yield CheckResult(check, f"{path}: good for {(ends - now) / SECONDS_PER_DAY:.0f} days")
