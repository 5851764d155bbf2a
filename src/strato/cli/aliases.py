"""Volcano's own command names: ``vcctl`` and the single-purpose tools (spec volcano-cli A1 and B).

They differ from ``strato`` in three ways that scripts rely on: the global flags may stand behind any verb, failures are
one line on standard output with exit status 255, and in the single-purpose tools ``-n`` is the name and ``-N`` the
namespace.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from strato import __version__
from strato.cli.goflags import GoCommand, switch
from strato.cli.inputs import NAME
from strato.errors import StratoError

FAILED = 255
_WITH_VALUE = {"-s": "--master", "--master": "--master", "-k": "--kubeconfig", "--kubeconfig": "--kubeconfig"}
_LOGGING = ("-v", "--v", "--vmodule", "--log-flush-frequency")
"""Flags of Volcano's logging library; taken and ignored."""

_VCCTL = {
    "job": ("job", "job"),
    "queue": ("queue", "queue"),
    "pod": ("pod", "pod"),
    "jobflow": ("jobflow", "jobflow"),
    "jobtemplate": ("jobflow", "jobtemplate"),
}


def vcctl() -> NoReturn:
    """Run ``vcctl``."""
    _main(_vcctl_group(), sys.argv[1:])


def vsub() -> NoReturn:
    """Run ``vsub``."""
    _main(_vsub, sys.argv[1:])


def vjobs() -> NoReturn:
    """Run ``vjobs``."""
    _main(_vjobs, sys.argv[1:])


def vqueues() -> NoReturn:
    """Run ``vqueues``."""
    _main(_vqueues, sys.argv[1:])


def vcancel() -> NoReturn:
    """Run ``vcancel``."""
    _main(_vcancel, sys.argv[1:])


def vsuspend() -> NoReturn:
    """Run ``vsuspend``."""
    _main(_bus_tool("vsuspend", "AbortJob", "Suspend a job; it can be resumed."), sys.argv[1:])


def vresume() -> NoReturn:
    """Run ``vresume``."""
    _main(_bus_tool("vresume", "ResumeJob", "Resume a suspended job."), sys.argv[1:])


def vc_scheduler() -> NoReturn:
    """Run the scheduler with Volcano's flags."""
    _component("scheduler")


def vc_controller_manager() -> NoReturn:
    """Run the controllers with Volcano's flags."""
    _component("controllers")


def vc_webhook_manager() -> NoReturn:
    """Run the admission webhook with Volcano's flags."""
    _component("webhook")


def _component(part: str) -> NoReturn:
    from strato.cli.main import main

    main(["run", part, *sys.argv[1:]])


