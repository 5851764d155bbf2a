"""``strato sim run``: an experiment, or a trace under one or several policies, in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from strato.cli.inputs import INPUT_FILE, STDIN, seekable
from strato.cli.optiongroups import option_group
from strato.cli.sim.experimentoutputs import ExperimentOutputs, output_options, run_and_write
from strato.cli.sim.progress import ProgressLine
from strato.errors import InvalidInput, Problem, UsageError

if TYPE_CHECKING:
    from strato.sim.experiments.plan import Experiment, PolicyText, TraceSource, Variant

T = TypeVar("T")
FIDELITIES = ("objects", "decisions")


class TraceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the cluster on which a trace is run; for an experiment its file has these settings."""

    nodes: str
    queues: Path | None
    queue_by: str | None
    limit: int
    strict: bool
    format: str

    def given(self) -> list[str]:
        """Return the options that were given."""
        options = {
            "--nodes": self.nodes,
            "--queues": self.queues,
            "--queue-by": self.queue_by,
            "--limit": self.limit,
            "--strict": self.strict,
            "--format": self.format,
        }
        return [name for name, value in options.items() if value]


_trace_options = option_group(
    "on",
    lambda format_, **given: TraceOptions(format=format_, **given),
    [
        click.option(
            "--nodes",
            default="",
            help="Shapes: COUNTxCPUcpu,MEMORY[,Ngpu][,overcommit=F]+…; the trace's own nodes, or else 100x32cpu,256Gi.",
        ),
        click.option("--queues", type=INPUT_FILE, default=None, help="YAML file with Queue manifests."),
        click.option(
            "--queue-by", type=click.Choice(["queue", "user", "group"]), default=None, help="What makes queues."
        ),
        click.option("--limit", default=0, type=click.IntRange(0), help="Only the first so many jobs; 0 is all."),
        click.option("--strict", is_flag=True, help="A line of the trace that cannot be read is an error."),
        click.option("--format", "format_", default="", metavar="NAME", help="Read the trace as this format."),
    ],
)


@click.command()
@click.argument("experiment", nargs=-1, required=True, type=INPUT_FILE, metavar="EXPERIMENT|TRACE...")
@_trace_options
@click.option("--config", type=INPUT_FILE, default=None, help="The scheduler's configuration file.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Compare configuration files: repeat it, and the trace is run under each, side by side.",
)
@click.option("--seed", default=None, type=int, help="The same seed gives the same bytes; 0 by default.")
@click.option("--seeds", default=0, type=click.IntRange(0, 1000), help="Run so many seeds: 0, 1, …")
@click.option(
    "--fidelity",
    type=click.Choice(FIDELITIES),
    default=None,
    help="Every API object, or the scheduler's decisions only, which are the same and faster.",
)
@output_options
def run(
    experiment: tuple[Path, ...],
    on: TraceOptions,
    config: Path | None,
    policies: tuple[str, ...],
    seed: int | None,
    seeds: int,
    fidelity: str | None,
    outputs: ExperimentOutputs,
) -> None:
    """Run an EXPERIMENT (YAML) or a TRACE (files of one trace, or a model) and print waits, use, makespan.

    A trace may be of any format that 'sim traces' lists, and gzipped; - is standard input.
    """
    from strato.sim.experiments.file import is_experiment

    if policies and config is not None:
        raise UsageError("--config and --policy: name each configuration to compare by a --policy of its own")
    if seeds and seed is not None:
        raise UsageError("--seed and --seeds: give one of them")
    chosen = tuple(range(seeds)) if seeds else None if seed is None else (seed,)
    named = [("", config)] if config is not None else [_policy(text) for text in policies]
    with ExitStack() as stack:
        if len(experiment) == 1 and is_experiment(experiment[0]):
            if on.given():
                raise UsageError(f"{', '.join(on.given())}: write these into {experiment[0]}")
            plan = _changed(experiment[0], named, chosen, fidelity)
        else:
            files = [stack.enter_context(seekable(file)) if file == STDIN else file for file in experiment]
            plan = _of_trace(experiment[0].name, files, on, named, chosen or (0,), fidelity or FIDELITIES[0])
        run_and_write(plan, outputs, ProgressLine().show_runs if sys.stderr.isatty() else None)


