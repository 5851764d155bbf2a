"""End a cluster: ask its process, clear what pods left on the machine, and word the message."""

from __future__ import annotations

import signal
import time
from dataclasses import replace

import click

from strato.cli.home import Home, Stop
from strato.cli.homelock import POLL_SECONDS, HomeLock, end_owner

_STOP_SECONDS = 60.0
"""How long a cluster may take to end, beyond its pods' grace period, before it is killed."""


def clear_machine(home: Home, stop: Stop) -> int:
    """End containers that still run; remove networks, mounts, control groups; return how many containers it ended."""
    if not home.node.exists():
        return 0
    from strato.node.sandbox.cleanup import teardown

    return teardown(home.node, lambda text: click.echo(text, err=True), anew=stop.keep_pods)


def down_message(stop: Stop) -> str:
    """Say that a cluster is down, and what became of its pods."""
    if stop.keep_pods:
        return "cluster is down; the next 'strato up' starts its pods anew"
    pods = "1 pod was" if stop.ended == 1 else f"{stop.ended} pods were"
    return "cluster is down" + (f"; {pods} ended (Failed, reason Terminated)" if stop.ended else "")


def end_cluster(home: Home, stop: Stop) -> tuple[HomeLock | None, bool]:
    """Ask the cluster to end and wait until it has.

    Returns:
        The lock of the home, None when another command has started a cluster since; and whether there was one to end.

    Raises:
        UsageError: Another command works on the home.
    """
    signalled: set[int] = set()
    try:
        return _end_cluster(home, stop, signalled)
    except KeyboardInterrupt:
        if signalled:
            click.echo("interrupted; the cluster goes on stopping, and 'strato down' waits for it", err=True)
        else:
            home.stop_file.unlink(missing_ok=True)
            click.echo("interrupted; nothing was stopped", err=True)
        raise click.exceptions.Exit(128 + signal.SIGINT) from None


def _end_cluster(home: Home, stop: Stop, signalled: set[int]) -> tuple[HomeLock | None, bool]:
    """Do as `end_cluster`; add to ``signalled`` the pids that were sent SIGTERM."""
    deadline = time.monotonic() + _STOP_SECONDS + stop.grace_seconds
    starter = 0
    """Starter of the signalled cluster. It tells that cluster, whose pid changes while it starts, from a new one."""
    while (lock := HomeLock.take(home.lock)) is None:
        owner = home.owner()
        if owner is None or not owner.pid:
            time.sleep(POLL_SECONDS)
            continue
        if owner.serves and starter not in (0, owner.starter):
            return None, True
        if owner.serves and owner.pid not in signalled:
            home.write_stop(stop)
            if end_owner(home.lock, owner, signal.SIGTERM):
                signalled.add(owner.pid)
                if home.read_stop() == stop:  # otherwise the cluster has ended and has written its result there
                    home.write_stop(replace(stop, is_asked=True))
                starter = owner.starter
        elif not (owner.serves or owner.stops):
            raise home.in_use(owner)
        if signalled and time.monotonic() > deadline:
            deadline += _STOP_SECONDS
            if end_owner(home.lock, owner, signal.SIGKILL):
                click.echo(f"process {owner.pid} did not stop in time and was killed", err=True)
        time.sleep(POLL_SECONDS)
    return lock, bool(signalled)
