"""``strato flow``: minimum-cost flow without the scheduler: as a service for Poseidon, on DIMACS files, on traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.inputs import INPUT_FILE
from strato.clock import SystemClock
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.mincost.graph import FlowScheduler
    from strato.mincost.simulate import Measures, TraceEvent

_KERNELS = ("race", "paths", "simplex", "scaling")


@click.group()
def flow() -> None:
    """Schedule by minimum-cost flow, without Kubernetes."""


@flow.command()
@click.option("--listen", default="127.0.0.1:9090", show_default=True, metavar="HOST:PORT", help="Address to serve on.")
@click.option("--model", default="cpu", show_default=True, help="Cost model: name, number or FILE.py:CLASS.")
@click.option("--preemption/--no-preemption", default=False, help="Whether running tasks may be moved and evicted.")
def serve(listen: str, model: str, preemption: bool) -> None:
    """Serve firmament.FirmamentScheduler over gRPC, as an unmodified Poseidon expects it."""
    import asyncio

    from strato.cli.serving import configure_logging, make_random, stop_on_signals
    from strato.mincost.graph import FlowScheduler, warm_up
    from strato.mincost.models import load
    from strato.mincost.service.scheduler import FirmamentService
    from strato.mincost.service.server import start
    from strato.mincost.world import FlowWorld

    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {listen!r} is no address; write HOST:PORT, for example 127.0.0.1:9090")
    configure_logging()
    world = FlowWorld(preemption=preemption)
    engine = FlowScheduler(world, load(model)(world, make_random()), check_vectors=True)
    warm_up()

    async def main() -> None:
        server, bound = await start(FirmamentService(engine, SystemClock()), listen)
        click.echo(f"serving firmament.FirmamentScheduler on {host}:{bound}")
        stop = asyncio.Event()
        try:
            with stop_on_signals(stop):
                await stop.wait()
        finally:
            await server.stop(1.0)

    asyncio.run(main())


@flow.command()
@click.argument("file", type=INPUT_FILE)
@click.option("--kernel", type=click.Choice(_KERNELS), default="race", show_default=True, help="Which solver.")
@click.option("--check", is_flag=True, help="Prove the answer optimal before printing it.")
def solve(file: Path, kernel: str, check: bool) -> None:
    """Solve FILE (- is standard input), a minimum-cost-flow problem in DIMACS format, and print its solution."""
    from strato.mincost.solvefile import solve_file
    from strato.mincost.solver import Kernel, Solver

    solver = Solver(None if kernel == "race" else (Kernel(kernel),), check=check)
    for line in solve_file(file, solver):
        click.echo(line, nl=False)


@flow.command()
@click.argument("trace", required=False, type=click.Path(path_type=Path))
@click.option("--model", default="quincy", show_default=True, help="Cost model: name, number or FILE.py:CLASS.")
@click.option("--against", type=click.Choice(["random", "spread"]), multiple=True, help="Replay with this one, too.")
@click.option("--machines", default=100, show_default=True, type=click.IntRange(1), help="Machines of a drawn load.")
@click.option("--tasks", default=2000, show_default=True, type=click.IntRange(1), help="Tasks of a drawn load.")
@click.option("--use", default=0.6, show_default=True, type=float, help="Share of the slots a drawn load uses.")
@click.option("--slots", default=12, show_default=True, type=click.IntRange(1), help="Tasks a machine can run.")
@click.option("--speed-up", default=1.0, show_default=True, type=float, help="Divide all times of a trace by this.")
@click.option("--fraction", default=1.0, show_default=True, type=click.FloatRange(0, 1), help="Share of a trace kept.")
@click.option("--preemption/--no-preemption", default=False, help="Whether running tasks may be moved and evicted.")
@click.option(
    "--instant", is_flag=True, help="Count rounds as taking no time, so that a replay can be repeated exactly."
)
@click.option("--seed", default=1, show_default=True, help="Of a drawn load and of the schedulers' chances.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def simulate(
    trace: Path | None,
    model: str,
    against: tuple[str, ...],
    machines: int,
    tasks: int,
    use: float,
    slots: int,
    speed_up: float,
    fraction: float,
    preemption: bool,
    instant: bool,
    seed: int,
    output: str,
) -> None:
    """Replay TRACE, a folder in the Google cluster trace's format, or a drawn load of batch jobs that read files."""
    import copy

    from strato.mincost.models import load
    from strato.mincost.simulate import read_trace, replay
    from strato.mincost.workload import WorkloadOptions, draw

    if speed_up <= 0:
        raise UsageError(f"--speed-up {speed_up:g} is not above 0")
    model_type = load(model)
    events: list[TraceEvent]
    if trace is None:
        events = draw(WorkloadOptions(machines=machines, slots=slots, tasks=tasks, use=use, seed=seed))
    else:
        events = read_trace(trace, slots=slots, speed_up=speed_up, fraction=fraction)
    measure = (lambda: 0.0) if instant else SystemClock().monotonic
    found: dict[str, Measures] = {}
    for name in (model_type.name or model, *against):
        engine = _engine(name, model_type, preemption=preemption, seed=seed)
        found[name] = replay(engine, copy.deepcopy(events), measure)
    reports = {name: measures.report() for name, measures in found.items()}
    if output == "json":
        click.echo(json.dumps(reports, indent=2))
        return
    for line in _table(reports):
        click.echo(line)


def _engine(name: str, model: type, *, preemption: bool, seed: int) -> FlowScheduler:
    import random

    from strato.mincost.graph import FlowScheduler
    from strato.mincost.greedy import Greedy
    from strato.mincost.world import FlowWorld

    world, rng = FlowWorld(preemption=preemption), random.Random(seed)
    if name in ("random", "spread") and name != model.name:  # type: ignore[attr-defined] # a cost model's name
        return Greedy(FlowWorld(), rng, spread=name == "spread")
    return FlowScheduler(world, model(world, rng))


def _table(reports: dict[str, dict[str, float]]) -> list[str]:
    rows = list(dict.fromkeys(key for report in reports.values() for key in report))
    width = max(len(row) for row in rows)
    lines = [" " * width + "".join(f"{name:>14}" for name in reports)]
    for row in rows:
        cells = [
            f"{report[row]:>14.4g}" if isinstance(report.get(row), float) else f"{report.get(row, ''):>14}"
            for report in reports.values()
        ]
        lines.append(f"{row:<{width}}" + "".join(cells))
    return lines