def hoist(args: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Take the global flags out of a command line, wherever they stand.

    Returns:
        Them by long name, and the rest in order.

    Raises:
        UsageError: A flag at the end lacks its value.
    """
    found: dict[str, str] = {}
    rest: list[str] = []
    words = iter(args)
    for word in words:
        flag, equals, value = _split_flag(word)
        if flag not in _WITH_VALUE and flag not in _LOGGING:
            rest.append(word)
            if word == "--":
                rest.extend(words)
            continue
        if not equals:
            value = next(words, "")
            if not value:
                raise click.UsageError(f"flag needs an argument: {flag}")
        if flag in _WITH_VALUE:
            found[_WITH_VALUE[flag]] = value
    return found, rest


def _split_flag(word: str) -> tuple[str, bool, str]:
    """Return a flag, whether its value is joined to it, and the value: ``-v=4``, ``-v4``, ``--v=4``."""
    flag, equals, value = word.partition("=")
    if re.fullmatch(r"-v\d+", word):
        return "-v", True, word[2:]
    return flag, bool(equals), value


def _main(command: click.Command, argv: Sequence[str]) -> NoReturn:
    from strato.cli.main import stop_printing
    from strato.cli.verbs import FailureLine

    try:
        flags, rest = hoist(argv)
        name = command.name or ""
        with command.make_context(name, rest) as ctx:
            ctx.obj = {
                "master": flags.get("--master"),
                "kubeconfig": flags.get("--kubeconfig"),
                "context": None,
                "home": os.environ.get("STRATO_HOME"),
            }
            command.invoke(ctx)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.message)
    except FailureLine as error:
        _fail(error.message)
    except StratoError as error:
        _fail(f"Failed to: {error}")
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.UsageError as error:
        _fail(f"Failed to{_what_failed(error.ctx)}: {error.format_message()}")
    except click.ClickException as error:
        _fail(f"Failed to: {error.format_message()}")
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        stop_printing()
        sys.exit(141)
    sys.exit(0)


def _fail(message: str) -> NoReturn:
    """End as Volcano's tools do: one line on standard output."""
    click.echo("; ".join(line.strip() for line in message.splitlines()))
    sys.exit(FAILED)


def _what_failed(ctx: click.Context | None) -> str:
    """Return the commands from the leaf up, without the program: `` list job``."""
    names = [] if ctx is None else ctx.command_path.split()[1:]
    return "".join(f" {name}" for name in reversed(names))


class _Vcctl(click.Group):
    """The groups of ``vcctl``, imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_VCCTL, "version"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        import importlib

        if cmd_name == "version":
            return _version
        if cmd_name not in _VCCTL:
            return None
        module, attribute = _VCCTL[cmd_name]
        command = getattr(importlib.import_module(f"strato.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command


def _vcctl_group() -> click.Group:
    return _Vcctl("vcctl", help="Volcano's command line, on Strato.", context_settings=_HELP)


_HELP = {"help_option_names": ["-h", "--help"]}


@click.command()
def _version() -> None:
    """Print the version."""
    click.echo("API Version: v1alpha1")
    click.echo(f"Version: v{__version__}")
    click.echo("Git SHA: unknown")
    click.echo("Built At: unknown")
    # the names scripts look for, although there is no Go here
    click.echo(f"Go Version: none (Python {platform.python_version()})")
    click.echo(f"Go OS/Arch: {platform.system().lower()}/{platform.machine()}")


_job_name = click.option("-n", "--name", required=True, type=NAME, help="Name of the job.")
_namespace = click.option("-N", "--namespace", default="default", show_default=True, help="Namespace.")


@click.command("vsub", context_settings=_HELP)
@_job_name
@click.option("-N", "--namespace", envvar="VOLCANO_DEFAULT_JOB_NAMESPACE", default="default", show_default=True)
@click.option("-i", "--image", envvar="VOLCANO_DEFAULT_IMAGE", default="busybox", show_default=True)
@click.option("-m", "--min", "min_available", default=1, show_default=True, type=int, help="Pods that must start.")
@click.option("-r", "--replicas", default=1, show_default=True, type=int, help="Pods of the job.")
@click.option("-R", "--requests", default="cpu=1000m,memory=100Mi", show_default=True, help="Requests per pod.")
@click.option("-L", "--limits", default="cpu=1000m,memory=100Mi", show_default=True, help="Limits per pod.")
@click.option("-S", "--scheduler", envvar="VOLCANO_SCHEDULER_NAME", default="volcano", show_default=True)
@click.option("-c", "--command", default="", help="Command of the container, split as a shell does.")
@click.pass_context
def _vsub(
    ctx: click.Context,
    name: str,
    namespace: str,
    image: str,
    min_available: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    command: str,
) -> None:
    """Create a job."""
    from strato.api import catalog
    from strato.cli.connect import with_cluster
    from strato.cli.job.manifest import job_from_flags

    body = job_from_flags(
        name=name,
        namespace=namespace,
        image=image,
        min_available=min_available,
        replicas=replicas,
        requests=requests,
        limits=limits,
        scheduler=scheduler,
        command=command,
    )
    with_cluster(ctx, lambda cluster: cluster.create(catalog.VCJOB, body, namespace))
    click.echo(f"run job {name} successfully")


@click.command("vjobs", cls=GoCommand, context_settings=_HELP)
@click.option("-n", "--name", default="", help="Show this job in full.")
@_namespace
@click.option("-S", "--scheduler", default="", help="Only jobs of this scheduler.")
@switch("-A", "--all-namespaces", help="Jobs of every namespace.")
@click.option("--selector", default="", help="Only jobs whose name contains this.")
@click.pass_context
def _vjobs(ctx: click.Context, name: str, namespace: str, scheduler: str, all_namespaces: bool, selector: str) -> None:
    """List jobs, or show one."""
    from strato.cli import job

    if name:
        job.show_job(ctx, namespace, name, "table", conditions=False)
        return
    ctx.invoke(
        _command(job.job, "list"),
        queue="",
        namespace=namespace,
        scheduler=scheduler,
        all_namespaces=all_namespaces,
        selector=selector,
        labels="",
        output="table",
    )


@click.command("vqueues", context_settings=_HELP)
@click.option("-n", "--name", default="", help="Only this queue.")
@click.pass_context
def _vqueues(ctx: click.Context, name: str) -> None:
    """List queues."""
    from strato.api import catalog
    from strato.cli.connect import with_cluster
    from strato.cli.output import NOTHING_FOUND, fixed_table
    from strato.client.cluster import Cluster, Json

    async def work(cluster: Cluster) -> Sequence[Json]:
        return [await cluster.get(catalog.QUEUE, name)] if name else (await cluster.list(catalog.QUEUE)).items

    rows: list[list[object]] = []
    for queue in with_cluster(ctx, work):
        status = queue.get("status") or {}
        counts = [status.get(counter, 0) for counter in ("inqueue", "pending", "running", "unknown")]
        weight = (queue.get("spec") or {}).get("weight", 1)
        rows.append([queue["metadata"]["name"], weight, status.get("state", ""), *counts])
    headers = ("Name", "Weight", "State", "Inqueue", "Pending", "Running", "Unknown")
    click.echo(fixed_table(headers, (25, *(8 for _ in headers[1:])), rows) if rows else NOTHING_FOUND)


@click.command("vcancel", context_settings=_HELP)
@_job_name
@_namespace
@click.pass_context
def _vcancel(ctx: click.Context, name: str, namespace: str) -> None:
    """Delete a job."""
    from strato.api import catalog
    from strato.cli.connect import with_cluster

    with_cluster(ctx, lambda cluster: cluster.delete(catalog.VCJOB, name, namespace))
    click.echo(f"cancel job {name} successfully")


def _bus_tool(tool: str, action: str, text: str) -> click.Command:
    """Return a tool that asks the controller for an action on a job."""

    @click.command(tool, context_settings=_HELP, help=text)
    @_job_name
    @_namespace
    @click.pass_context
    def command(ctx: click.Context, name: str, namespace: str) -> None:
        from strato.api import catalog
        from strato.cli.commands import issue_command
        from strato.cli.connect import with_cluster
        from strato.client.cluster import Cluster

        async def work(cluster: Cluster) -> None:
            target = await cluster.get(catalog.VCJOB, name, namespace)
            await issue_command(cluster, target, action, namespace=namespace)

        with_cluster(ctx, work)
        click.echo(f"{tool[1:]} job {name} successfully")

    return command


def _command(group: click.Group, verb: str) -> Callable[..., object]:
    found = group.commands[verb]
    assert found.callback is not None
    return found.callback
