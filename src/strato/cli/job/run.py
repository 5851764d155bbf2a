"""``strato job run``: a job from flags or from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from strato.cli.connect import with_cluster
from strato.cli.goflags import GoCommand
from strato.cli.inputs import new_name_problem
from strato.cli.job.images import IMAGE_HELP, default_image, warn_about_images
from strato.cli.job.manifest import job_from_file, words_of
from strato.cli.job.request import Checks, JobRequest
from strato.cli.job.resources import DEFAULT
from strato.cli.job.submission import JobSubmission, submit
from strato.cli.job.wait import wait_until_completed
from strato.client.cluster import Cluster, Json
from strato.errors import UsageError

_DEFAULT = ",".join(f"{name}={amount}" for name, amount in DEFAULT.items())
NOT_IN_FILE = frozenset({"filename", "namespace", "wait", "timeout_seconds", "dry_run", "output"})
"""Options that also go with ``--filename``."""

dry_run_option = click.option(
    "--dry-run",
    is_flag=False,
    flag_value="client",
    default="",
    type=click.Choice(["", "client", "server"]),
    metavar="[client|server]",
    help="Print the manifest and create nothing; =server asks the API what it would become.",
)


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options in the order of the help."""
    options = (
        click.option("-i", "--image", default="", help=IMAGE_HELP),
        click.option("-n", "--namespace", default="default", show_default=True, help="Namespace."),
        click.option("-N", "--name", default="", help="Name of the job."),
        click.option("-m", "--min", "min_available", default=1, show_default=True, type=click.IntRange(0),
                     help="Pods that must start."),
        click.option("-r", "--replicas", default=1, show_default=True, type=click.IntRange(1),
                     help="Pods of the job, or of each element of an array."),
        click.option("-R", "--requests", default=None,
                     help=f"Requests per pod; as the limits if only those are given, else {_DEFAULT}."),
        click.option("-L", "--limits", default=None, help="Limits per pod; as the requests when not given."),
        click.option("--gpus", default=0, type=click.IntRange(0), help="GPUs per pod (nvidia.com/gpu)."),
        click.option("-q", "--queue", default="", help="Queue."),
        click.option("--priority", default="", metavar="CLASS", help="PriorityClass of job and pods."),
        click.option("-e", "--env", "environment", multiple=True, metavar="KEY[=VALUE]",
                     help="Variable of the container, from here without a value; may be repeated."),
        click.option("-t", "--time", "time_limit", default="", metavar="LIMIT",
                     help="What a pod may run: 30 (minutes), 1:30:00, 2-12:00:00, 90m; then DeadlineExceeded."),
        click.option("-a", "--array", default="", metavar="INDEXES[%LIMIT]",
                     help="Run once for each index: 0-99, 1,3,5-9:2; %10 at most so many at once."),
        click.option("-d", "--after", multiple=True, metavar="[any:|ok:|not-ok:|start:]JOB",
                     help="Start once JOB has completed (ok, the default), failed, ended or started; may be repeated."),
        click.option("--mail", default="", metavar="ADDRESS", help="Send mail about the job."),
        click.option("--mail-type", default=None, metavar="TYPES", help="What about: begin,end,fail. [default: all]"),
        click.option("-S", "--scheduler", default="volcano", show_default=True, help="Scheduler of the pods."),
        click.option("-c", "--command", default="", help="Command of the container, split as a shell does."),
        click.option("-f", "--filename", default="",
                     help="YAML file with a Job, instead of the flags about it; - is standard input."),
        dry_run_option,
        click.option("-o", "--output", type=click.Choice(["json", "yaml", "name"]), default=None,
                     help="Print the job as it was created."),
        click.option("--wait", is_flag=True, help="Follow the job until it ends; fail when the job fails."),
        click.option("--timeout", "timeout_seconds", type=click.FloatRange(min=0), default=None,
                     help="Seconds to wait with --wait."),
        click.argument("words", nargs=-1, metavar="[-- COMMAND...]"),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command(cls=GoCommand)
@_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    namespace: str,
    filename: str,
    dry_run: str,
    output: str | None,
    wait: bool,
    timeout_seconds: float | None,
    **flags: Any,
) -> None:
    """Create a job from flags or from a file."""
    if filename:
        body, namespace = _from_file(ctx, filename, namespace)
    else:
        flags["image"] = flags["image"] or default_image(ctx)
        body = request_of(namespace, flags).manifest()
    submission = JobSubmission(job=body, namespace=namespace)

    async def work(cluster: Cluster) -> None:
        created = await submit(cluster, submission, dry_run=dry_run, output=output)
        if created is not None:
            warn_about_images(ctx, created)
        if created is not None and wait:
            await wait_until_completed(cluster, namespace, [created["metadata"]["name"]], timeout_seconds)

    if dry_run == "client":
        submission.print(output)
    else:
        with_cluster(ctx, work)


def request_of(namespace: str, flags: Mapping[str, Any]) -> JobRequest:
    """Return the job request that the flags describe.

    Raises:
        UsageError: Listing everything that is wrong with them.
    """
    checks = Checks("what was given")
    name, replicas, words = flags["name"], flags["replicas"], flags["words"]
    if not name:
        checks.problem("--name", "job name cannot be left blank; give --name or --filename")
    elif problem := new_name_problem(name):
        checks.problem("--name", problem)
    if words and flags["command"]:
        checks.problem("--command", "is given, and a command after -- too; give one")
    array = checks.array(flags["array"])
    if array is not None and flags["min_available"] not in (1, replicas):
        checks.problem("--min", f"{flags['min_available']}: all {replicas} pods of an array's element start together")
    addresses, types = checks.mail(flags["mail"], flags["mail_type"])
    request = JobRequest(
        name=name,
        namespace=namespace,
        image=flags["image"],
        command=list(words) or (words_of(flags["command"]) if flags["command"] else []),
        replicas=replicas,
        min_available=flags["min_available"],
        resources=checks.resources(flags["requests"], flags["limits"], flags["gpus"]),
        scheduler=flags["scheduler"],
        queue=flags["queue"],
        priority=flags["priority"],
        environment=checks.environment(flags["environment"]),
        time_seconds=checks.time_limit(flags["time_limit"]),
        array=array,
        after=checks.after(flags["after"]),
        mail=addresses,
        mail_types=types,
    )
    checks.done()
    return request


def _from_file(ctx: click.Context, filename: str, namespace: str) -> tuple[Json, str]:
    """Return the job of a file and its namespace; refuse flags about the job, as the file describes it."""
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    ignored = [option for option in ctx.command.params if option.name in given and option.name not in NOT_IN_FILE]
    if ignored:
        names = ", ".join(option.opts[-1] for option in ignored)
        raise UsageError(f"given with --filename, which says all about the job: {names}; write it into {filename}")
    body = job_from_file(filename)
    if "namespace" not in given:
        namespace = (body.get("metadata") or {}).get("namespace") or namespace
    return body, namespace
