"""``strato what-if``: what a change of nodes, queues, policy or load would do to a cluster; nothing is applied."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.inputs import INPUT_FILE
from strato.cli.recordoptions import log_options
from strato.cli.statesource import StateSource, base_of
from strato.errors import InvalidInput, Problem, UsageError

if TYPE_CHECKING:
    from strato.node.shapes import NodeShape
    from strato.scheduler.dryrun.changes import StateChange
    from strato.scheduler.dryrun.states import Header, ManifestState
    from strato.scheduler.dryrun.trial import Copy


@click.command("what-if")
@click.option("--add-nodes", multiple=True, metavar="SHAPES", help="Add nodes: 20x96cpu,1Ti,8gpu+4x32cpu; repeat it.")
@click.option("--drain", multiple=True, metavar="NODE", help="Take a node out of use, its pods evicted; repeat it.")
@click.option("--queue", "queues", multiple=True, metavar="NAME.FIELD=VALUE", help="Set a queue: research.weight=5.")
@click.option("--policy", type=INPUT_FILE, default=None, help="Another configuration of the scheduler.")
@click.option("--submit", multiple=True, metavar="PATH", help="Manifests that are submitted as well; repeat it.")
@click.option("--until-all-start", metavar="SHAPE", default=None, help="Search how many nodes of a shape start all.")
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="Take the state from manifests instead.")
@log_options
@click.option("--config", type=INPUT_FILE, default=None, help="The configuration that is in force.")
@click.option("--run-seconds", type=click.FloatRange(0), default=None, help="Of pods of which nothing is known.")
@click.option("--horizon", default="30d", show_default=True, metavar="DURATION", help="Look so far ahead.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Decides what is left to chance.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def what_if(
    ctx: click.Context,
    add_nodes: tuple[str, ...],
    drain: tuple[str, ...],
    queues: tuple[str, ...],
    policy: Path | None,
    submit: tuple[str, ...],
    until_all_start: str | None,
    paths: tuple[str, ...],
    log_path: Path | None,
    at: str | None,
    config: Path | None,
    run_seconds: float | None,
    horizon: str,
    seed: int,
    output: str,
) -> None:
    """Say what starts, what waits and for how long, before and after changes, which are tried together on a copy.

    How long pods run is taken from their annotations strato.dev/run-seconds and strato.dev/expected-seconds, their
    deadlines, and what pods like them took. Only reads.
    """
    from strato.cli.states import as_json
    from strato.sim.foresight import whatif
    from strato.sim.foresight.runseconds import expected_seconds
    from strato.sim.foresight.whatif_report import to_json, to_table

    source = _Source(ctx, StateSource(paths, config, log_path, at), seed)
    state, header = source.read()
    before, names = source.copy(state, header)
    after, more = source.copy(source.submitted(state, submit), header, policy)
    changes = _changes(before, add_nodes, drain, queues)
    words = [change.text for change in changes]
    words += [f"policy {policy}"] if policy is not None else []
    words += [f"submit {path}" for path in submit]
    after = whatif.applied(after, changes)
    estimate = expected_seconds(run_seconds)
    fewest = whatif.fewest_nodes(after, _shape(until_all_start), estimate) if until_all_start else None
    answer = whatif.what_if(before, after, words, estimate, horizon_seconds=_seconds(horizon), names={**names, **more})
    click.echo(as_json(to_json(answer, fewest)) if output == "json" else to_table(answer, fewest))


def _changes(copy: Copy, add_nodes: Sequence[str], drain: Sequence[str], queues: Sequence[str]) -> list[StateChange]:
    """Read all changes; their problems are reported together."""
    from strato.sim.foresight import whatif

    found, problems = [], list[Problem]()
    for text in add_nodes:
        try:
            found.append(whatif.nodes_added(text))
        except InvalidInput as error:
            problems += [Problem(f"--add-nodes {text}", problem.message) for problem in error.problems]
    for text, read in [*((t, whatif.drained) for t in drain), *((t, whatif.queue_set) for t in queues)]:
        try:
            found.append(read(copy, text))
        except InvalidInput as error:
            problems += [Problem(f"{error.what} {problem.where}", problem.message) for problem in error.problems]
    if problems:
        raise InvalidInput("the question", problems)
    return found


def _shape(text: str) -> NodeShape:
    """Read the shape of one node.

    Raises:
        UsageError: The text describes several shapes of nodes, or none.
    """
    from strato.node.shapes import parse_nodes

    counted = text if re.match(r"\s*\d+\s*x", text) else f"1x{text}"
    shapes = parse_nodes(counted)
    if len(shapes) != 1:
        raise UsageError(f"--until-all-start {text!r}: one shape, for example 96cpu,1Ti,8gpu")
    return shapes[0]


def _seconds(text: str) -> float:
    from strato.node.shapes import days_seconds

    seconds = days_seconds(text)
    if not math.isfinite(seconds):
        raise UsageError(f"--horizon {text!r}: write for example 12h or 30d")
    return seconds


@dataclass(frozen=True, slots=True)
class _Source:
    """Reads the state, and makes copies of it for trial runs."""

    ctx: click.Context
    source: StateSource
    seed: int

    def read(self) -> tuple[ManifestState, Header]:
        """Return the state as it is, and the header with what decides on it."""
        from strato.cli import states

        state, header = states.read_source(self.ctx, self.source, seed=self.seed)
        return self._completed(state, header.now), header

    def _completed(self, state: ManifestState, now: float) -> ManifestState:
        from strato.sim.foresight.whatif_state import with_late_pods

        completed, notes = with_late_pods(state, now)
        for note in notes:
            click.echo(f"note: {note}", err=True)
        return completed

    def submitted(self, state: ManifestState, paths: Sequence[str]) -> ManifestState:
        """Return the state with added manifests, and the pods and groups that controllers would create for them."""
        from strato.cli import states

        if not paths:
            return state
        found = states.read(paths, state.objects)
        return replace(found, header=state.header, problems=[*state.problems, *found.problems])

    def copy(self, state: ManifestState, header: Header, policy: Path | None = None) -> tuple[Copy, Mapping[str, str]]:
        """Return a copy for trial runs, under another policy if one is given, and the names of its jobs."""
        from strato.cli import states
        from strato.sim.foresight.whatif_state import job_names

        config = policy or self.source.config
        if policy is not None:
            header = replace(header, config=states.config_text(policy) or "")
        return states.copy_of(state, header, base_of(config)), job_names(state.objects)
