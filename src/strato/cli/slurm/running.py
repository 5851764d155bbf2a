"""srun and salloc: create a job as ``strato submit`` does, and wait for it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

import click

from strato.api import catalog
from strato.cli.commands import issue_command
from strato.cli.connect import with_cluster
from strato.cli.job.wait import FINISHED
from strato.cli.slurm.reading import read_jobs
from strato.cli.submit import submit
from strato.client.cluster import Cluster
from strato.clock import SystemClock
from strato.errors import StateError, UsageError
from strato.interop.slurm.jobs import JobView

_PREFIX = re.compile(rb"^\[.*?-(\d+)\] ", re.DOTALL)
_LOOK_SECONDS = 0.5
_OURS = {"help_option_names": ["--help"], "ignore_unknown_options": True, "allow_interspersed_args": False}


_OWN = (click.Option(("-l", "--label"), is_flag=True), click.Option(("--pty",), is_flag=True))
"""Flags of srun that sbatch does not have."""


def _split(words: Sequence[str]) -> tuple[list[str], list[str], set[str]]:
    """Split the arguments into options of sbatch, a command with its arguments, and srun's own flags.

    Raises:
        UsageError: sbatch has no such option.
    """
    command_of = click.Command("srun", params=[*submit.params, *_OWN])
    command_of.allow_interspersed_args = False
    parser = command_of.make_parser(click.Context(command_of))
    try:
        found, _, _ = parser.parse_args(list(words))
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error
    script, more = found.get("script"), found.get("args")  # click represents a missing value by a sentinel
    command = [script, *(more if isinstance(more, tuple) else ())] if isinstance(script, str) else []
    options = list(words[: len(words) - len(command)]) if command else list(words)
    own = {flag for option in _OWN for flag in option.opts if found.get(option.name or "") is True}
    return [word for word in options if word != "--" and word not in own], command, {*own}


def _submitted(ctx: click.Context, options: Sequence[str], command: Sequence[str]) -> tuple[str, str]:
    """Create the job; return its name and namespace."""
    names: list[str] = []
    arguments = [*options, "--quiet", "--wrap", shlex.join(command)]
    with submit.make_context("submit", list(arguments), parent=ctx) as inner:
        inner.meta["strato.submit.created"] = names.append
        submit.invoke(inner)
        namespace = str(inner.params["namespace"])
    return names[0], namespace


@click.command(context_settings=_OURS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--label] [sbatch's options] COMMAND...")
@click.pass_context
def srun(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run COMMAND in a job of its own, print what it prints, and end with its exit status.

    Without --nodes each task of --ntasks is a pod; --label puts the number of its pod before each line.
    """
    options, command, own = _split(words)
    label = "--label" in own
    if "--pty" in own:
        raise UsageError("--pty: has no counterpart; 'strato job run' starts a job, 'strato shell job/NAME' enters it")
    if not command:
        raise UsageError("no command: write for example srun -n 2 hostname")
    if not _given(options, "-N", "--nodes"):
        options = [word.replace("--ntasks=", "--nodes=") if word.startswith("--ntasks=") else word for word in options]
        options = ["--nodes" if word in ("-n", "--ntasks") else re.sub(r"^-n(?=\d)", "-N", word) for word in options]
    name, namespace = _submitted(ctx, ["--job-name", os.path.basename(command[0]), *options], command)

    def write(lines: bytes) -> None:
        for line in lines.splitlines(keepends=True):
            found = _PREFIX.match(line)
            number = found[1].decode() + ": " if found and label else ""
            sys.stdout.buffer.write(number.encode() + line[found.end() if found else 0 :])
        sys.stdout.buffer.flush()

    async def work(cluster: Cluster) -> JobView:
        from strato.cli.job.logs import print_logs, print_reason

        query = {"follow": "true"}
        await print_logs(cluster, SystemClock(), namespace, name, task="", all_tasks=True, query=query, write=write)
        views = [view for view in await read_jobs(cluster, namespace) if view.name == name]
        if views and views[0].state != "COMPLETED":
            await print_reason(cluster, namespace, name)
        if not views:
            raise StateError(f"job {name} was deleted")
        return views[0]

    try:
        ended = with_cluster(ctx, work)
    except KeyboardInterrupt:
        _end(ctx, name, namespace)
        raise
    ctx.exit(_status(ended))


def _given(options: Sequence[str], short: str, long: str) -> bool:
    return any(word == long or word.startswith((f"{long}=", short)) for word in options)


def _status(view: JobView) -> int:
    code, _, signal = view.fields["exitcode"].partition(":")
    status = int(code) or (128 + int(signal) if int(signal) else 0)
    return status or (0 if view.state == "COMPLETED" else 1)


@click.command(context_settings=_OURS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[sbatch's options] [COMMAND...]")
@click.pass_context
def salloc(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Hold resources while COMMAND (your shell without one) runs on this machine.

    It finds SLURM_JOB_ID in its environment; 'strato exec' and 'strato shell' enter the pods.
    """
    options, command, _ = _split(words)
    name, namespace = _submitted(ctx, ["--job-name", "interactive", *options], ["sleep", "2147483647"])
    click.echo(f"salloc: Pending job allocation {name}", err=True)
    try:
        nodes = with_cluster(ctx, lambda cluster: _until_running(cluster, namespace, name))
        click.echo(f"salloc: Granted job allocation {name}", err=True)
        variables = {"SLURM_JOB_ID": name, "SLURM_JOBID": name, "SLURM_NODELIST": nodes, "SLURM_JOB_NODELIST": nodes}
        program = command or [os.environ.get("SHELL", "/bin/sh")]
        try:
            status = subprocess.run(program, env={**os.environ, **variables}, check=False).returncode
        except OSError as error:
            raise UsageError(f"{program[0]} cannot be run: {error.strerror}") from error
    finally:
        click.echo(f"salloc: Relinquishing job allocation {name}", err=True)
        _end(ctx, name, namespace)
    ctx.exit(status if status >= 0 else 128 - status)


async def _until_running(cluster: Cluster, namespace: str, name: str) -> str:
    clock = SystemClock()
    while True:
        job = await cluster.get(catalog.VCJOB, name, namespace)
        status = job.get("status") or {}
        phase = (status.get("state") or {}).get("phase", "")
        if phase in FINISHED:
            raise StateError(f"job {name} is {phase}; 'strato explain job/{name}' says why")
        wanted = (job.get("spec") or {}).get("minAvailable", 1)
        if phase == "Running" and status.get("running", 0) >= wanted:
            return next(one for one in await read_jobs(cluster, namespace) if one.name == name).fields["nodelist"]
        await clock.sleep(_LOOK_SECONDS)


def _end(ctx: click.Context, name: str, namespace: str) -> None:
    async def work(cluster: Cluster) -> None:
        job = await cluster.get(catalog.VCJOB, name, namespace)
        target = {**job, "apiVersion": catalog.VCJOB.api_version, "kind": catalog.VCJOB.name}
        await issue_command(cluster, target, "TerminateJob", namespace=namespace)

    with_cluster(ctx, work)
