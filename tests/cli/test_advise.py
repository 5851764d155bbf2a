"""``strato advise`` and ``strato report`` on a recorded file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from strato.advice.histogram import CPU
from strato.cli.main import cli
from strato.errors import StratoError
from strato.history.rows import COMPLETED, Host, JobRun, PodContainer
from strato.history.store import HistoryStore

NOON = 1785585600.0  # 2026-08-01 12:00 UTC
DAY = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return recorded(tmp_path / "history.db", "kubeflow.org/v1/TFJob", "worker")


def recorded(path: Path, kind: str, role: str) -> Path:
    rows: list[JobRun | PodContainer | Host] = []
    for number in range(9):
        start = NOON - number * DAY
        job = f"ctr-day-202608{number + 10}"
        rows.append(
            JobRun(
                run_id=f"{number}/0",
                job_uid=str(number),
                namespace="ads",
                job=job,
                kind=kind,
                template="ctr-day",
                queue="rec",
                submitted=start,
                ready=start + 30,
                started=start + 50,
                ended=start + 4550,
                phase=COMPLETED,
            )
        )
        rows += [
            PodContainer(
                run_id=f"{number}/0",
                role=role,
                index=str(index),
                pod=f"{number}-{index}",
                container="tensorflow",
                started=start + 50,
                ended=start + 4550,
                seen=start + 4550,
                cpu_req=16_000,
                mem_req=32 << 30,
                cpu_core_s=6 * 4500,
                mem_peak=3.1e9,
                cpu_samples={CPU.find(6): 74},
            )
            for index in range(20)
        ]
    rows += [Host(ts=NOON + 300 * n, node="a", cpu_capacity=48, cpu_used=4.8 * (n % 10)) for n in range(30)]
    opened = HistoryStore(path)
    opened.append(rows)
    opened.close()
    return path


def ask(store: Path, *words: str) -> str:
    result = CliRunner().invoke(cli, [*words, "--store", str(store)], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.output


def test_advice_is_a_row_for_each_role(store: Path) -> None:
    head, row = ask(store, "advise").splitlines()
    assert head.split()[:4] == ["QUEUE", "JOB", "ROLE", "CONTAINER"]
    assert row.split()[:9] == ["rec", "ctr-day", "worker", "tensorflow", "20", "9", "16", "6.2/6.2", "7200m"]
    assert row.split()[9:] == ["32Gi", "2.89Gi", "3520Mi", "220", "core·h", "1.00"]
    for words in (["-q", "search"], ["-n", "other"], ["other-job"]):
        assert "no use of training jobs is recorded" in ask(store, "advise", *words)
    assert ask(store, "advise", "ctr-day-20260810") != ask(store, "advise", "other-job")


def test_advice_as_objects_and_patches(store: Path) -> None:
    (item,) = json.loads(ask(store, "advise", "-o", "json"))["items"]
    assert (item["target"], item["confidence"]) == ({"cpu": "7200m", "memory": "3520Mi"}, 1.0)
    autoscaler = yaml.safe_load(ask(store, "advise", "-o", "vpa"))
    assert autoscaler["spec"]["targetRef"] == {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "ctr-day"}
    patch = yaml.safe_load(ask(store, "advise", "-o", "patch"))
    containers = patch["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert containers == [{"name": "tensorflow", "resources": {"requests": {"cpu": "7200m", "memory": "3520Mi"}}}]


def test_advice_for_nodes_of_a_train_job_is_patched_into_the_job(tmp_path: Path) -> None:
    path = recorded(tmp_path / "history.db", "trainer.kubeflow.org/v1alpha1/TrainJob", "node")
    patch = yaml.safe_load(ask(path, "advise", "-o", "patch"))
    assert (patch["kind"], patch["metadata"]["name"]) == ("TrainJob", "ctr-day")
    asked = {"requests": {"cpu": "7200m", "memory": "3520Mi"}}
    assert patch["spec"] == {"trainer": {"resourcesPerNode": asked}}
    other = recorded(tmp_path / "other.db", "trainer.kubeflow.org/v1alpha1/TrainJob", "dataset-initializer")
    assert not yaml.safe_load(ask(other, "advise", "-o", "patch")), "their runtime says what they ask for"


def test_autopilot_advises_less_cpu(store: Path) -> None:
    (item,) = json.loads(ask(store, "advise", "--policy", "autopilot", "-o", "json"))["items"]
    assert item["target"]["cpu"] == "6900m"


def test_report_of_a_day(store: Path) -> None:
    (whole,) = json.loads(ask(store, "report", "--day", "2026-08-01", "--tz", "UTC", "-o", "json"))["items"]
    assert (whole["runs"], whole["meanWaitSeconds"], whole["meanRunSeconds"]) == (1, 30.0, 4500.0)
    assert (whole["hostCpuMean"], whole["hostCpuP90"]) == (pytest.approx(0.45), pytest.approx(0.8))
    week = ask(store, "stats", "--until", "2026-08-01", "--tz", "UTC", "--by", "day,queue", "-o", "csv").splitlines()
    assert len(week) == 8
    assert week[0].startswith("day,queue,runs")
    assert "worker" in ask(store, "report", "--day", "2026-08-01", "--tz", "UTC", "--by", "role")
    assert "1h15m0s" in ask(store, "report", "--day", "2026-08-01", "--tz", "UTC")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--day", "yesterday"], "'yesterday' is no day", id="a day that is none"),
        pytest.param(["--day", "2026-08-01", "--since", "2026-07-01"], "one or the other", id="a day and a period"),
        pytest.param(["--since", "2026-08-02", "--until", "2026-08-01"], "earlier day first", id="backwards"),
        pytest.param(["--tz", "../../etc/passwd"], "no such time zone", id="a zone that is none"),
        pytest.param(["--by", "node"], "divide by any of day, queue, role", id="an unknown division"),
    ],
)
def test_what_cannot_be_reported_is_said(store: Path, words: list[str], message: str) -> None:
    with pytest.raises(StratoError, match=message):
        ask(store, "report", *words)
