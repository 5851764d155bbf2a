"""How a cluster is started in the background, by one of several who may want to at the same time."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from strato.cli.embedded.options import EmbeddedOptions, differences
from strato.cli.embedded.stopping import clear_machine
from strato.cli.home import Home
from strato.cli.homelock import POLL_SECONDS, HomeLock, Interruption, Owner, is_ending
from strato.cli.logrotation import rotate
from strato.errors import StratoError, UsageError

START_TIMEOUT_SECONDS = 600.0
"""A start that fails ends by itself; this bounds one that hangs. The first ever compiles, maybe for minutes."""
_STOP_SECONDS = 60.0
"""What a cluster that was still starting takes to end; then it is killed."""
_ANNOUNCE_SECONDS = 10.0
_WAIT_WORDS_SECONDS = 1.0
_KERNELS = " strato.scheduler.placement.kernelcache: "
"""What stands in a line of the log before what is compiled."""
_ROOM_BYTES = 64 << 10
"""Less than this is a full disk: no journal begins in it."""


class StartFailed(StratoError):
    """The background process ended or did not become ready; carries the end of its log."""


def own_home(options: EmbeddedOptions, interruption: Interruption, *, foreground: bool) -> HomeLock | None:
    """Return the lock of the home; None when a cluster of the same options runs already, which is waited for.

    Raises:
        UsageError: One with other options runs, or another command works on the home.
    """
    home, began, is_reported = options.home, time.monotonic(), False
    while (lock := HomeLock.take(home.lock)) is None:
        owner = home.owner()
        if owner is not None and owner.pid:
            ends = owner.stops or is_ending(owner.pid)
            if not ends and _is_the_same(options, owner, foreground=foreground):
                if (ready := home.ready()).get("pid") == owner.pid:
                    click.echo(f"the cluster of {home.path} already runs (process {owner.pid})")
                    print_ready(home, ready)
                    return None
            elif not ends:
                raise home.in_use(owner)
            if not is_reported and time.monotonic() - began > _WAIT_WORDS_SECONDS:
                is_reported = True
                verb = "stops" if ends else "is still starting"
                click.echo(f"waiting: the cluster of {home.path} {verb} (process {owner.pid}) …", err=True)
        if interruption.signal:
            click.echo("interrupted; nothing was started", err=True)
            raise click.exceptions.Exit(interruption.exit_code)
        if time.monotonic() - began > START_TIMEOUT_SECONDS:
            raise StartFailed(f"process {owner.pid if owner else 0} has kept {home.path} for too long")
        time.sleep(POLL_SECONDS)
    lock.note("up", msgspec.to_builtins(options))
    home.clear_run_files()  # of one that was killed
    return lock


def _is_the_same(options: EmbeddedOptions, owner: Owner, *, foreground: bool) -> bool:
    """Whether the cluster that runs is the one that is wanted."""
    if owner.activity != "up" or foreground:
        return False
    wanted = msgspec.json.decode(msgspec.json.encode(options))  # as those of the other were noted
    differing = differences(owner.options, wanted)
    if differing:
        down = options.home.command("down")
        raise UsageError(
            f"the cluster of {options.home_path} already runs (process {owner.pid}) with other options "
            f"({'; '.join(differing)}); stop it with '{down}', or name another --home"
        )
    return True


def start_in_background(
    home: Home, lock: HomeLock, interruption: Interruption, arguments: list[str], data_dir: Path
) -> dict[str, Any]:
    """Run this same command with ``--foreground``, detached, wait until it serves and return what it says of itself."""
    rotate(home.log)
    # -P: what lies in the directory of the user is data, not modules
    command = [sys.executable, "-P", "-m", "strato.cli.main", *arguments]
    command += ["--foreground", "--lock-descriptor", str(lock.descriptor)]
    with home.log.open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock.descriptor,),
        )
    has_announced = False
    compiling = _Compiling(home)
    started = time.monotonic()
    while time.monotonic() - started < START_TIMEOUT_SECONDS:
        if (ready := home.ready()).get("pid") == process.pid:
            return ready
        if interruption.signal:
            _end(home, process)
            click.echo("interrupted: the start was stopped, nothing of it runs", err=True)
            raise click.exceptions.Exit(interruption.exit_code)
        if process.poll() is not None:
            raise _failure(home, process.returncode, data_dir)
        has_announced |= compiling.report()
        if not has_announced and time.monotonic() - started > _ANNOUNCE_SECONDS:
            has_announced = True
            click.echo(f"still starting; what it does is in {home.log} …", err=True)
        time.sleep(POLL_SECONDS)
    _end(home, process)
    raise StartFailed(f"the cluster was not ready after {START_TIMEOUT_SECONDS:g} s:\n{_log_tail(home)}")


class _Compiling:
    """Repeats to the user what a start says in its log of kernels that it compiles; the very first one takes long."""

    def __init__(self, home: Home) -> None:
        self._log = home.log
        self._position = home.log.stat().st_size

    def report(self) -> bool:
        """Print what is new; return whether there was anything."""
        with self._log.open("rb") as log:
            log.seek(self._position)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        found = [
            line.partition(_KERNELS)[2] for line in whole.decode(errors="replace").splitlines() if _KERNELS in line
        ]
        for line in found:
            click.echo(f"first start: {line} …", err=True)
        return bool(found)


def _end(home: Home, process: subprocess.Popen[bytes]) -> None:
    """End a start; the lock is still ours, and is let go with this process."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    clear_machine(home, home.read_stop())
    home.clear_run_files()


def _failure(home: Home, code: int, data_dir: Path) -> StratoError:
    """Return why the process that was to serve has ended."""
    if code == 0:
        return StartFailed("the cluster was stopped while it started, by 'strato down' or a signal")
    if code < 0:
        clear_machine(home, home.read_stop())
    home.clear_run_files()
    log = home.log.read_text(errors="replace")
    reported = re.search(r"^error: (.*)", log, re.MULTILINE | re.DOTALL) if "Traceback" not in log else None
    if code == UsageError.exit_code and reported:  # what it was given is at fault, not what it met
        return UsageError(reported[1].strip())
    how = f" (ended by {signal.Signals(-code).name})" if code < 0 else ""
    # what stands before the error are only the steps of the start
    why = textwrap.indent(reported[0].strip(), "  ") if reported else _log_tail(home)
    return StartFailed(f"the cluster did not start{how}:\n{why}{full_disks(home.path, data_dir)}")


def _log_tail(home: Home, lines: int = 15) -> str:
    text = home.log.read_text(errors="replace").strip().splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in text) or "  (it printed nothing)"


def full_disks(*places: Path) -> str:
    """Return a line for each place whose disk has no room left; the log may have had none to say so."""
    full = [path for path in places if path.exists() and shutil.disk_usage(path).free < _ROOM_BYTES]
    return "".join(f"\n  {path}: no space left on this disk" for path in full)


def print_ready(home: Home, ready: dict[str, Any]) -> None:
    """Say where a cluster serves, what is weaker than it could be, and how to talk to it."""
    click.echo(f"cluster is up at {ready['address']}")
    for warning in (ready["node"] or {}).get("warnings", ()):
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"  export KUBECONFIG={home.kubeconfig}    # or use 'strato kubectl …'")
