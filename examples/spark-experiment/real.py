"""The experiment with Spark itself, small: queries over Parquet on a running cluster, with and without room reserved.

    strato up --cpus 6
    python real.py [--queries 6] [--rows 400000] [--svg real.svg] [--json real.json]

Needs Java, ``pip install pyspark pyarrow`` and a ``strato up`` whose node is this machine. Each query is a driver and
two executors of 1 CPU in cluster mode (``spark-submit --master k8s://``, unmodified). Two ways to run them:

pods       all at once; every pod is scheduled by itself, so six drivers take six CPUs
reserved   all at once; each query has a PodGroup whose minResources are those of its driver and its executors
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import yaml

HERE = Path(__file__).parent
EXECUTORS = 2
STALL_SECONDS = 300.0
"""So long without a pod that begins or ends, and nothing will ever end."""
WAYS = ("pods", "reserved")


@dataclass
class Result:
    """One way, as it went."""

    way: str
    queries: int
    ended: int
    most_drivers: int
    seconds: float | None
    """Until the last query had ended; None where they never do."""
    results: list[str]
    """What the queries printed; equal for equal data."""


def generate(folder: Path, rows: int) -> None:
    """Write the four tables: a year and a half of sales, some hundred items, customers of fifty states."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    items, customers, days = 500, 5000, 540
    tables = {
        "sales": {
            "item": rng.integers(0, items, rows),
            "customer": rng.integers(0, customers, rows),
            "day": rng.integers(0, days, rows),
            "quantity": rng.integers(1, 20, rows),
            "price": np.round(rng.lognormal(2, 1, rows), 2),
        },
        "item": {
            "item": np.arange(items),
            "brand": rng.integers(0, 60, items),
            "maker": rng.integers(0, 100, items),
            "category": rng.integers(0, 10, items),
        },
        "day": {
            "day": np.arange(days),
            "year": 2025 + np.arange(days) // 365,
            "month": 1 + np.arange(days) % 365 // 31,
        },
        "customer": {"customer": np.arange(customers), "state": rng.integers(0, 50, customers)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


class Cluster:
    """A namespace of the running cluster, through ``strato kubectl``'s server and kubectl-like calls."""

    def __init__(self, namespace: str, scratch: Path) -> None:
        import pyspark

        self.namespace = namespace
        self.scratch = scratch
        self.spark = Path(pyspark.__file__).parent
        config = yaml.safe_load(_strato("config", "view", "--raw") or "{}")
        self.server = config["clusters"][0]["cluster"]["server"]
        self.kubeconfig = scratch / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run ``strato kubectl``."""
        return _strato(*args, "-n", self.namespace, stdin=stdin)

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return found

    def submit(self, number: int, data: Path, template: Path, *, is_reserved: bool) -> None:
        """Submit a query; returns once its driver's pod is there."""
        options = {
            "spark.kubernetes.namespace": self.namespace,
            "spark.kubernetes.container.image": "strato/host",
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.kubernetes.scheduler.name": "volcano",
            "spark.kubernetes.submission.waitAppCompletion": "false",
            "spark.executor.instances": str(EXECUTORS),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "3600s",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
        }
        for role in ("driver", "executor"):
            options[f"spark.kubernetes.{role}.podTemplateFile"] = str(template)
            options[f"spark.kubernetes.{role}.request.cores"] = "1"
            if is_reserved:
                options[f"spark.kubernetes.{role}.annotation.scheduling.k8s.io/group-name"] = f"query-{number}"
        if is_reserved:
            self.kubectl("create", "-f", "-", stdin=json.dumps(_group(f"query-{number}")))
        confs = [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
        command = [
            str(self.spark / "bin" / "spark-submit"),
            "--master",
            f"k8s://{self.server}",
            "--deploy-mode",
            "cluster",
        ]
        command += ["--name", f"query-{number}", *confs, f"local://{self.scratch}/query.py", str(data), str(number)]
        subprocess.run(
            command,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "SPARK_HOME": str(self.spark)},
            check=True,
            capture_output=True,
            text=True,
        )


def _strato(*args: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        [shutil.which("strato") or str(Path(sys.executable).parent / "strato"), "kubectl", *args],
        input=stdin, text=True, capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"strato kubectl {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def _group(name: str) -> dict[str, Any]:
    group: dict[str, Any] = yaml.safe_load((HERE / "podgroup.yaml").read_text())
    group["metadata"]["name"] = name
    group["spec"]["minResources"] = {"cpu": str(1 + EXECUTORS)}
    return group


def run(way: str, queries: int, data: Path, scratch: Path) -> Result:
    """Run all queries one way, in a namespace of their own."""
    with _namespace(f"spark-{way}") as namespace:
        cluster = Cluster(namespace, scratch)
        cluster.kubectl("create", "serviceaccount", "spark")
        cluster.kubectl("create", "rolebinding", "spark", "--clusterrole=edit", f"--serviceaccount={namespace}:spark")
        template = _template(scratch, cluster.spark, data)
        began = time.monotonic()
        for number in range(queries):
            cluster.submit(number, data, template, is_reserved=way == "reserved")
        return _follow(way, queries, cluster, began)


def _follow(way: str, queries: int, cluster: Cluster, began: float) -> Result:
    """Watch until all drivers have ended, or nothing moves any more."""
    ended: dict[str, float] = {}
    most, moved, before = 0, time.monotonic(), ""
    while len(ended) < queries and time.monotonic() - moved < STALL_SECONDS:
        phases = {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in cluster.pods()}
        now = json.dumps(phases, sort_keys=True)
        if now != before:
            before, moved = now, time.monotonic()
        drivers = {name: phase for name, phase in phases.items() if name.endswith("-driver")}
        most = max(most, sum(phase == "Running" for phase in drivers.values()))
        for name, phase in drivers.items():
            if phase in ("Succeeded", "Failed"):
                ended.setdefault(name, time.monotonic() - began)
        print(f"\r{way}: {len(ended)} of {queries} queries ended, {most} drivers at most", end="", file=sys.stderr)
        time.sleep(1)
    print(file=sys.stderr)
    printed = []
    for name in sorted(ended):
        log = cluster.kubectl("logs", name, "--tail=-1")
        printed += [line for line in log.splitlines() if line.startswith("result ")]
    seconds = max(ended.values()) if len(ended) == queries else None
    return Result(way, queries, len(printed), most, seconds, sorted(printed))


def _template(scratch: Path, spark: Path, data: Path) -> Path:
    root = Path(sys.prefix)
    entry = scratch / "entrypoint.py"
    for program in (entry.name, "query.py"):
        shutil.copy(HERE / program, scratch)
    folders = {"python": root, "spark": spark, "scratch": scratch, "data": data}
    mounts = [{"name": name, "mountPath": str(path), "readOnly": True} for name, path in folders.items()]
    container = {"name": "main", "command": [str(root / "bin" / "python"), str(entry)], "volumeMounts": mounts}
    volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()]
    template = scratch / "template.yaml"
    template.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": volumes, "containers": [container]}})
    )
    return template


@contextmanager
def _namespace(name: str) -> Iterator[str]:
    _strato("create", "namespace", name)
    try:
        yield name
    finally:
        _strato("delete", "namespace", name)


def svg(results: Sequence[Result]) -> str:
    """Draw how many queries ended, and how long it took."""
    rows = []
    for at, one in enumerate(results):
        y, width = 20 + 40 * at, 360 * one.ended / one.queries
        took = "never all" if one.seconds is None else f"{one.seconds:.0f} s"
        text = escape(f"{one.way}: {one.ended} of {one.queries} ended, {took}")
        rows.append(f'<rect x="10" y="{y}" width="{width:.0f}" height="14" fill="#4477aa"/>')
        rows.append(f'<text x="10" y="{y - 4}" font-size="12" font-family="sans-serif">{text}</text>')
    size = f'width="380" height="{40 * len(results) + 10}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(rows)}</svg>\n'


def main() -> None:
    """Run both ways, print the table, write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=6)
    parser.add_argument("--rows", type=int, default=400_000, help="of the table of sales")
    parser.add_argument("--way", choices=WAYS, action="append", help="only this one; may be repeated")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if shutil.which("java") is None:
        sys.exit("Spark needs Java; on Debian: apt-get install openjdk-17-jre-headless")
    with tempfile.TemporaryDirectory(prefix="spark-experiment-", dir=Path.home()) as scratch:
        data = Path(scratch) / "data"
        generate(data, args.rows)
        results = [run(way, args.queries, data, Path(scratch)) for way in args.way or WAYS]
    print(f"{'run':10} {'ended':>8}  {'most drivers':>12}  {'seconds':>8}")
    for one in results:
        took = "never" if one.seconds is None else f"{one.seconds:.0f}"
        print(f"{one.way:10} {f'{one.ended}/{one.queries}':>8}  {one.most_drivers:>12}  {took:>8}")
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    if args.svg:
        args.svg.write_text(svg(results))


if __name__ == "__main__":
    main()
