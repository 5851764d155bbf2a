"""Start a cluster in the background; of several commands that want it at the same time, one starts it."""

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
"""Bounds a start that hangs; one that fails ends by itself. The machine's first start compiles kernels for minutes."""
_STOP_SECONDS = 60.0
"""How long a cluster that was still starting may take to end before it is killed."""
_ANNOUNCE_SECONDS = 10.0
_WAIT_WORDS_SECONDS = 1.0
_KERNELS = " strato.scheduler.placement.kernelcache: "
"""The logger's name in a log line about compilation; the text behind it is repeated to the user."""
_ROOM_BYTES = 64 << 10
"""A disk with less free space counts as full: a journal cannot even be created on it."""


class StartFailed(StratoError):
    """The background process ended or did not become ready; carries the end of its log."""


def own_home(options: EmbeddedOptions, interruption: Interruption, *, foreground: bool) -> HomeLock | None:
    """Return the lock of the home; None, once it is ready, if a cluster with the same options has the lock.

    Raises:
        UsageError: A cluster with other options runs, or another command works on the home.
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
    home.clear_run_files()  # left by a cluster that was killed
    return lock


def _is_the_same(options: EmbeddedOptions, owner: Owner, *, foreground: bool) -> bool:
    """Whether the owner is a cluster in the background with the same options; raise if its options differ."""
    if owner.activity != "up" or foreground:
        return False
    wanted = msgspec.json.decode(msgspec.json.encode(options))  # the form in which `HomeLock.note` stored the owner's
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
    """Run this command again with ``--foreground``, detached; wait until it serves and return its ready file."""
    rotate(home.log)
    # -P: Python must not import modules from the user's current directory
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
    """Prints the lines of the log about kernels that are compiled, so that a slow first start does not look hung."""

    def __init__(self, home: Home) -> None:
        self._log = home.log
        self._position = home.log.stat().st_size

    def report(self) -> bool:
        """Print such lines added since the last call; return whether there were any."""
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
    """End a start that is under way. This process still holds the home's lock, which frees when it exits."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    clear_machine(home, home.read_stop())
    home.clear_run_files()


def _failure(home: Home, code: int, data_dir: Path) -> StratoError:
    """Return the error that tells why the process, which should have served, has ended."""
    if code == 0:
        return StartFailed("the cluster was stopped while it started, by 'strato down' or a signal")
    if code < 0:
        clear_machine(home, home.read_stop())
    home.clear_run_files()
    log = home.log.read_text(errors="replace")
    reported = re.search(r"^error: (.*)", log, re.MULTILINE | re.DOTALL) if "Traceback" not in log else None
    if code == UsageError.exit_code and reported:  # its options are wrong, not its environment
        return UsageError(reported[1].strip())
    how = f" (ended by {signal.Signals(-code).name})" if code < 0 else ""
    # the log before the error only lists the steps of the start
    why = textwrap.indent(reported[0].strip(), "  ") if reported else _log_tail(home)
    return StartFailed(f"the cluster did not start{how}:\n{why}{full_disks(home.path, data_dir)}")


def _log_tail(home: Home, lines: int = 15) -> str:
    text = home.log.read_text(errors="replace").strip().splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in text) or "  (it printed nothing)"


def full_disks(*places: Path) -> str:
    """Return a line for each path on a full disk: a full disk may have kept the reason out of the log."""
    full = [path for path in places if path.exists() and shutil.disk_usage(path).free < _ROOM_BYTES]
    return "".join(f"\n  {path}: no space left on this disk" for path in full)


def print_ready(home: Home, ready: dict[str, Any]) -> None:
    """Print the cluster's address, the node's warnings (such as missing isolation), and how to talk to it."""
    click.echo(f"cluster is up at {ready['address']}")
    for warning in (ready["node"] or {}).get("warnings", ()):
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"  export KUBECONFIG={home.kubeconfig}    # or use 'strato kubectl …'")
