"""``strato sim load``: load on a cluster at a rate, and performance tests."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.connect import with_cluster
from strato.cli.inputs import INPUT_FILE
from strato.cli.outputs import OUTPUT_FILE, OutputFile
from strato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strato.client.http import HttpCluster
    from strato.sim.load.experiment import LoadTest
    from strato.sim.load.result import LoadResult
    from strato.sim.load.run import LoadProgress, LoadRun


_REDRAW_SECONDS = 0.2


@click.command()
@click.argument("source", type=INPUT_FILE, metavar="TRACE|MODEL|TEST.yaml")
@click.option("--rate", default=None, metavar="N/s", help="Pods submitted per second, in the trace's order.")
@click.option("--speed", default=None, metavar="Nx", help="How many times as fast as in the trace.  [default: 1x]")
@click.option("--as", "kind", type=click.Choice(["jobs", "pods"]), default=None, help="What is made.  [default: jobs]")
@click.option("--run-time", default=None, metavar="TIME", help="Of every pod; the trace's by default.")
@click.option("--scheduler", default=None, help="schedulerName of the pods.  [default: volcano]")
@click.option("--limit", default=None, type=click.IntRange(0), help="Only the first so many jobs; 0 is all.")
@click.option("--drain", default=None, metavar="TIME", help="Wait so long after the last submission.  [default: 60s]")
@click.option("--namespace", default="", help="Made for the load and deleted after it.  [default: strato-load-…]")
@click.option("--picture", type=OUTPUT_FILE, default=None, help="Draw latencies and rates, as .svg or .png.")
@click.option("--json", "json_file", type=OUTPUT_FILE, default=None, help="Write the result here too; - prints it.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def load(
    ctx: click.Context,
    source: Path,
    rate: str | None,
    speed: str | None,
    kind: str | None,
    run_time: str | None,
    scheduler: str | None,
    limit: int | None,
    drain: str | None,
    namespace: str,
    picture: OutputFile | None,
    json_file: OutputFile | None,
    output: str,
) -> None:
    """Submit the jobs of a trace or model to a cluster, whatever it does, and report how long pods took.

    A TEST.yaml (kind: LoadTest) has nodes, load, faults and expectations; it fails, with status 1, when one of these
    does not hold. Everything made is removed in the end.
    """
    from strato.sim.load.experiment import is_test

    given: dict[str, Any] = {
        "--rate": rate,
        "--speed": speed,
        "--as": kind,
        "--run-time": run_time,
        "--scheduler": scheduler,
    }
    given |= {"--limit": limit, "--drain": drain}
    if picture is not None and picture.path is not None and picture.path.suffix not in (".svg", ".png"):
        raise UsageError(f"--picture {picture.path}: its name must end in .svg or .png")
    if picture is not None:
        from strato.sim.pictures.canvas import check_matplotlib

        check_matplotlib()
    if is_test(source):
        if named := [name for name, value in given.items() if value is not None]:
            raise UsageError(f"{', '.join(named)}: a test says so itself, in {source}")
        test = _test(source)
    else:
        test = _plain(str(source), given)
    call = _Call(test, namespace or _own_name(), sys.stderr.isatty())
    result = call.run(ctx)
    _write(call, result, picture, json_file, output)
    if not call.passes(result, err=output == "json"):
        raise SystemExit(1)
    if result.interrupted:
        raise SystemExit(130)


def _test(path: Path) -> LoadTest:
    from strato.sim.load.experiment import read_test

    return read_test(path)


def _plain(source: str, given: dict[str, Any]) -> LoadTest:
    """Return the load test that the options describe."""
    from strato.sim.load.experiment import LoadTest
    from strato.sim.load.plan import LoadOptions, read_rate, read_seconds, read_speed

    if given["--rate"] and given["--speed"]:
        raise UsageError("--rate and --speed exclude each other: a rate replaces the trace's times")
    run, drain = given["--run-time"], given["--drain"]
    options = LoadOptions(
        pods_per_second=read_rate(given["--rate"]) if given["--rate"] else 0.0,
        speed=read_speed(given["--speed"]) if given["--speed"] else 1.0,
        kind=given["--as"] or "jobs",
        run_seconds=None if run is None else read_seconds(run),
        scheduler=given["--scheduler"] or "volcano",
        drain_seconds=60.0 if drain is None else read_seconds(drain),
    )
    return LoadTest("", source, given["--limit"] or 0, options, (), 0, ())


def _own_name() -> str:
    import secrets

    return f"strato-load-{secrets.token_hex(3)}"


@dataclass
class _Call:
    """One call of the command."""

    test: LoadTest
    namespace: str
    shows_progress: bool
    faults: list[str] = field(default_factory=list)
    load: LoadRun | None = None
    _shown_at: float = -1.0

    def run(self, ctx: click.Context) -> LoadResult:
        """Run the load on the chosen cluster, or on a new one with the test's nodes."""
        from strato.sim.traces import read_trace

        jobs = read_trace(self.test.trace, limit=self.test.limit).jobs
        if not self.test.nodes:
            return with_cluster(ctx, lambda cluster: self._on(cluster, jobs))
        with _own_cluster(self.test.nodes) as kubeconfig:
            import asyncio

            return asyncio.run(self._at(kubeconfig, jobs))

    async def _at(self, kubeconfig_path: Path, jobs: Any) -> LoadResult:
        from strato.client import kubeconfig
        from strato.client.http import HttpCluster
        from strato.clock import SystemClock

        cluster = HttpCluster(kubeconfig.load([kubeconfig_path]), SystemClock())
        try:
            return await self._on(cluster, jobs)
        finally:
            await cluster.close()

    async def _on(self, cluster: HttpCluster, jobs: Any) -> LoadResult:
        import asyncio
        from random import Random

        from strato.clock import SystemClock
        from strato.sim.load.faults import apply_faults, heal
        from strato.sim.load.run import LoadRun

        clock, random = SystemClock(), Random(self.test.seed)
        progress = self._show if self.shows_progress else None
        self.load = LoadRun(cluster, clock, random, self.test.options, self.namespace, progress)
        failing = asyncio.create_task(apply_faults(cluster, clock, random, self.test.faults, self.faults))
        try:
            return await self.load.run(jobs, during=[failing])
        finally:
            if self.test.faults and not self.test.nodes:
                await heal(cluster, self.test.faults)

    def _show(self, progress: LoadProgress) -> None:
        if progress.seconds - self._shown_at < _REDRAW_SECONDS:
            return
        self._shown_at = progress.seconds
        text = f"{progress.due_pods} pods submitted, {progress.running_or_ended} ran, {progress.ended} ended"
        click.echo(f"\r\033[K{progress.seconds:.0f}s: {text}", err=True, nl=False)

    def passes(self, result: LoadResult, *, err: bool) -> bool:
        """Print the injected node failures and which expectations hold; return whether all do."""
        if self.shows_progress:
            click.echo("", err=True)
        for line in self.faults:
            click.echo(f"fault {line}", err=err)
        measures = result.measures()
        verdicts = [expectation.verdict(measures) for expectation in self.test.expectations]
        for _, line in verdicts:
            click.echo(line, err=err)
        if result.left_behind:
            click.echo(f"not removed: {result.left_behind}", err=True)
        return all(holds for holds, _ in verdicts)