def _policy(text: str) -> tuple[str, Path]:
    """Read ``[NAME=]FILE``; without a name the policy is called like its file.

    Raises:
        UsageError: The text names no file, or one that does not exist.
    """
    name, equals, file = text.rpartition("=")
    path = Path(file)
    if not file or (equals and not name):
        raise UsageError(f"--policy {text!r}: expected NAME=FILE or FILE")
    if not path.is_file():
        raise UsageError(f"--policy {text!r}: there is no file {file}")
    return name or path.stem, path


def _changed(
    file: Path, policies: Sequence[tuple[str, Path]], seeds: tuple[int, ...] | None, fidelity: str | None
) -> Experiment:
    """Read an experiment; values given on the command line override the file's."""
    from dataclasses import replace

    from strato.sim.experiments.file import read_experiment

    found = read_experiment(file)
    problems: list[Problem] = []
    if fidelity == FIDELITIES[0] and any(variant.models for variant in found.variants):
        problems.append(Problem("--fidelity objects", "the performance models of the file need --fidelity decisions"))
    texts = _texts(policies, problems)
    if problems:
        raise InvalidInput("the experiment", problems)
    return replace(
        found,
        policies=texts or found.policies,
        seeds=found.seeds if seeds is None else seeds,
        fidelity=fidelity or found.fidelity,
    )


def _of_trace(
    name: str,
    files: Sequence[Path],
    on: TraceOptions,
    policies: Sequence[tuple[str, Path]],
    seeds: tuple[int, ...],
    fidelity: str,
) -> Experiment:
    """Return the experiment of one trace under policies.

    Raises:
        InvalidInput: Lists all problems of the inputs.
    """
    from strato.sim.experiments.plan import Experiment, PolicyText, TraceSource

    source = TraceSource(
        sources=tuple(map(str, files)),
        queue_by=on.queue_by or "",
        limit=on.limit,
        strict=on.strict,
        format=on.format,
    )
    problems: list[Problem] = []
    texts = _texts(policies, problems)
    variant = _variant(source, on, problems)
    if problems:
        _collect(problems, source.read)  # problems of the jobs are reported with the others
        raise InvalidInput("the simulation", problems)
    built_in = (PolicyText("", None, "built in"),)
    return Experiment(name=name, policies=texts or built_in, variants=(variant,), seeds=seeds, fidelity=fidelity)


def _texts(policies: Sequence[tuple[str, Path]], problems: list[Problem]) -> tuple[PolicyText, ...]:
    """Read and check configuration files; add their problems to ``problems``.

    Raises:
        UsageError: Two policies have one name.
    """
    from strato.sim.experiments.file import policy_problems
    from strato.sim.experiments.plan import PolicyText
    from strato.sim.experiments.queues import text_of

    names = [name for name, _ in policies]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"--policy: {', '.join(repeated)}: two policies have this name; write NAME=FILE")
    found = []
    for name, path in policies:
        try:
            policy = PolicyText(name, text_of(path), str(path))
        except UsageError as error:
            problems.append(Problem("", str(error)))
        else:
            problems += policy_problems(policy)
            found.append(policy)
    return tuple(found)


def _variant(source: TraceSource, on: TraceOptions, problems: list[Problem]) -> Variant:
    from strato.node.shapes import parse_nodes
    from strato.sim.experiments.plan import Variant
    from strato.sim.experiments.queues import read_queues

    shapes = _collect(problems, lambda: parse_nodes(on.nodes)) if on.nodes else ()
    queues = _collect(problems, lambda: read_queues(str(on.queues) if on.queues else None, "--queues", Path()))
    return Variant(name="", trace=source, nodes=on.nodes, shapes=shapes or (), queues=queues or ())


def _collect(problems: list[Problem], read: Callable[[], T]) -> T | None:
    """Return the result of ``read``; if it raises InvalidInput, add its problems and return None."""
    try:
        return read()
    except InvalidInput as error:
        problems.extend(error.problems)
    except UsageError as error:
        problems.append(Problem("", str(error)))
    return None
