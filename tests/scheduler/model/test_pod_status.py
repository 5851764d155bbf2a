"""What a pod's phase stands for, and its place among the tasks of its job."""

from __future__ import annotations

import msgspec
import pytest

from strato.api.core import Pod
from strato.scheduler.cache.ingest import order_of, status_of
from strato.scheduler.model.tasks import STATUS_NAMES

STATUSES = [
    ("", "", False, "Pending"),
    ("Pending", "", False, "Pending"),
    ("Pending", "n", False, "Bound"),
    ("", "n", False, "Bound"),
    ("Pending", "", True, "Releasing"),
    ("Pending", "n", True, "Releasing"),
    ("Running", "n", False, "Running"),
    ("Running", "n", True, "Releasing"),
    ("Succeeded", "n", False, "Succeeded"),
    ("Succeeded", "n", True, "Succeeded"),
    ("Failed", "n", False, "Failed"),
    ("Failed", "n", True, "Failed"),
    ("Unknown", "n", False, "Unknown"),
]


@pytest.mark.parametrize(("phase", "node", "leaving", "want"), STATUSES)
def test_status_of_a_pod(phase: str, node: str, leaving: bool, want: str) -> None:
    meta = {"name": "p", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {})}
    pod = msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)
    assert STATUS_NAMES[status_of(pod)] == want


@pytest.mark.parametrize(
    ("name", "index"), [("j-w-0", 0), ("j-w-12", 12), ("a-b-c-3", 3), ("w-1", -1), ("j-w-x", -1), ("p", -1)]
)
def test_the_index_in_a_name_orders_tasks(name: str, index: int) -> None:
    meta = {"name": name, "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert order_of(msgspec.convert({"metadata": meta}, Pod)) == (index, "2026-01-01T00:00:00Z", "u")
