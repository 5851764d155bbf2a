"""``strato up`` and ``strato down``: start and stop the embedded cluster of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from strato.cli.auditing import AuditOptions, audit_options
from strato.cli.connect import home_of
from strato.cli.home import Home
from strato.cli.machine import machine_options
from strato.cli.quantities import QUANTITY
from strato.cli.storage import StorageOptions, storage_options
from strato.errors import StratoError, UsageError

START_TIMEOUT_SECONDS = 600.0
"""A start that fails ends by itself; this bounds one that hangs. The first ever compiles, maybe for minutes."""
STOP_TIMEOUT_SECONDS = 40.0
_POLL_SECONDS = 0.02
_ROOM_BYTES = 64 << 10
"""Less than this is a full disk: no journal begins in it."""


class StartFailed(StratoError):
    """The background process ended or did not become ready; carries the end of its log."""


@click.command()
@click.option("--hollow-nodes", default=0, show_default=True, type=click.IntRange(0), help="Nodes that only pretend.")
@click.option("--cpu", default="32", type=QUANTITY, show_default=True, help="Cpus of each hollow node.")
@click.option("--memory", default="256Gi", type=QUANTITY, show_default=True, help="Memory of each hollow node.")
@click.option("--sandbox/--no-sandbox", default=True, show_default=True, help="This machine as a node.")
@machine_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=6443, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 picks a free one."
)
@click.option(
    "--data-dir", default=None, type=click.Path(path_type=Path), help="The API's journal, instead of HOME/data."
)
@click.option("--in-memory", is_flag=True, help="Keep nothing on disk.")
@storage_options
@audit_options
@click.option("--config", type=click.Path(path_type=Path), default=None, help="The scheduler's configuration file.")
@click.option(
    "--processes",
    type=click.IntRange(1, 2),
    default=None,
    help="1: all in one process; 2: the API server in one of its own. By default as many as there are cpus for.",
)
@click.option("--foreground", is_flag=True, help="Stay in the terminal until interrupted.")
@click.pass_context
def up(
    ctx: click.Context,
    hollow_nodes: int,
    cpu: str,
    memory: str,
    sandbox: bool,
    cpus: str,
    node_memory: str,
    strict_images: bool,
    pod_network: str,
    pod_users: str,
    gpus: str,
    host: str,
    port: int,
    data_dir: Path | None,
    in_memory: bool,
    storage: StorageOptions,
    audit: AuditOptions,
    config: Path | None,
    processes: int | None,
    foreground: bool,
) -> None:
    """Start the embedded cluster: a Kubernetes API, controllers, the scheduler and this machine as a node."""
    home = home_of(ctx)
    pid = home.running_pid()
    if pid is not None:
        raise UsageError(f"the cluster of {home.path} already runs (process {pid}); stop it with 'strato down'")
    if not sandbox and hollow_nodes == 0:
        raise UsageError("no nodes: with --no-sandbox give --hollow-nodes N")
    if foreground:
        from strato.cli.serving import collect_rarely

        collect_rarely()
        from strato.cli.embedded.options import EmbeddedOptions, default_processes
        from strato.cli.embedded.start import run_embedded

        options = EmbeddedOptions(
            home_path=str(home.path),
            hollow_nodes=hollow_nodes,
            hollow_cpu=cpu,
            hollow_memory=memory,
            sandbox=sandbox,
            sandbox_cpus=cpus,
            sandbox_memory=node_memory,
            strict_images=strict_images,
            pod_network=pod_network,
            pod_users=pod_users,
            gpus=gpus,
            host=host,
            port=port,
            data_dir=str(data_dir or home.data),
            in_memory=in_memory,
            storage=storage,
            audit=audit,
            scheduler_config=str(config or ""),
            processes=processes or default_processes(),
        )
        run_embedded(options)
        return
    ready = _start_in_background(home, sys.argv[1:], data_dir or home.data)
    click.echo(f"cluster is up at {ready['address']}")
    for warning in (ready["node"] or {}).get("warnings", ()):
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"  export KUBECONFIG={home.kubeconfig}    # or use 'strato kubectl …'")


def _start_in_background(home: Home, arguments: list[str], data_dir: Path) -> dict[str, Any]:
    """Run this same command with ``--foreground``, detached, wait until it serves and return what it says of itself."""
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.ready_file.unlink(missing_ok=True)
    # -P: what lies in the directory of the user is data, not modules
    command = [sys.executable, "-P", "-m", "strato.cli.main", *arguments, "--foreground"]
    with home.log.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    has_announced = False
    started = time.monotonic()
    while time.monotonic() < deadline:
        if ready := home.ready():
            return ready
        if process.poll() is not None:
            raise StartFailed(f"the cluster did not start:\n{_log_tail(home)}{full_disks(home.path, data_dir)}")
        if not has_announced and time.monotonic() - started > 3:
            has_announced = True
            click.echo("still starting; the very first start compiles the scheduler's kernels (up to 20 s) …", err=True)
        time.sleep(_POLL_SECONDS)
    os.killpg(process.pid, signal.SIGKILL)
    raise StartFailed(f"the cluster was not ready after {START_TIMEOUT_SECONDS:g} s:\n{_log_tail(home)}")


def _log_tail(home: Home, lines: int = 15) -> str:
    text = home.log.read_text(errors="replace").strip().splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in text) or "  (it printed nothing)"


def full_disks(*places: Path) -> str:
    """Return a line for each place whose disk has no room left; the log may have had none to say so."""
    full = [path for path in places if path.exists() and shutil.disk_usage(path).free < _ROOM_BYTES]
    return "".join(f"\n  {path}: no space left on this disk" for path in full)


def _stop_pods(home: Home) -> None:
    """Stop the containers, which outlive the process that started them."""
    if home.node.exists():
        from strato.node.sandbox.cleanup import teardown

        teardown(home.node, lambda text: click.echo(text, err=True))


@click.command()
@click.option("--purge", is_flag=True, help="Also delete everything it made: data, images, keys, kubeconfigs.")
@click.pass_context
def down(ctx: click.Context, purge: bool) -> None:
    """Stop the embedded cluster and the processes of its pods; what it stored stays for the next 'up'."""
    home = home_of(ctx)
    pid = home.running_pid()
    if pid is None:
        click.echo(f"no cluster runs in {home.path}")
        _stop_pods(home)  # of a cluster that was killed
    else:
        home.stop_signal(pid)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while home.running_pid() == pid:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                click.echo(f"process {pid} did not stop within {STOP_TIMEOUT_SECONDS:g} s and was killed", err=True)
                break
            time.sleep(_POLL_SECONDS)
        _stop_pods(home)
        click.echo("cluster is down")
    if purge:
        from strato.cli.apiserver import purge as delete

        delete(home)
        click.echo("its data is deleted, its keys and kubeconfigs too")