@contextmanager
def _own_cluster(nodes: str) -> Iterator[Path]:
    """Run ``strato up`` with hollow nodes in a directory of its own; yield its kubeconfig."""
    import subprocess
    import tempfile

    from strato.errors import StateError

    with tempfile.TemporaryDirectory(prefix="strato-load-") as directory:
        base = [sys.executable, "-m", "strato.cli.main", "--home", directory]
        up = [*base, "up", "--port", "0", "--no-sandbox", "--hollow-nodes", nodes]
        started = subprocess.run(up, check=False, capture_output=True, text=True)
        try:
            if started.returncode != 0:
                raise StateError(f"the test's cluster did not start: {started.stderr.strip()[-2000:]}")
            yield Path(directory) / "kubeconfig"
        finally:
            subprocess.run([*base, "down"], check=False, capture_output=True)


def _write(
    call: _Call, result: LoadResult, picture: OutputFile | None, json_file: OutputFile | None, output: str
) -> None:
    if picture is not None and call.load is not None:
        from strato.sim.load.result import picture_of

        drawn = picture_of(call.load.latencies)
        is_png = picture.path is not None and picture.path.suffix == ".png"
        picture.write(drawn.png() if is_png else drawn.svg().encode())
    if json_file is not None:
        json_file.write(result.to_json())
    if json_file is None or json_file.path is not None:  # otherwise standard output is the JSON's
        click.echo(result.to_json() if output == "json" else result.to_table(), nl=False)
