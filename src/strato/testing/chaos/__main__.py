"""`python -m strato.testing.chaos`: run many seeds, or replay one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click
import msgspec

from strato.clock import work_timer
from strato.decoding import UNDECODABLE
from strato.errors import InvalidInput, one_line
from strato.scheduler.config import parse_config
from strato.testing.chaos.campaign import Result, be_quiet, read_results, run_seeds, try_seed
from strato.testing.chaos.plan import ChaosPlan, from_json, to_json
from strato.testing.chaos.run import draw_plan, play

_PROGRESS_SECONDS = 2.0


@click.command()
@click.option("--seeds", default=200, show_default=True, help="How many to play.")
@click.option("--from", "first", default=0, show_default=True, help="The first one.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Processes at a time.")
@click.option(
    "--resume",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Where results are kept; what is there already is not played again.",
)
@click.option("--seed", "replayed", type=int, default=None, help="Play this one and show all that happens.")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=None,
    help="Play a plan that was saved, and show all that happens.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="With --seed: where to write the plan when it fails, minimised unless --no-minimise.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=None,
    help="The scheduler's configuration, with plugins of your own; by default the embedded cluster's.",
)
@click.option(
    "--minimise/--no-minimise",
    "minimises",
    default=True,
    show_default=True,
    help="Whether failing seeds are made small.",
)
def main(
    seeds: int,
    first: int,
    jobs: int,
    file: Path | None,
    replayed: int | None,
    plan_file: Path | None,
    save: Path | None,
    config_file: Path | None,
    minimises: bool,
) -> None:
    """Run a whole cluster in virtual time under a seeded adversary, for many seeds."""
    be_quiet()
    if plan_file is not None:
        sys.exit(_show(_read_plan(plan_file)))
    config = _read_config(config_file)
    if replayed is not None:
        sys.exit(
            _show(draw_plan(replayed, config)) if save is None else _save(replayed, config, save, minimises=minimises)
        )
    work = partial(run_seeds, jobs=jobs, config=config, minimises=minimises)
    sys.exit(_campaign(range(first, first + seeds), file, work))


def _read_config(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        text = path.read_text()
        parse_config(text, str(path))
    except (OSError, UnicodeDecodeError, InvalidInput) as error:
        raise click.ClickException(str(error)) from error
    return text


def _read_plan(path: Path) -> ChaosPlan:
    try:
        return from_json(path.read_bytes())
    except (*UNDECODABLE, OSError) as error:
        raise click.ClickException(f"{path} holds no plan: {one_line(error)}") from error


def _show(plan: ChaosPlan) -> int:
    outcome = play(plan)
    for at, text in outcome.story:
        click.echo(f"{at:9.3f} s  {text}")
    click.echo(f"seed {plan.seed}: {outcome.changes} changes, hash {outcome.digest[:16]}")
    for finding in outcome.findings:
        click.echo(f"found: {finding}")
    return int(bool(outcome.findings))


def _save(seed: int, config: str, path: Path, *, minimises: bool) -> int:
    result = try_seed(seed, config=config, minimises=minimises)
    _report(result)
    if result.plan is not None:
        path.write_bytes(to_json(result.plan))
    return int(bool(result.findings))


def _campaign(seeds: range, file: Path | None, work: Callable[[Sequence[int]], Iterator[Result]]) -> int:
    results = {} if file is None else {s: r for s, r in read_results(file).items() if s in seeds}
    for result in results.values():
        if result.findings:
            _report(result)
    left = [seed for seed in seeds if seed not in results]
    began = shown = work_timer()
    for result in work(left):
        results[result.seed] = result
        if file is not None:
            with file.open("ab") as lines:
                lines.write(msgspec.json.encode(result) + b"\n")
        if result.findings:
            _report(result)
        if work_timer() - shown > _PROGRESS_SECONDS:
            shown = work_timer()
            _progress(results, len(seeds), shown - began, done=len(results) - (len(seeds) - len(left)))
    bad = sorted(result.seed for result in results.values() if result.findings)
    faults, changes = sum(r.faults for r in results.values()), sum(r.changes for r in results.values())
    click.echo(f"{len(results)} seeds, {faults} faults, {changes} changes, {len(bad)} seeds with findings")
    if bad:
        click.echo(f"failing: {', '.join(map(str, bad))}")
    return int(bool(bad))


def _progress(results: dict[int, Result], total: int, seconds: float, *, done: int) -> None:
    left = (total - len(results)) * seconds / max(1, done)
    bad = sum(bool(result.findings) for result in results.values())
    text = f"{len(results)}/{total} seeds, {bad} with findings, {left / 60:.0f} min left"
    click.echo(f"\r{text}", err=True, nl=not sys.stderr.isatty())


def _report(result: Result) -> None:
    click.echo(f"\nseed {result.seed} fails:")
    for finding in result.findings[:5]:
        click.echo(f"  {finding}")
    if result.plan is not None:
        what = "minimised to" if result.is_minimised else "the whole run:"
        click.echo(f"{what} {len(result.plan.steps)} steps and {len(result.plan.faults)} faults:")
    for line in result.story:
        click.echo(f"  {line}")
    click.echo(f"again: python -m strato.testing.chaos --seed {result.seed}")


if __name__ == "__main__":
    main()
