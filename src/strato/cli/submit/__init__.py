"""``strato submit``: a batch script with ``#SBATCH`` or ``#STRATO`` lines becomes a job."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from random import SystemRandom
from typing import Any

import click
from click.core import ParameterSource

from strato.cli.connect import with_cluster
from strato.cli.goflags import filled_in
from strato.cli.job.images import IMAGE_HELP, default_image, warn_about_images
from strato.cli.job.run import dry_run_option
from strato.cli.job.submission import JobSubmission
from strato.cli.job.submission import submit as send
from strato.cli.job.wait import wait_until_completed
from strato.cli.submit.options import FOREIGN
from strato.cli.submit.plan import SbatchChecks, config_map, job_of, login, name_for, request_of
from strato.cli.submit.script import LARGEST_BYTES, Script, wrapped
from strato.client.cluster import Cluster
from strato.errors import InvalidInput, Problem, UsageError, one_line

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SCRIPT = "strato.submit.script"
_MOST_PROBLEMS = 100
"""Most lines whose problems are told; each is compared with all options, for one that may be meant."""
_CREATED = "strato.submit.created"
"""Key in the context's meta of the callback that srun wants to be called with the job's name."""


class SubmitCommand(click.Command):
    """A command whose options may also stand in the script; those of the command line come later and override them."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the script that the arguments name, and put its options before them."""
        args = filled_in(self.params, args, interspersed=False)
        try:
            found, _, _ = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError:
            return super().parse_args(ctx, args)  # the parser reports the error
        path, wrap = (found.get(name) for name in ("script", "wrap"))  # click represents a missing value by a sentinel
        if found.get("help") or not (isinstance(path, str) or isinstance(wrap, str)):
            return super().parse_args(ctx, args)
        script = wrapped(wrap) if isinstance(wrap, str) else _read(str(path))
        ctx.meta[_SCRIPT] = script
        lines = {one.line: filled_in(self.params, one.words, interspersed=False) for one in script.directives}
        parser = self.make_parser(ctx)
        wrong = ((line, text) for line, words in lines.items() if (text := _problem(parser, words)))
        if problems := [Problem(f"line {line}", text) for line, text in islice(wrong, _MOST_PROBLEMS)]:
            raise InvalidInput(script.name, problems)
        return super().parse_args(ctx, [*(word for words in lines.values() for word in words), *args])


def _problem(parser: Any, words: list[str]) -> str:
    """Return the error of one of the script's option lines, parsed alone, to name the line in the message."""
    try:
        found, _, _ = parser.parse_args(list(words))
    except click.UsageError as error:
        return error.format_message()
    if isinstance(found.get("script"), str):
        return f"{found['script']!r} is no option"
    return ""


def _read(path: str) -> Script:
    if path == "-":
        return Script.read("standard input", sys.stdin.buffer.read(LARGEST_BYTES + 1))
    try:
        with open(path, "rb") as file:
            return Script.read(path, file.read(LARGEST_BYTES + 1))
    except OSError as error:
        raise UsageError(one_line(error)) from error


def _text(*names: str, help: str, metavar: str | None = None, default: str = "") -> click.Option:
    return click.Option(names, default=default, metavar=metavar, help=help)


