"""``strato sim replay``: decide a recorded log anew, under its own policy or another; print its state at one time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.inputs import INPUT_FILE
from strato.errors import StateError, UsageError

if TYPE_CHECKING:
    from strato.scheduler.framework.options import Config
    from strato.sim.recording.log import Log
    from strato.sim.recording.replay import ReplayDifference, ReplayTally


@click.command()
@click.argument("log_path", metavar="LOG", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--policy", type=INPUT_FILE, default=None, help="Decide by this configuration instead of the recorded one."
)
@click.option("--closed-loop", is_flag=True, help="With --policy: run the recorded workload forward under it.")
@click.option("--since", default=None, metavar="INSTANT", help="Begin at the last snapshot before.")
@click.option("--until", default=None, metavar="INSTANT", help="End there.")
@click.option("--at", default=None, metavar="INSTANT", help="Write the world at an instant, for 'schedule -f', to -o.")
@click.option(
    "-o", "--output", default=None, metavar="DIR|table|json", help="With --at the directory; else the format."
)
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="Show so many cycles; 0 is all.")
@click.option(
    "--parquet", type=click.Path(path_type=Path), default=None, help="Write the decisions into a file as well."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of --closed-loop.")
def replay(
    log_path: Path,
    policy: Path | None,
    closed_loop: bool,
    since: str | None,
    until: str | None,
    at: str | None,
    output: str | None,
    limit: int,
    parquet: Path | None,
    seed: int,
) -> None:
    """Decide every cycle of LOG anew and name the decisions that differ.

    Under the recorded policy none may differ where the log is a scheduler's own (exit status 1 if one does). Under
    another, each cycle is decided on the world that the scheduler had then. INSTANT is a date, +90s after the log's
    beginning, or seconds since 1970.
    """
    from strato.scheduler.config import read_config
    from strato.sim.recording.instants import parse_instant
    from strato.sim.recording.log import open_log

    log = open_log(log_path)
    for torn in log.torn:
        click.echo(f"note: {torn}", err=True)
    if at is not None:
        _travel(log, parse_instant(at, log.begin), output)
        return
    if output not in (None, "table", "json"):
        raise UsageError(f"-o {output!r}: write table or json; a directory goes with --at")
    if closed_loop and policy is None:
        raise UsageError("--closed-loop: name the policy to run forward with --policy FILE")
    if parquet is not None:
        from strato.sim.recording.parquet import write_decisions

        click.echo(f"{write_decisions(log, parquet)} decisions written to {parquet}", err=True)
    config = read_config(policy) if policy is not None else None
    if closed_loop and policy is not None and config is not None:
        _run_forward(log, config, policy.stem, seed, output or "table")
        return
    begin = parse_instant(since, log.begin) if since is not None else None
    end = parse_instant(until, log.begin) if until is not None else float("inf")
    tally = _decide(log, config, begin, end, output or "table", limit)
    if config is None and tally.is_exact and tally.differing:
        raise StateError("the replay is not what was recorded; please report it with the log")


def _decide(log: Log, config: Config | None, since: float | None, until: float, output: str, limit: int) -> ReplayTally:
    """Replay and print."""
    from strato.cli.sim.progress import ProgressLine
    from strato.cli.states import as_json
    from strato.sim.recording.replay import ReplayTally, replay

    tally, shown, rows = ReplayTally(), 0, []
    line, span = ProgressLine(), max(log.end - log.begin, 1.0)

    def progress(at: float) -> None:
        if sys.stderr.isatty():
            line.show_part(min((at - log.begin) / span, 0.999), f"replayed, {tally.cycles} cycles")

    for difference in replay(log, config, since=since, until=until, tally=tally, progress=progress):
        if limit and shown >= limit:
            continue
        shown += 1
        if output == "json":
            rows.append(_difference_json(difference))
        else:
            click.echo(_difference_text(difference))
    if sys.stderr.isatty():
        line.show_part(1.0, f"replayed, {tally.cycles} cycles")
    for note in tally.notes:
        click.echo(f"note: {note}", err=True)
    if output == "json":
        click.echo(as_json(_tally_json(tally) | {"differences": rows}))
    else:
        if tally.differing > shown:
            click.echo(f"… and {tally.differing - shown} cycles more; --limit 0 shows all")
        click.echo(_summary(tally, is_other=config is not None))
    return tally


def _run_forward(log: Log, config: Config, name: str, seed: int, output: str) -> None:
    """Run the workload forward and print how it went."""
    from strato.cli.sim.progress import ProgressLine
    from strato.cli.states import as_json
    from strato.sim.recording.closedloop import run_forward

    show = ProgressLine().show if sys.stderr.isatty() else None
    outcome = run_forward(log, config, name=name, seed=seed, progress=show)
    for note in outcome.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(as_json(outcome.to_json()) if output == "json" else outcome.to_table())


def _difference_text(difference: ReplayDifference) -> str:
    from strato.sim.recording.instants import show_instant

    lines = [f"cycle {difference.cycle} at {show_instant(difference.at)}"]
    for pod, then, now in difference.binds:
        if then and now:
            lines.append(f"  {pod}: {then} -> {now}")
        else:
            lines.append(f"  {pod}: bound to {now}, had waited" if now else f"  {pod}: waits, had been bound to {then}")
    for pod, cause, new_cause in difference.evictions:
        if new_cause is None:
            lines.append(f"  {pod}: stays, had been evicted" + (f" for {cause}" if cause else ""))
        else:
            lines.append(f"  {pod}: evicted{f' for {new_cause}' if new_cause else ''}, had stayed")
    return "\n".join(lines)


def _difference_json(difference: ReplayDifference) -> dict[str, Any]:
    return {
        "cycle": difference.cycle,
        "at": difference.at,
        "binds": [one._asdict() for one in difference.binds],
        "evictions": [one._asdict() for one in difference.evictions],
    }


def _tally_json(tally: ReplayTally) -> dict[str, Any]:
    return {
        "cycles": tally.cycles,
        "binds": {
            "recorded": tally.binds,
            "same": tally.same_binds,
            "elsewhere": tally.elsewhere,
            "more": tally.more_binds,
        },
        "evictions": {"recorded": tally.evictions, "same": tally.same_evictions, "more": tally.more_evictions},
        "differingCycles": tally.differing,
        "exact": tally.is_exact,
        "notes": tally.notes,
    }


def _summary(tally: ReplayTally, *, is_other: bool) -> str:
    text = (
        f"{tally.cycles} cycles: {tally.same_binds} of {tally.binds} binds and {tally.same_evictions} of "
        f"{tally.evictions} evictions are the same"
    )
    if tally.elsewhere:
        text += f"; {tally.elsewhere} binds go to another node"
    if tally.more_binds or tally.more_evictions:
        text += f"; {tally.more_binds} binds and {tally.more_evictions} evictions more"
    if tally.differing:
        return f"{text}; {tally.differing} cycles differ"
    return f"{text}; no decision differs" + ("" if is_other else " from what was recorded")


def _travel(log: Log, instant: float, output: str | None) -> None:
    from strato.sim.recording.travel import write_world

    if output is None:
        raise UsageError("--at INSTANT: name the directory for the manifests with -o DIR")
    for path in write_world(log, instant, Path(output)):
        click.echo(path)
