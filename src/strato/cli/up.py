"""``strato up`` and ``strato down``: start and stop the embedded cluster of this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from strato.cli.auditing import AuditOptions, audit_options
from strato.cli.connect import home_of
from strato.cli.hollowoptions import HollowOptions, hollow_options
from strato.cli.home import GRACE_SECONDS, MOST_NODES, Stop
from strato.cli.homelock import STOPPING, HomeLock, Interruption
from strato.cli.imageoptions import ImageOptions
from strato.cli.inputs import FOLDER
from strato.cli.machine import machine_options
from strato.cli.mailing import MailOptions, mail_options
from strato.cli.mesosoptions import MesosOptions, embedded_mesos_options
from strato.cli.recordoptions import RecordOptions, record_options
from strato.cli.storage import StorageOptions, storage_options
from strato.cli.training import TrainingOptions, training_options
from strato.errors import UsageError


@click.command()
@hollow_options
@click.option("--sandbox/--no-sandbox", default=True, show_default=True, help="This machine as a node.")
@click.option(
    "--sandbox-nodes",
    default=1,
    show_default=True,
    type=click.IntRange(1, MOST_NODES),
    help="So many nodes out of this machine, each with its share of cpus and memory.",
)
@click.option("--agent", is_flag=True, help="This machine's node has an agent: suppression, bursts, hot spots.")
@machine_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=6443, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 picks a free one."
)
@click.option(
    "--data-dir",
    default=None,
    type=FOLDER,
    help="The API's journal, instead of HOME/data.",
)
@click.option("--in-memory", is_flag=True, help="Keep nothing on disk.")
@storage_options
@audit_options
@mail_options
@training_options
@click.option("--config", type=click.Path(path_type=Path), default=None, help="The scheduler's configuration file.")
@click.option(
    "--shadow",
    type=click.Path(path_type=Path),
    default=None,
    help="A configuration that decides too, and of which nothing is applied; see strato shadow.",
)
@click.option(
    "--predict-starts",
    is_flag=True,
    help="Write to waiting pod groups when they are expected to start; see strato when.",
)
@record_options
@click.option(
    "--scheduler-sharding-mode",
    "shard_mode",
    type=click.Choice(["none", "hard", "soft"]),
    default="none",
    show_default=True,
    help="Share nodes out between schedulers volcano and agent-scheduler: never use the other's, or last.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 2),
    default=None,
    help="1: all in one process; 2: the API server in one of its own. By default as many as there are cpus for.",
)
@embedded_mesos_options
@click.option("--foreground", is_flag=True, help="Stay in the terminal until interrupted.")
@click.option("--lock-descriptor", type=int, default=None, hidden=True)
@click.pass_context
def up(
    ctx: click.Context,
    hollow: HollowOptions,
    sandbox: bool,
    sandbox_nodes: int,
    agent: bool,
    cpus: str,
    node_memory: str,
    cpu_overcommit_factor: float,
    images: ImageOptions,
    pod_network: str,
    pod_users: str,
    gpus: str,
    host: str,
    port: int,
    data_dir: Path | None,
    in_memory: bool,
    storage: StorageOptions,
    audit: AuditOptions,
    mail: MailOptions,
    training: TrainingOptions,
    config: Path | None,
    shadow: Path | None,
    predict_starts: bool,
    record: RecordOptions,
    shard_mode: str,
    processes: int | None,
    mesos: MesosOptions | None,
    foreground: bool,
    lock_descriptor: int | None,
) -> None:
    """Start the embedded cluster: a Kubernetes API, controllers, the scheduler and this machine as a node."""
    if shadow is not None:
        from strato.scheduler.config import read_config
        from strato.scheduler.shadow.service import check

        check(read_config(shadow))
    home = home_of(ctx)
    if not sandbox and not hollow.shapes():
        raise UsageError("no nodes: with --no-sandbox give --hollow-nodes N")
    if agent and sandbox_nodes > 1:
        raise UsageError("--agent looks after one node: leave it out, or --sandbox-nodes")
    interruption = Interruption()
    if foreground:
        from strato.cli.serving import collect_rarely

        collect_rarely()
    from strato.cli.embedded.background import own_home, print_ready, start_in_background
    from strato.cli.embedded.options import EmbeddedOptions, default_processes

    journal = (data_dir or home.data).absolute()
    options = EmbeddedOptions(
        home_path=str(home.path),
        hollow=hollow,
        sandbox=sandbox,
        sandbox_nodes=sandbox_nodes,
        agent=agent and sandbox,
        sandbox_cpus=cpus,
        sandbox_memory=node_memory,
        cpu_overcommit_factor=cpu_overcommit_factor,
        images=images,
        pod_network=pod_network,
        pod_users=pod_users,
        gpus=gpus,
        host=host,
        port=port,
        data_dir=str(journal),
        in_memory=in_memory,
        storage=storage,
        audit=audit,
        mail=mail,
        training=training,
        scheduler_config=str(config.absolute()) if config is not None else "",
        shadow=str(shadow.absolute()) if shadow is not None else "",
        predict_starts=predict_starts,
        record=record,
        shard_mode=shard_mode,
        processes=processes or default_processes(),
        mesos=msgspec.structs.replace(mesos, ip=host) if mesos is not None else None,
    )
    if lock_descriptor is not None:
        lock: HomeLock | None = HomeLock.inherit(home.lock, lock_descriptor)
    else:
        lock = own_home(options, interruption, foreground=foreground)
    if lock is None:
        return
    if foreground:
        from strato.cli.embedded.start import run_embedded

        run_embedded(options, lock, interruption, background=lock_descriptor is not None)
        return
    print_ready(home, start_in_background(home, lock, interruption, sys.argv[1:], journal))


@click.command()
@click.option("--purge", is_flag=True, help="Also delete everything it made: data, images, keys, kubeconfigs.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before --purge.")
@click.option("--keep-pods", is_flag=True, help="Do not fail the pods: the next 'up' starts them anew, all of them.")
@click.option(
    "--grace-period",
    "grace_seconds",
    default=GRACE_SECONDS,
    show_default=True,
    type=click.FloatRange(0, 3600),
    metavar="SECONDS",
    help="What pods have at most between SIGTERM and SIGKILL.",
)
@click.pass_context
def down(ctx: click.Context, purge: bool, yes: bool, keep_pods: bool, grace_seconds: float) -> None:
    """Stop the embedded cluster and its pods; what it stored stays for the next 'up'.

    Pods end as when a node is shut down: Failed, with reason Terminated; their logs stay. Their controllers replace
    them after the next 'up'. Pods whose containers never started, and those of hollow nodes, stay as they are.
    """
    from strato.cli.embedded.stopping import clear_machine, down_message, end_cluster

    home = home_of(ctx)
    if not home.path.exists():
        click.echo(f"no cluster runs in {home.path}")
        return
    if purge and not yes:
        _ask_to_purge(home.path)
    stop = Stop(keep_pods=keep_pods, grace_seconds=grace_seconds, waiter=os.getpid())
    lock, was_up = end_cluster(home, stop)
    if lock is None:
        click.echo("cluster is down, but somebody has started it again")
        return
    lock.note(STOPPING)
    stop = replace(stop, ended=home.read_stop().ended)
    killed = clear_machine(home, stop)  # left by a cluster that was killed
    home.clear_run_files()
    click.echo(down_message(stop) if was_up else f"no cluster runs in {home.path}")
    if killed and not was_up:
        click.echo(f"  containers that were left of one are ended: {killed}")
    if purge:
        from strato.cli.apiserver import purge as delete

        delete(home)
        click.echo("its data is deleted, its keys and kubeconfigs too")
    lock.release()


def _ask_to_purge(place: Path) -> None:
    """Ask whether everything is to be deleted, if standard input is a terminal; raise otherwise."""
    if not sys.stdin.isatty():
        raise UsageError(f"--purge deletes the cluster of {place} for good and asks first; in a script add --yes")
    if not click.confirm(f"Delete the cluster of {place} with all its jobs, images and keys?"):
        click.echo("nothing was done")
        raise click.exceptions.Exit(1)
