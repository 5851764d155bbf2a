"""``strato agent``: measure this machine's node and its containers, and shift CPU to whom it is due."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.connect import connect, home_of
from strato.cli.home import node_name
from strato.cli.run.common import Common, Member, component_options, serve
from strato.cli.serving import make_random, run_loop
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.errors import UsageError
from strato.metrics import Registry

if TYPE_CHECKING:
    from strato.agent.agent import Agent

_CGROUPS = "/sys/fs/cgroup"


@click.group(invoke_without_command=True)
@component_options(metrics_address=":3300")
@click.option("--node-name", "node", default="", envvar=["KUBE_NODE_NAME", "NODE_NAME"], help="Of this machine's node.")
@click.option("--namespace", default="volcano-system", show_default=True, help="Of the ConfigMap strato-agent.")
@click.option(
    "--layout",
    type=click.Choice(["auto", "sandbox", "kubelet"]),
    default="auto",
    show_default=True,
    help="Whose control groups: those of our own node if there is one on this machine, or a kubelet's.",
)
@click.option("--data-dir", default=None, type=click.Path(path_type=Path), help="Of our own node, if not HOME/node.")
@click.option("--cgroup-root", default=_CGROUPS, show_default=True, help="Where control groups are mounted.")
@click.option("--kube-cgroup-root", default="", help="The kubelet's --cgroup-root.")
@click.option("--proc", default="/proc", show_default=True, envvar="PROC_PATH", help="Where the host's /proc is.")
@click.option("--sys", "sys_path", default="/sys", show_default=True, help="Where the host's /sys is.")
@click.option("--cpus", default=0.0, type=click.FloatRange(0), help="Logical CPUs, if not those of this machine.")
@click.option(
    "--cpu-manager-policy",
    type=click.Choice(["none", "static"]),
    default="none",
    show_default=True,
    help="The kubelet's; with static, containers on CPUs of their own are left alone.",
)
@click.option(
    "--handlers-dir", default=None, type=click.Path(path_type=Path, file_okay=False), help="Of handlers in files."
)
@click.option(
    "--traffic-secret-file",
    default=None,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Its content signs calls to the load balancer.",
)
@click.option("--node-selector", default="", help="Labels of the nodes among which cordons are counted.")
@click.pass_context
def agent(
    ctx: click.Context,
    common: Common,
    node: str,
    namespace: str,
    layout: str,
    data_dir: Path | None,
    cgroup_root: str,
    kube_cgroup_root: str,
    proc: str,
    sys_path: str,
    cpus: float,
    cpu_manager_policy: str,
    handlers_dir: Path | None,
    traffic_secret_file: Path | None,
    node_selector: str,
) -> None:
    """Keep this machine's node useful and responsive: suppress training, let containers burst, report hot spots.

    What it does is in policy.yaml of the ConfigMap strato-agent; without one, the defaults hold.
    """
    from strato.agent.agent import AgentOptions, lease_of

    options = AgentOptions(
        node=node or node_name(),
        namespace=namespace,
        cpus=cpus or float(os.cpu_count() or 1),
        proc=proc,
        sys=sys_path,
        handlers_dir=handlers_dir,
        static_cpus=cpu_manager_policy == "static",
        secret=_secret(traffic_secret_file),
        node_selector=node_selector,
    )
    directory = data_dir or home_of(ctx).node
    made = _Maker(ctx, options, layout, directory, (cgroup_root, kube_cgroup_root))
    if ctx.invoked_subcommand is not None:
        ctx.obj["agent"] = made
        return

    async def main() -> None:
        metrics = Registry()
        running, informers = made(metrics)
        cluster, random = made.cluster, make_random()
        member = Member(name="agent", lease=lease_of(options.node), work=running.run)
        await serve(cluster, random, common, [member], metrics, informers=informers)

    run_loop(main)


@agent.command()
@click.pass_context
def reset(ctx: click.Context) -> None:
    """Give every container of the node that was suppressed its CPU back."""
    made = ctx.obj["agent"]

    async def main() -> None:
        running, informers = made(Registry())
        try:
            click.echo(f"restored: {await running.reset()}")
        finally:
            await informers.stop()
            await made.cluster.close()

    run_loop(main)


class _Maker:
    """Makes the agent once there is a loop to run it."""

    def __init__(
        self, ctx: click.Context, options: object, layout: str, directory: Path, cgroups: tuple[str, str]
    ) -> None:
        self._ctx, self._options, self._layout = ctx, options, layout
        self._directory, self._cgroups = directory, cgroups

    def __call__(self, metrics: Registry) -> tuple[Agent, Informers]:
        from strato.agent.agent import Agent, AgentOptions
        from strato.agent.sampling.layouts import KubeletLayout, Layout, SandboxLayout

        assert isinstance(self._options, AgentOptions)
        clock, random = SystemClock(), make_random()
        self.cluster = connect(self._ctx)
        note = self._directory / "cgroups.json"
        is_ours = self._layout == "sandbox" or (self._layout == "auto" and note.exists())
        layout: Layout = SandboxLayout(str(note)) if is_ours else KubeletLayout(*self._cgroups)
        informers = Informers(self.cluster, clock, random)
        return Agent(self.cluster, informers, clock, random, layout, self._options, metrics), informers


def _secret(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"--traffic-secret-file: {path}: {error.strerror}") from error
