"""Runs on a real cluster of Dask: the records are those of this machine's processes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from strato.errors import UsageError
from strato.sim.experiments.dask import run_on_dask
from strato.sim.experiments.pool import run_all
from strato.sim.results.storing import encode_run
from tests.sim.experiments import fakes
from tests.sim.experiments.test_pool import experiment

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's own threads and sockets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("submit,run_time,replicas,cpu\n0,10,1,1\n5,20,2,1\n")
    return tmp_path


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            protocol="tcp",
            local_directory=str(tmp_path),
        )
    try:
        yield cluster.scheduler_address
    finally:
        with contextlib.suppress(Exception):
            cluster.close()


def test_a_cluster_gives_what_processes_give_and_resumes(folder: Path, address: str) -> None:
    here = run_all(experiment(folder, seeds=1), folder / "here", cores=1, execute_run=fakes.one_after_another)
    there = run_on_dask(experiment(folder, seeds=1), folder / "there", address, execute_run=fakes.one_after_another)
    assert there.is_complete
    assert [encode_run(there.record(work), "") for work in there.finished] == [
        encode_run(here.record(work), "") for work in here.finished
    ]
    again = run_on_dask(
        experiment(folder, seeds=1), folder / "there", address, resume=True, execute_run=fakes.full_disk
    )
    assert again.is_complete, "nothing was run"
    failed = run_on_dask(experiment(folder, seeds=1), folder / "failed", address, execute_run=fakes.failing)
    assert failed.failures == {"slow, seed 0": "this policy cannot run"}
    assert len(failed.finished) == 1


def test_an_address_without_a_scheduler_is_refused_in_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strato.sim.experiments.dask._CONNECT_SECONDS", 0.2)
    with pytest.raises(UsageError, match=r"--dask tcp://127\.0\.0\.1:9: no scheduler of Dask answers there"):
        run_on_dask(experiment(folder), folder / "runs", "tcp://127.0.0.1:9")
