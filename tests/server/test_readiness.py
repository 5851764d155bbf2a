"""/readyz of the embedded server: true once a job may be posted, false while the journal cannot be written."""

from __future__ import annotations

from pathlib import Path
from random import Random

from strato.api import catalog
from strato.cli.apiserver import Api, open_api
from strato.cli.home import Home
from strato.clock import SystemClock
from strato.errors import Unavailable
from strato.metrics import Registry
from strato.server import bootstrap
from strato.server.journal import SqliteJournal
from strato.server.readiness import Readiness
from strato.server.store import Store
from strato.testing.manifests import vcjob


async def opened(directory: Path) -> Api:
    return await open_api(
        Home(directory), SystemClock(), Random(1), Registry(), host="127.0.0.1", port=0, data_dir=directory / "data"
    )


async def test_a_job_is_taken_as_soon_as_the_server_listens(tmp_path: Path) -> None:
    """Nobody but the server runs: no scheduler that makes the default queue, no controllers."""
    for _ in range(2):  # new, and on its journal
        api = await opened(tmp_path)
        try:
            cluster = api.client(bootstrap.ADMIN)
            made = await cluster.create(catalog.VCJOB, vcjob("first").task("worker", 1), "default", dry_run=True)
            assert made["spec"]["queue"] == "default"
        finally:
            await api.close()


def test_an_empty_store_is_not_ready() -> None:
    checks = Readiness(Store(), None)()
    assert checks["journal"] == ""
    assert checks["queues"] == "not created: default, root"
    assert "jobs.batch.volcano.sh" in checks["definitions"]


def test_a_journal_that_cannot_be_written_is_not_ready(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    journal.failure = Unavailable("the disk is full")
    assert Readiness(Store(), journal)()["journal"] == "the disk is full"
    journal.close()
