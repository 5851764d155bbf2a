"""The file of rows: what is appended is read, by others and after a restart, and damage is said."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from strato.history.rows import COMPLETED, Host, PodContainer
from strato.history.store import HistoryError, HistoryStore
from tests.history.test_statistics import host, run

REPLICA = PodContainer(run_id="1/0", role="worker", index="0", pod="p", container="c", started=1.0, seen=2.0)


def test_the_newest_row_of_a_thing_is_what_is_known_of_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    store = HistoryStore(path)
    done = run(1, started=5.0, ended=9.0)
    store.append([run(1, phase="Pending"), done, REPLICA])
    counted = PodContainer(
        **{name: getattr(REPLICA, name) for name in REPLICA.__struct_fields__} | {"cpu_samples": {7: 3}}
    )
    store.append([counted, host("a", 0.0, 8, 0.5)])
    reader = HistoryStore(path, read_only=True)
    assert reader.runs() == [done]
    assert reader.replicas() == [counted]
    assert reader.hosts() == [Host(ts=0.0, node="a", cpu_capacity=8.0, cpu_used=4.0)]
    assert reader.runs(since=10.0) == []
    reader.close()
    store.forget(100.0)
    assert (store.runs(), store.hosts()) == ([], [])
    store.close()


def test_rows_outlive_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        store = HistoryStore(tmp_path / "history.db")
        store.append([run(1, phase=COMPLETED, ended=1.0)])
        store.close()
    assert len(HistoryStore(tmp_path / "history.db", read_only=True).runs()) == 1


def test_a_file_of_the_first_version_is_read_and_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    store = HistoryStore(path)
    store.append([host("a", 0.0, 8, 0.5)])
    store.close()
    database = sqlite3.connect(path)
    database.execute("ALTER TABLE host DROP COLUMN cpu_allocatable")
    database.execute("PRAGMA user_version=1")
    database.close()
    old = Host(ts=0.0, node="a", cpu_capacity=8.0, cpu_used=4.0)
    reader = HistoryStore(path, read_only=True)
    assert reader.hosts() == [old]
    reader.close()
    for _ in range(2):
        store = HistoryStore(path)
        assert store.hosts()[0] == old
        store.close()
    store = HistoryStore(path)
    new = Host(ts=300.0, node="a", cpu_capacity=8.0, cpu_used=4.0, cpu_allocatable=12.0)
    store.append([new])
    assert store.hosts() == [old, new]
    store.close()


def _foreign(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version=99")
    database.close()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        pytest.param(lambda path: None, "no such file", id="a file that is not there"),
        pytest.param(lambda path: path.write_text("no database" * 100), "cannot be read", id="another kind of file"),
        pytest.param(_foreign, "version 99", id="a file of a newer program"),
    ],
)
def test_a_file_that_cannot_be_used_is_said(tmp_path: Path, prepare: object, message: str) -> None:
    path = tmp_path / "history.db"
    prepare(path)  # type: ignore[operator]  # a table of callables
    with pytest.raises(HistoryError, match=message):
        HistoryStore(path, read_only=True)


def test_an_empty_file_is_no_history(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.touch()
    with pytest.raises(HistoryError, match="version 0"):
        HistoryStore(path, read_only=True)
