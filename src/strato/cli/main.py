"""``strato``: the command line's entry point."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from strato import __version__
from strato.cli.lazygroup import LazyGroup
from strato.errors import StratoError, harmless, shortened

# name -> (module under strato.cli, attribute, one line of help). The help is here so that listing imports nothing.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("up", "up", "Start the embedded cluster on this machine."),
    "down": ("up", "down", "Stop the embedded cluster."),
    "status": ("status", "status", "Show what runs and how full it is."),
    "kubectl": ("kubectl", "kubectl", "Run the system's kubectl against the cluster."),
    "job": ("job", "job", "Run, list, view, suspend, resume and delete jobs."),
    "submit": ("submit", "submit", "Submit a batch script with #SBATCH or #STRATO lines."),
    "slurm": ("slurm", "slurm", "Slurm's commands: squeue, scancel, sinfo, srun, sacct, and the others."),
    "queue": ("queue", "queue", "Create, list, get, operate and delete queues."),
    "pod": ("pod", "pod", "List the pods of jobs and queues."),
    "podgroup": ("podgroup", "podgroup", "List and show pod groups."),
    "jobflow": ("jobflow", "jobflow", "Create, list, get, describe and delete job flows."),
    "jobtemplate": ("jobflow", "jobtemplate", "Create, list, get, describe and delete job templates."),
    "logs": ("logs", "logs", "Print the log of a pod or of a job's tasks."),
    "exec": ("exec", "exec_", "Run a command in a container of a pod or job."),
    "shell": ("exec", "shell", "Open a shell in a pod of a job."),
    "cp": ("cp", "cp", "Copy files from and to a container."),
    "port-forward": ("portforward", "port_forward", "Forward ports of this machine to a pod, job or service."),
    "explain": ("explain", "explain", "Say why a pod, job or pod group waits."),
    "when": ("when", "when", "Estimate when a job starts."),
    "shadow": ("shadow", "shadow", "Show how the scheduler's shadow policy differs."),
    "advise": ("advise", "advise", "Say what roles of training jobs should request."),
    "report": ("report", "report", "Show runs, waits, and how busy hosts were, by day and queue."),
    "stats": ("report", "report", "The same as report."),
    "schedule": ("schedule", "schedule", "Print what the scheduler would decide on manifests; applies nothing."),
    "what-if": ("whatif", "what_if", "Say what more nodes, a drain, a policy or a job would do; applies nothing."),
    "config": ("config", "config", "Check the scheduler's configuration; list plugins and their arguments."),
    "image": ("image", "image", "Import, list and remove local images."),
    "flow": ("flow", "flow", "Schedule by minimum-cost flow, without Kubernetes."),
    "sim": ("sim", "sim", "Run traces through the scheduler in virtual time."),
    "run": ("run", "run", "Run one component against a cluster."),
    "node": ("node", "node", "Let hollow nodes fail, and end that."),
    "agent": ("agent", "agent", "Keep a node busy and responsive: suppress training, burst, hot spots."),
    "backup": ("backup", "backup", "Write a backup of the embedded cluster."),
    "restore": ("restore", "restore", "Bring the embedded cluster back from a backup."),
    "doctor": ("doctor", "doctor", "Check machine and cluster, and say what to type; salvage a journal."),
    "install": ("install", "install", "Install on a cluster, or print what would be."),
    "yarn": ("yarn", "yarn", "Carry the queues of a YARN cluster over."),
    "crds": ("crds", "crds", "Print our custom resource definitions."),
    "examples": ("examples", "examples", "Write the examples of the documentation into a directory."),
    "completion": ("completion", "completion", "Print a shell's completion script."),
    "man": ("man", "man", "Write manual pages."),
    "version": ("version", "version", "Print the version."),
}


_OF_KUBECTL: Final = frozenset(
    {
        "annotate", "api-resources", "apply", "attach", "auth", "autoscale", "cluster-info", "cordon", "create",
        "debug", "delete", "describe", "diff", "drain", "edit", "events", "expose", "get", "label", "patch", "replace",
        "rollout", "scale", "set", "taint", "top", "uncordon", "wait",
    }
)  # fmt: skip
"""Verbs of kubectl; typed as a command of ours, they get a hint to ``strato kubectl``."""


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk; when the error names no file, it came from writing standard output."""


def _load(command: str) -> object:
    module, attribute, _ = COMMANDS[command]
    return getattr(importlib.import_module(f"strato.cli.{module}"), attribute)


def _of_kubectl(words: list[str]) -> str:
    return f" kubectl has one: 'strato kubectl {' '.join(words)}'." if words[0] in _OF_KUBECTL else ""


_HELP: Final = {name: text for name, (_, _, text) in COMMANDS.items()}


@click.group(
    cls=LazyGroup,
    table=_HELP,
    load=_load,
    hint=_of_kubectl,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="strato")
@click.option("-s", "--master", metavar="URL", default=None, help="Address of the API server.")
@click.option("-k", "--kubeconfig", metavar="FILE", default=None, help="Kubeconfig to use instead of the usual ones.")
@click.option("--context", "context_name", metavar="NAME", default=None, help="Context of the kubeconfig.")
@click.option(
    "--home", metavar="DIR", default=None, envvar="STRATO_HOME", help="Where the embedded cluster keeps its state."
)
@click.pass_context
def cli(
    ctx: click.Context, master: str | None, kubeconfig: str | None, context_name: str | None, home: str | None
) -> None:
    """Batch scheduling for Kubernetes: on this laptop, in a simulator, on a production cluster."""
    ctx.obj = {"master": master, "kubeconfig": kubeconfig, "context": context_name, "home": home}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; no error of ours or of the user shows a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _invoke(args)
    except StratoError as error:
        click.echo(f"error: {harmless(shortened(str(error)))}", err=True)
        code = error.exit_code
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except BrokenPipeError:
        stop_printing()
        code = 141
    except OSError as error:
        # an unwritable folder or a full disk: the user's to mend, so no traceback
        what = error.filename or ("what is printed" if error.errno in _FULL else "the system")
        click.echo(f"error: {what}: {error.strerror or error}", err=True)
        code = 1
    except RuntimeError as error:
        if "no locator available" not in str(error):  # raised by numba when it finds no writable folder for its cache
            raise
        click.echo(
            "error: compiled kernels cannot be kept: neither strato's own folder nor HOME may be written; "
            "set NUMBA_CACHE_DIR to a folder that may",
            err=True,
        )
        code = 1
    sys.exit(code)


def stop_printing() -> None:
    """Redirect standard output to /dev/null after its reader has closed the pipe (``strato job list | head``)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _invoke(args: list[str]) -> int:
    instruction = os.environ.get("_STRATO_COMPLETE")
    if instruction:
        from strato.cli.completion import answer

        return answer(cli, instruction)
    with cli.make_context("strato", args) as ctx:
        result: Any = cli.invoke(ctx)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
