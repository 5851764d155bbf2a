"""``strato exec`` and ``strato shell``: run a command in a container of a pod or of a job."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from strato.cli.connect import with_cluster
from strato.cli.podtargets import container_of, find_pod
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.client.http import HttpCluster

_SHELL = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash || exec sh")


@click.command("exec", context_settings={"ignore_unknown_options": False})
@click.argument("target")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-c", "--container", default="", help="Container, when the pod has several; the first one without it.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal.")
@click.pass_context
def exec_(
    ctx: click.Context, target: str, command: tuple[str, ...], namespace: str, container: str, stdin: bool, tty: bool
) -> None:
    """Run COMMAND in a container of TARGET, a pod's name or job/NAME, and exit with its exit code.

    Write -- before a COMMAND that has options. Of a job it is the first pod that runs.
    """
    work = partial(_run, namespace=namespace, target=target, asked=container, command=command, stdin=stdin, tty=tty)
    ctx.exit(with_cluster(ctx, work))


@click.command()
@click.argument("target", metavar="JOB")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-c", "--container", default="", help="Container, when the pod has several; the first one without it.")
@click.pass_context
def shell(ctx: click.Context, target: str, namespace: str, container: str) -> None:
    """Open a shell in the first pod of JOB that runs: bash where there is one, else sh; pod/NAME is a pod's.

    A job that has ended has no pod left to enter: 'strato job logs' shows what it printed.
    """
    whole = target if "/" in target else f"job/{target}"
    work = partial(_run, namespace=namespace, target=whole, asked=container, command=_SHELL, stdin=True, tty=True)
    ctx.exit(with_cluster(ctx, work))


async def _run(
    cluster: HttpCluster, *, namespace: str, target: str, asked: str, command: Sequence[str], stdin: bool, tty: bool
) -> int:
    """Run a command with this terminal's streams and return its exit code."""
    from strato.cli import terminal
    from strato.client.remotecommand import Streams, run_command

    pod = await find_pod(cluster, namespace, target)
    phase = (pod.get("status") or {}).get("phase", "")
    if phase in ("Succeeded", "Failed"):
        raise UsageError(f"pod {pod['metadata']['name']} has ended ({phase}): nothing can be run in it any more")
    if tty and not terminal.is_terminal():
        click.echo("no terminal: standard input is none; going on without", err=True)
        tty = False
    streams = Streams(
        stdin=terminal.typed() if stdin else None,
        stdout=partial(terminal.write, 1),
        stderr=partial(terminal.write, 2),
        tty=tty,
        sizes=terminal.sizes() if tty else None,
    )
    with terminal.raw() if tty and stdin else contextlib.nullcontext():
        name, container = pod["metadata"]["name"], container_of(pod, asked)
        return await run_command(cluster, namespace, name, container, command, streams)
