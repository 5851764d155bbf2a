"""``strato agent``: measure this machine's node and its containers, and move CPU time to the pods entitled to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.connect import connect, home_of
from strato.cli.home import node_name
from strato.cli.inputs import FOLDER
from strato.cli.optiongroups import option_group
from strato.cli.run.common import Common, RunningComponent, component_options, serve
from strato.cli.serving import make_random, run_loop
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.errors import UsageError
from strato.metrics import Registry

if TYPE_CHECKING:
    from strato.agent.agent import Agent
    from strato.agent.volcano.colocation import ColocationOptions

_CGROUPS = "/sys/fs/cgroup"


def _read_colocation(
    supported_features: str,
    oversubscription_policy: str,
    oversubscription_ratio: int,
    include_system_usage: bool,
    lent: tuple[str, str, str, str],
) -> ColocationOptions:
    from strato.agent.volcano.colocation import ColocationOptions
    from strato.agent.volcano.config import supported_features as features_of
    from strato.agent.volcano.levels import ResourceNames

    cpu, memory, namespace, pod = lent
    return ColocationOptions(
        features=features_of(supported_features),
        ratio_percent=oversubscription_ratio,
        include_system_usage=include_system_usage,
        names=ResourceNames(cpu=cpu, memory=memory),
        own_pod=(namespace, pod),
    )


def _names(
    extend_resource_cpu_name: str, extend_resource_memory_name: str, kube_pod_namespace: str, kube_pod_name: str
) -> tuple[str, str, str, str]:
    return extend_resource_cpu_name, extend_resource_memory_name, kube_pod_namespace, kube_pod_name


_colocation_names = option_group(
    "lent",
    _names,
    [
        click.option(
            "--extend-resource-cpu-name",
            default="kubernetes.io/batch-cpu",
            show_default=True,
            help="Under which name CPU is lent.",
        ),
        click.option(
            "--extend-resource-memory-name",
            default="kubernetes.io/batch-memory",
            show_default=True,
            help="Under which name memory is lent.",
        ),
        click.option("--kube-pod-namespace", default="", envvar="KUBE_POD_NAMESPACE", help="Of the agent's pod."),
        click.option(
            "--kube-pod-name",
            default="",
            envvar="KUBE_POD_NAME",
            help="The agent's pod, which has the events about the configuration, if not the ConfigMap.",
        ),
    ],
)
_colocation_options = option_group(
    "colocation",
    _read_colocation,
    [
        click.option(
            "--supported-features",
            default="OverSubscription,Eviction,Resources",
            show_default=True,
            help="Which functions volcano-agent-configuration may switch on; * is all, -NAME takes one away.",
        ),
        click.option(
            "--oversubscription-policy",
            type=click.Choice(["extend"]),
            default="extend",
            show_default=True,
            help="How what is left is lent: as further resources of the node.",
        ),
        click.option(
            "--oversubscription-ratio",
            type=click.IntRange(1, 1000),
            default=60,
            show_default=True,
            help="How much of what is left is lent, in percent.",
        ),
        click.option(
            "--include-system-usage", is_flag=True, help="What the machine's other processes use is not left either."
        ),
    ],
    inner={"lent": _colocation_names},
)


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
@click.option(
    "--data-dir",
    default=None,
    type=FOLDER,
    help="Of our own node, if not HOME/node.",
)
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
@click.option("--handlers-dir", default=None, type=FOLDER, help="Of handlers in files.")
@click.option(
    "--traffic-secret-file",
    default=None,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Its content signs calls to the load balancer.",
)
@click.option("--node-selector", default="", help="Labels of the nodes among which cordons are counted.")
@_colocation_options
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
    colocation: ColocationOptions,
) -> None:
    """Keep this machine's node useful and responsive: suppress training, let containers burst, report hot spots.

    What it does is in policy.yaml of the ConfigMap strato-agent; without one, the defaults hold. What Volcano's own
    agent does is in colocation-config of the ConfigMap volcano-agent-configuration, for nodes with its labels.
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
        colocation=colocation,
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
        member = RunningComponent(name="agent", lease=lease_of(options.node), work=running.run)
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
    """Builds the agent when called, which must be within a running event loop; keeps the cluster for closing."""

    def __init__(
        self, ctx: click.Context, options: object, layout: str, directory: Path, cgroups: tuple[str, str]
    ) -> None:
        self._ctx, self._options, self._layout = ctx, options, layout
        self._directory, self._cgroups = directory, cgroups

    def __call__(self, metrics: Registry) -> tuple[Agent, Informers]:
        from strato.agent.agent import Agent, AgentOptions
        from strato.agent.sampling.layouts import CgroupLayout, KubeletLayout, SandboxLayout

        assert isinstance(self._options, AgentOptions)
        clock, random = SystemClock(), make_random()
        self.cluster = connect(self._ctx)
        note = self._directory / "cgroups.json"
        is_ours = self._layout == "sandbox" or (self._layout == "auto" and note.exists())
        layout: CgroupLayout = SandboxLayout(str(note)) if is_ours else KubeletLayout(*self._cgroups)
        informers = Informers(self.cluster, clock, random)
        return Agent(self.cluster, informers, clock, random, layout, self._options, metrics), informers


def _secret(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"--traffic-secret-file: {path}: {error.strerror}") from error
