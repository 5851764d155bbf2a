"""The table of programs with their commands and flags, and how one is run."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from strato import __version__
from strato.cli.volcano import flows, jobs, pods, queues
from strato.cli.volcano.asking import CLUSTER
from strato.cli.volcano.cobra import (
    FLAG_ERROR,
    Command,
    Flag,
    FlagError,
    HelpWanted,
    Path,
    Values,
    help_text,
    read_flags,
    resolve,
    usage_text,
)
from strato.errors import ApiError, StratoError

FAILED = 255


def main(program: Command, argv: Sequence[str]) -> NoReturn:
    """Run a program and exit; a verb that fails prints one line on standard output."""
    from strato.cli.main import stop_printing

    try:
        code = _run(program, argv)
    except FlagError as error:
        click.echo(f"{error.usage}Error: {error}", err=True)
        code = FLAG_ERROR
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except BrokenPipeError:
        stop_printing()
        code = 141
    sys.exit(code)


def _run(program: Command, argv: Sequence[str]) -> int:
    path, rest = resolve(program, argv)
    try:
        values = read_flags(path, rest)
    except HelpWanted:
        click.echo(help_text(path), nl=False)
        return 0
    except FlagError as error:
        # for wrong flags of a program itself cobra prints its usage; for a verb's it does not
        raise FlagError(str(error), f"{usage_text(path)}\n" if len(path) == 1 else "") from None
    command = path[-1]
    if command.name == "help" and len(path) == 2:
        return _help(program, [word for word in rest if not word.startswith("-")])
    if command.run is None:
        click.echo(help_text(path), nl=False)
        return 0
    try:
        command.run(values)
    except StratoError as error:
        text = (
            str(error) if isinstance(error, ApiError) else "; ".join(line.strip() for line in str(error).splitlines())
        )
        click.echo(f"Failed to{_leaf_first(path)}: {text}")
        return FAILED
    return 0


def _help(program: Command, words: Sequence[str]) -> int:
    try:
        path, _ = resolve(program, words)
    except FlagError:
        topics = " ".join(f"`{word}`" for word in words)
        # cobra adds -h when a command runs; here none has
        click.echo(f"Unknown help topic [{topics}]\n{usage_text((program,), None)}", nl=False, err=True)
        return 0
    click.echo(help_text(path), nl=False)
    return 0


def _leaf_first(path: Path) -> str:
    return "".join(f" {command.name}" for command in reversed(path[1:]))


def _verb(name: str, help: str, run: Callable[[Values], None], *flags: Flag) -> Command:
    return Command(name, help, (*flags, *CLUSTER), run)


def _text(name: str, short: str, help: str, default: str = "") -> Flag:
    return Flag(name, short, help, default=default)


def _count(name: str, short: str, help: str, default: int, type: str = "int") -> Flag:
    return Flag(name, short, help, type, default)


def _all_namespaces() -> Flag:
    return Flag("all-namespaces", "", "all namespaces", "bool", False)


def _namespace(short: str = "n") -> Flag:
    return _text("namespace", short, "namespace of the object", "default")


def _name(short: str = "N") -> Flag:
    return _text("name", short, "name of the object")


def _job_flags(image: str, namespace: str, scheduler: str, *, tool: bool) -> tuple[Flag, ...]:
    amounts = "cpu=1000m,memory=100Mi"
    return (
        _text("image", "i", "image of the container", image),
        _text("namespace", "N" if tool else "n", "namespace of the job", namespace),
        _text("name", "n" if tool else "N", "name of the job"),
        _count("min", "m", "pods that must start together", 1),
        _count("replicas", "r", "pods of the job", 1),
        _text("requests", "R", "what each pod requests", amounts),
        _text("limits", "L", "what each pod is limited to", amounts),
        _text("scheduler", "S", "scheduler of the pods", scheduler),
    )


_LIST = (
    _text("scheduler", "S", "only jobs of this scheduler"),
    _all_namespaces(),
    _text("selector", "", "only jobs whose name contains this"),
)


def _job() -> Command:
    of_one = (_namespace(), _name())
    return Command(
        "job",
        "run, list, view, suspend, resume and delete jobs",
        commands=(
            _verb(
                "run",
                "create a job from flags or from a file",
                jobs.run_job,
                *_job_flags("busybox", "default", "volcano", tool=False),
                _text("filename", "f", "YAML file that holds a job"),
            ),
            _verb(
                "list",
                "list jobs",
                jobs.list_jobs,
                _text("queue", "q", "only jobs of this queue"),
                _namespace(),
                *_LIST,
            ),
            _verb("view", "show a job and its events", jobs.view_job, *of_one),
            _verb("suspend", "abort a job so that it can be resumed", jobs.order_job("suspend", "AbortJob"), *of_one),
            _verb("resume", "start an aborted job again", jobs.order_job("resume", "ResumeJob"), *of_one),
            _verb("delete", "delete a job and all it owns", jobs.delete_job("delete"), *of_one),
        ),
    )


def _queue() -> Command:
    name = _name("n")
    return Command(
        "queue",
        "create, delete, operate, list and get queues",
        commands=(
            _verb(
                "create",
                "create a queue",
                queues.create_queue,
                _text("name", "n", "name of the queue", "test"),
                _count("weight", "w", "share beside other queues", 1, "int32"),
                _text("state", "S", "without effect", "Open"),
            ),
            _verb("delete", "delete a queue", queues.delete_queue, name),
            _verb(
                "operate",
                "open or close a queue, or change its weight",
                queues.operate_queue,
                name,
                _count("weight", "w", "the new weight", 0, "int32"),
                _text("action", "a", "open, close or update"),
            ),
            _verb("list", "list queues", queues.list_queues),
            _verb("get", "show one queue", queues.get_queue, name),
        ),
    )


def _flow(name: str, title: str, verbs: flows.Flows, *listing: Flag) -> Command:
    file = _text("file", "f", "file of YAML documents")
    of_one = (_name(), _namespace())
    return Command(
        name,
        f"create, list, get, delete and describe {title}",
        commands=(
            _verb("create", "create every document of a file", verbs.create, file),
            _verb("list", f"list {title}", verbs.list, _namespace(), *listing),
            _verb("get", "show one", verbs.get, *of_one),
            _verb("delete", "delete one, or those of a file", verbs.delete, *of_one, file),
            _verb(
                "describe", "print whole objects", verbs.describe, *of_one, _text("format", "o", "yaml or json", "yaml")
            ),
        ),
    )


def _pod() -> Command:
    listing = (
        _text("queue", "q", "only pods of this queue"),
        _text("job", "j", "only pods of this job"),
        _namespace(),
        _all_namespaces(),
    )
    return Command(
        "pod",
        "list the pods of jobs and queues",
        commands=(_verb("list", "list pods of jobs", pods.list_pods, *listing),),
    )


def _print_version(values: Values) -> None:
    del values
    click.echo("API Version: v1alpha1")
    click.echo(f"Version: v{__version__}")
    click.echo("Git SHA: unknown")
    click.echo("Built At: unknown")
    # names that scripts look for, although no Go is involved
    click.echo(f"Go Version: none (Python {platform.python_version()})")
    click.echo(f"Go OS/Arch: {platform.system().lower()}/{platform.machine()}")


def vcctl() -> Command:
    """Return ``vcctl``."""
    return Command(
        "vcctl",
        commands=(
            Command("help", "show the help of a command"),
            _job(),
            _queue(),
            _flow("jobflow", "job flows", flows.JOBFLOWS, _all_namespaces()),
            _flow("jobtemplate", "job templates", flows.JOBTEMPLATES),
            _pod(),
            Command("version", "print the version", run=_print_version, example="vcctl version"),
        ),
    )


def _env(name: str, otherwise: str) -> str:
    return os.environ.get(name) or otherwise


def vsub() -> Command:
    """Return ``vsub``, whose defaults come from environment variables."""
    image, namespace = _env("VOLCANO_DEFAULT_IMAGE", "busybox"), _env("VOLCANO_DEFAULT_JOB_NAMESPACE", "default")
    flags = _job_flags(image, namespace, _env("VOLCANO_SCHEDULER_NAME", "volcano"), tool=True)
    command = _text("command", "c", "command of the container, split as a shell does")
    return _verb("vsub", "create a job from flags", jobs.submit, *flags, command)


def vjobs() -> Command:
    """Return ``vjobs``."""
    return _verb("vjobs", "list jobs, or show one", jobs.list_or_view, _name("n"), _namespace("N"), *_LIST)


def vqueues() -> Command:
    """Return ``vqueues``."""
    return _verb("vqueues", "list queues, or show one", queues.list_statuses, _name("n"))


def vcancel() -> Command:
    """Return ``vcancel``."""
    return _verb("vcancel", "delete a job", jobs.delete_job("cancel"), _name("n"), _namespace("N"))


def vsuspend() -> Command:
    """Return ``vsuspend``."""
    return _tool("vsuspend", "abort a job so that it can be resumed", "suspend", "AbortJob")


def vresume() -> Command:
    """Return ``vresume``."""
    return _tool("vresume", "start an aborted job again", "resume", "ResumeJob")


def _tool(name: str, help: str, verb: str, action: str) -> Command:
    return _verb(name, help, jobs.order_job(verb, action), _name("n"), _namespace("N"))
