"""An imported file shares in the dry run and in the simulator as it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from strato.cli.main import cli

XML = """<allocations>
<queue name="prod"><weight>3</weight><queue name="etl"/>
<queue name="ml"><maxResources>25%</maxResources></queue></queue>
<queue name="adhoc"/>
<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
</allocations>"""
_POD = '{spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 1Gi}}}]}}'
_ROOM = "{cpu: '16', memory: 16Gi, pods: '99'}"
NODE = f"{{apiVersion: v1, kind: Node, metadata: {{name: one}}, status: {{allocatable: {_ROOM}}}}}\n"


def job(name: str, queue: str, replicas: int) -> str:
    return (
        f"---\n{{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {{name: {name}, namespace: default}},\n"
        f" spec: {{queue: {queue}, minAvailable: 1, tasks: [{{name: w, replicas: {replicas}, template: {_POD}}}]}}}}\n"
    )


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    assert result.exception is None, result.output
    return result.output


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    file = tmp_path / "fair-scheduler.xml"
    file.write_text(XML)
    run("yarn", "import", str(file), "-d", str(tmp_path))
    return tmp_path


def test_the_dry_run_shares_three_to_one_and_explains(imported: Path) -> None:
    jobs = imported / "jobs.yaml"
    jobs.write_text(NODE + job("etl", "prod-etl", 20) + job("explore", "adhoc", 20) + job("train", "prod-ml", 9))
    files = ["-f", str(imported / "queues.yaml"), "-f", str(jobs), "--config", str(imported / "scheduler.conf")]
    lines = run("schedule", *files).splitlines()
    placed = [line.partition("-w-")[0] for line in lines if line.startswith("default/") and line.endswith(" one")]
    assert {name: placed.count(f"default/{name}") for name in ("etl", "explore", "train")} == {
        "etl": 8,
        "explore": 4,
        "train": 4,
    }
    why = run("explain", "job/train", *files)
    assert "queue root.prod.ml holds 4096 MB, 4 vcores of its maximum of 4096 MB, 4 vcores" in why


def test_the_simulator_runs_it(imported: Path) -> None:
    trace = imported / "trace.csv"
    rows = [f"{at},60,2,1,1Gi,{queue}" for at in range(5) for queue in ("prod-etl", "prod-ml", "adhoc")]
    trace.write_text("\n".join(["submit,run_time,replicas,cpu,memory,queue", *rows]) + "\n")
    text = run(
        "sim", "run", str(trace), "--nodes", "1x16cpu,16Gi", "--queues", str(imported / "queues.yaml"),
        "--config", str(imported / "scheduler.conf"),
    )  # fmt: skip
    assert "15 of 15 jobs finished" in text
