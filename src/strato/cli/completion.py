"""``strato completion``: the script a shell evaluates, and the objects of the cluster it then completes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from strato.api.kinds import Kind

VARIABLE = "_STRATO_COMPLETE"
"""Environment variable that the shell's completion script sets to ask for completions."""
_SECONDS = 3.0
"""Timeout of requests to the cluster: the user has pressed Tab and waits."""
_MOST = 500
_MAKES = ("create", "run", "submit")
"""Verbs whose NAME is of a new object, so that no existing names are offered."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL: commands, flags, choices, and the cluster's jobs, queues, pods, namespaces.

    In ~/.bashrc: source <(strato completion bash)

    In ~/.zshrc, after compinit: source <(strato completion zsh)

    In ~/.config/fish/config.fish: strato completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root().command
    click.echo(kind(root, {}, "strato", VARIABLE).source())


def answer(cli: click.Group, instruction: str) -> int:
    """Print the completions that the shell's script asks for, then exit."""
    from click.shell_completion import shell_complete

    own = click.Parameter.shell_complete

    def complete(self: click.Parameter, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = objects(ctx, self, incomplete)
        return own(self, ctx, incomplete) if found is None else [CompletionItem(name) for name in found]

    click.Parameter.shell_complete = complete  # type: ignore[method-assign]  # parameter types stay cluster-free
    return shell_complete(cli, {}, "strato", VARIABLE, instruction)


def objects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str] | None:
    """Return the cluster's objects whose names complete a parameter; None when the parameter names no object."""
    root = ctx.find_root()
    root.obj = {name: root.params.get(name) for name in ("master", "kubeconfig", "home")}
    root.obj["context"] = root.params.get("context_name")
    if ctx.info_name == "kubectl":
        return _of_kubectl(ctx, incomplete)
    kinds = kinds_of(ctx.command_path.split()[1:], param.name or "")
    if not kinds:
        return None
    namespace = str(ctx.params.get("namespace") or "default")
    return sorted(name for name in _names(ctx, kinds, namespace, incomplete) if name.startswith(incomplete))


def kinds_of(path: Sequence[str], name: str) -> dict[str, Kind]:
    """Return the kinds of object that a command's parameter names, each with the prefix (``job/``) before the name."""
    from strato.api import catalog
    from strato.cli.objectnames import BARE

    if path[:1] in (["install"], ["run"]):
        return {}
    everywhere = {
        "namespace": catalog.NAMESPACE,
        "queue": catalog.QUEUE,
        "job": catalog.VCJOB,
        "job_name": catalog.VCJOB,
        "after": catalog.VCJOB,
        "pod": catalog.POD,
        "node": catalog.NODE,
        "priority": catalog.PRIORITYCLASS,
    }
    groups = {
        "job": catalog.VCJOB,
        "queue": catalog.QUEUE,
        "jobflow": catalog.JOBFLOW,
        "jobtemplate": catalog.JOBTEMPLATE,
    }
    if name in everywhere:
        return {"": everywhere[name]}
    if len(path) == 2 and path[0] in groups and name in ("name", "names", BARE) and path[1] not in _MAKES:
        return {"": groups[path[0]]}
    if name != "target":
        return {}
    if path[:1] == ["explain"]:
        return {"pod/": catalog.POD, "job/": catalog.VCJOB, "podgroup/": catalog.PODGROUP, "queue/": catalog.QUEUE}
    return {"": catalog.POD, "pod/": catalog.POD, "job/": catalog.VCJOB}


def _names(ctx: click.Context, kinds: dict[str, Kind], namespace: str, incomplete: str) -> Iterator[str]:
    """Yield names of objects; while the user has not typed a kind's prefix (``job/``), the prefixes themselves."""
    import asyncio

    from strato.cli.connect import with_cluster
    from strato.errors import StratoError

    word = incomplete.partition("/")[0] + "/" if "/" in incomplete else ""
    yield from (prefix for prefix in kinds if prefix and not word)
    wanted = kinds.get(word)
    if wanted is None:
        return

    async def ask(cluster: Any) -> list[str]:
        async with asyncio.timeout(_SECONDS):
            page = await cluster.list(wanted, namespace if wanted.namespaced else "", limit=_MOST)
        return [item["metadata"]["name"] for item in page.items]

    with suppress(StratoError, OSError):  # an error would be printed into the line the user is typing
        yield from (word + name for name in with_cluster(ctx, ask))


def _of_kubectl(ctx: click.Context, incomplete: str) -> list[str] | None:
    """Return the completions that the system's kubectl offers for the words after ``strato kubectl``."""
    from strato.cli.connect import kubeconfig_paths, kubectl_flags
    from strato.errors import UsageError

    program = shutil.which("kubectl")
    if program is None:
        return []
    environment = dict(os.environ)
    try:
        environment["KUBECONFIG"] = os.pathsep.join(map(str, kubeconfig_paths(ctx))) or environment.get(
            "KUBECONFIG", ""
        )
    except UsageError:
        return []
    command = [program, *kubectl_flags(ctx), "__complete", *ctx.params.get("args", ()), incomplete]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.split("\t")[0] for line in done.stdout.splitlines() if line and not line.startswith(":")]