_OPTIONS: list[click.Parameter] = [
    _text("-J", "--job-name", metavar="NAME", help="Name of the job; letters are added to make it unique."),
    _text("--image", "--container-image", help=IMAGE_HELP),
    _text("-p", "--partition", "--queue", metavar="QUEUE", help="Queue."),
    _text("-N", "--nodes", metavar="N[-MAX]", help="Pods, which start together."),
    _text("-n", "--ntasks", metavar="N", help="Tasks in all; they make the cpus of the pods."),
    _text("--ntasks-per-node", metavar="N", help="Tasks of each pod."),
    _text("-c", "--cpus-per-task", metavar="N", help="Cpus of each task."),
    _text("--mem", metavar="SIZE", help="Memory of each pod: 4G; without a unit megabytes."),
    _text("--mem-per-cpu", metavar="SIZE", help="The same for each cpu."),
    _text("--mem-per-gpu", metavar="SIZE", help="The same for each GPU."),
    _text("-G", "--gpus", metavar="N", help="GPUs of the job, shared equally by its pods."),
    _text("--gpus-per-node", metavar="N", help="GPUs of each pod."),
    _text("--gpus-per-task", metavar="N", help="GPUs of each task."),
    _text("--gres", metavar="gpu:N", help="GPUs of each pod."),
    _text("-t", "--time", metavar="LIMIT", help="What a pod may run: 30 (minutes), 1:30:00, 2-12:00:00, 90m."),
    _text("-a", "--array", metavar="INDEXES[%LIMIT]", help="Run once for each index: 0-99, 1,3,5-9:2; %10 at once."),
    _text("-d", "--dependency", metavar="TYPE:JOB", help="after, afterany, afterok, afternotok: all must come true."),
    _text("-A", "--account", help="Label strato.dev/account of the job."),
    _text("-q", "--qos", metavar="CLASS", help="PriorityClass."),
    _text("--priority", metavar="CLASS", help="The same; a number is ignored."),
    _text("--mail-user", metavar="ADDRESS", help="Who gets mail."),
    _text("--mail-type", metavar="TYPES", help="What about: BEGIN, END, FAIL, ALL, NONE."),
    _text(
        "--export", metavar="VARIABLES", help="Variables of the containers: A,B=1; the environment as a whole is not."
    ),
    click.Option(("-E", "--env"), multiple=True, metavar="KEY[=VALUE]", help="Variable of the containers."),
    _text("-D", "--chdir", metavar="DIR", help="Where the script runs, in the container."),
    _text("--comment", help="Annotation strato.dev/comment of the job."),
    click.Option(("--requeue/--no-requeue",), default=False, help="Start again when a pod is evicted."),
    _text("--wrap", default="", metavar="COMMAND", help="Run this with /bin/sh instead of a script."),
    click.Option(("-W", "--wait"), is_flag=True, help="Follow the job until it ends; fail when the job fails."),
    click.Option(("--parsable",), is_flag=True, help="Print the job's name alone."),
    click.Option(("-Q", "--quiet"), is_flag=True, help="Print nothing but errors."),
    click.Option(("--test-only",), is_flag=True, help="As --dry-run=server, and print nothing of it."),
    _text("--namespace", default="default", help="Namespace."),
]


@click.command(cls=SubmitCommand)
@dry_run_option
@click.argument("script", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def submit(ctx: click.Context, /, script: str | None, args: tuple[str, ...], dry_run: str, **options: Any) -> None:
    """Submit a batch SCRIPT with ARGS; its lines '#SBATCH …' and '#STRATO …' are options too.

    The options are sbatch's. The script runs in every pod, with its own interpreter; several nodes are a gang.
    """
    found: Script | None = ctx.meta.get(_SCRIPT)
    if found is None:
        raise UsageError("no script: give a file, - for standard input, or --wrap COMMAND")
    if options["wrap"] and script:
        raise UsageError(f"--wrap is given, and a script too: {script}; give one")
    checks = SbatchChecks(found.name)
    options["job_name"] = options["job_name"] or Path(found.name).stem
    options["submit_dir"], options["user"] = os.getcwd(), login()
    options["image"] = options["image"] or default_image(ctx)
    notes = _foreign(ctx, options, checks)
    request = request_of(name_for(options["job_name"], _suffix()), options, args, checks)
    checks.done()
    if notes and not options["quiet"]:
        click.echo(f"ignored: {'; '.join(notes)}", err=True)
    submission = JobSubmission(
        job=job_of(request, options), namespace=request.namespace, script=config_map(request, found)
    )
    if dry_run == "client":
        submission.print(None)
        return
    mode = "server" if options["test_only"] else dry_run

    async def work(cluster: Cluster) -> None:
        text = None if options["quiet"] else "{name}" if options["parsable"] else "Submitted batch job {name}"
        created = await send(cluster, submission, dry_run=mode, text=text, show=not options["test_only"])
        if created is not None and _CREATED in ctx.meta:
            ctx.meta[_CREATED](request.name)
        if created is not None and not options["quiet"]:
            warn_about_images(ctx, created)
        if created is not None and options["wait"]:
            await wait_until_completed(cluster, request.namespace, [request.name], None)

    with_cluster(ctx, work)


submit.params[:0] = _OPTIONS
submit.params += [option for option, _ in FOREIGN]


def _foreign(ctx: click.Context, options: dict[str, Any], checks: SbatchChecks) -> list[str]:
    """Add a problem for each option that must be refused; return the ignored ones, with the reason."""
    left_out = []
    for option, foreign in FOREIGN:
        assert option.name is not None
        if ctx.get_parameter_source(option.name) is not ParameterSource.COMMANDLINE:
            continue
        if foreign.refused:
            checks.problem(foreign.flag, f"has no counterpart: {foreign.why}")
        else:
            left_out.append(f"{foreign.flag} ({foreign.why})")
    if checks.exported(options["export"])[1]:
        left_out.append("--export=ALL (containers have the environment of their image; name variables)")
    if options["priority"].isdecimal():
        left_out.append("--priority (a number; name a PriorityClass)")
    if options["mail_user"] and not options["mail_type"]:
        left_out.append("--mail-user (without --mail-type, as in Slurm)")
    return left_out


def _suffix() -> str:
    return "".join(SystemRandom().choices(_LETTERS, k=5))
