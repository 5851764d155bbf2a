"""``python -m tests.conformance``: run Kubernetes' conformance suite against an embedded cluster of its own.

What has run is kept in ``build/conformance`` and not run again, so that a run can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.conformance.images import build_images
from tests.conformance.report import page, table
from tests.conformance.suite import UP, Result, Spec, Suite, programs

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/conformance"
SLICE = Path(__file__).parent / "slice.txt"
"""Names of sixty specs of all groups that take seconds."""


def main() -> int:
    """Run, print the table, and write the page after a whole run; 1 when a spec of the slice fails."""
    options = _options()
    built = programs()
    images = build_images(built)
    BUILD.mkdir(parents=True, exist_ok=True)
    kept = BUILD / "results.jsonl"
    if options.fresh or options.slice:
        kept.unlink(missing_ok=True)
    with cluster(images, options.up) as kubeconfig:
        suite = Suite(built, kubeconfig, options.limit_seconds)
        specs = suite.specs()
        results = _load(kept)
        if options.again:
            results = {name: one for name, one in results.items() if one.passed}
        wanted = [spec for spec in specs if spec.name not in results and _is_wanted(spec, options)]
        results |= _run(suite, wanted, options.workers, kept)
    print(table(specs, results), flush=True)
    if options.slice:
        failed = [spec.name for spec in wanted if not results[spec.name].passed]
        print(*(f"failed: {name}: {results[name].reason}" for name in failed), sep="\n")
        return 1 if failed else 0
    if len(results) == len(specs):
        (ROOT / "docs/conformance.md").write_text(page(built.name.removeprefix("v"), specs, results))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--sig", action="append", help="only this group; may be repeated")
    parser.add_argument("--only", default="", help="only specs whose name holds this text")
    parser.add_argument("--slice", action="store_true", help="only the sixty specs of slice.txt, which must pass")
    parser.add_argument("--fresh", action="store_true", help="forget what ran before")
    parser.add_argument("--again", action="store_true", help="run again what has failed")
    parser.add_argument(
        "--workers", type=int, default=6, help="specs at a time; those that want a cluster alone follow"
    )
    parser.add_argument("--limit-seconds", type=int, default=420, help="of one spec")
    parser.add_argument("--up", action="append", default=[], help="a further option of 'strato up'")
    return parser.parse_args()


def _is_wanted(spec: Spec, options: argparse.Namespace) -> bool:
    if options.slice and spec.name not in SLICE.read_text().splitlines():
        return False
    return options.only in spec.name and (not options.sig or spec.sig in options.sig)


@contextmanager
def cluster(images: dict[str, Path], up: Sequence[str]) -> Iterator[Path]:
    """Start a cluster of our own with the images in its store, and end it; gives an administrator's kubeconfig."""
    home = BUILD / "home"
    strato = [sys.executable, "-m", "strato.cli.main", "--home", str(home)]
    try:
        for name, layout in images.items():
            subprocess.run([*strato, "image", "import", name, str(layout)], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*strato, "up", "--port", "0", *UP, *up], check=True)
        yield home / "kubeconfig"
    finally:
        subprocess.run([*strato, "down", "--purge", "--yes"], check=False, stdout=subprocess.DEVNULL)


def _run(suite: Suite, specs: Sequence[Spec], workers: int, kept: Path) -> dict[str, Result]:
    """Run specs, several at a time, then those that want the cluster alone; keep each result once it is known."""
    logs = BUILD / "logs"
    logs.mkdir(exist_ok=True)
    results: dict[str, Result] = {}
    lock = threading.Lock()

    def run(spec: Spec) -> None:
        short = "".join(letter if letter.isalnum() else "-" for letter in spec.name)[:150]
        result = suite.run(spec, logs / f"{short}.log")
        with lock, kept.open("a") as file:
            results[spec.name] = result
            file.write(json.dumps(asdict(result)) + "\n")
            print(f"{'pass' if result.passed else 'FAIL'} {result.seconds:6.1f}s {spec.name}", flush=True)

    for serial, threads in ((False, workers), (True, 1)):
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, [spec for spec in specs if spec.is_serial == serial]))
    return results


def _load(kept: Path) -> dict[str, Result]:
    if not kept.exists():
        return {}
    found = [Result(**json.loads(line)) for line in kept.read_text().splitlines()]
    return {result.name: result for result in found}


if __name__ == "__main__":
    sys.exit(main())
