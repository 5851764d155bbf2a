"""The rules on changes made by hand: what breaks one is found, what looks like it is not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.clock import VirtualClock
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server
from strato.testing.chaos.invariants import Watchdog, thousandths
from strato.testing.manifests import node, pod

Write = Callable[[str, str, dict[str, Any] | None], None]


def watched(*, newer: bool = False) -> tuple[Watchdog, Write, ApiServer]:
    server = in_memory_server(VirtualClock(), Random(1))
    watchdog = Watchdog(lambda: 1.0, lambda _: newer)
    watchdog.server_started(server)

    def write(resource: str, key: str, body: dict[str, Any] | None) -> None:
        server.store.write(resource, key, None if body is None else msgspec.json.encode(body))

    write("nodes", "n", node("n", cpu="2", memory="4Gi", pods=3))
    return watchdog, write, server


def bound(name: str, on: str = "n", *, uid: str = "", phase: str = "Pending", **requests: str) -> dict[str, Any]:
    made = pod(name, namespace=requests.pop("namespace", "default"), **requests).on(on, phase=phase)  # type: ignore[arg-type]  # values of a table
    return made.set("metadata", "uid", uid or name)


def rules(watchdog: Watchdog) -> list[str]:
    return [finding.rule for finding in watchdog.findings]


def test_pods_that_fit_break_no_rule() -> None:
    watchdog, write, _ = watched()
    write("pods", "default/a", bound("a", cpu="1500m", memory="1Gi"))
    write("pods", "default/b", bound("b", cpu="500m", memory="3Gi"))
    write("pods", "default/b", bound("b", cpu="500m", memory="3Gi", phase="Succeeded"))
    write("pods", "default/c", bound("c", cpu="500m", memory="3Gi", phase="Running"))
    assert rules(watchdog) == []
    assert watchdog.changes == 5


def test_a_pod_that_moves_is_bound_twice_unless_it_is_another_pod() -> None:
    watchdog, write, _ = watched()
    write("pods", "default/a", bound("a"))
    write("pods", "default/a", None)
    write("pods", "default/a", bound("a", "m", uid="a2"))
    assert rules(watchdog) == []
    write("pods", "default/a", bound("a", "n", uid="a2"))
    assert rules(watchdog) == ["pod bound twice"]


@pytest.mark.parametrize("requests", [{"cpu": "1500m"}, {"memory": "2049Mi"}])
def test_a_node_that_holds_too_much_is_found_once(requests: dict[str, str]) -> None:
    watchdog, write, _ = watched()
    for name in ("a", "b", "c"):
        write("pods", f"default/{name}", bound(name, **requests))
    assert rules(watchdog) == ["node overcommitted"]


def test_more_pods_than_a_node_takes_are_too_many() -> None:
    watchdog, write, _ = watched()
    for name in "abcd":
        write("pods", f"default/{name}", bound(name))
    assert rules(watchdog) == ["node overcommitted"]


def test_a_bind_of_a_scheduler_that_no_longer_decides_excuses_the_api_and_not_the_node() -> None:
    watchdog, write, _ = watched(newer=True)
    request: Any = type("R", (), {"path": "/api/v1/namespaces/default/pods/b/binding", "body": b""})()
    request.body = msgspec.json.encode({"metadata": {"name": "b", "uid": "b"}})
    line: Any = type("L", (), {"process": "scheduler-0#1"})()
    watchdog.carried_out(line, request, 0.0)
    write("pods", "default/a", bound("a", cpu="1500m"))
    write("pods", "default/b", bound("b", cpu="1500m"))
    assert rules(watchdog) == []
    for name in "ab":
        running = bound(name, cpu="1500m", phase="Running")
        write("pods", f"default/{name}", {**running, "status": {"phase": "Running", "containerStatuses": [{}]}})
    assert rules(watchdog) == ["node runs too much"]


def test_a_quota_counts_pods_that_have_not_ended() -> None:
    watchdog, write, _ = watched()
    for number in range(3):
        write("pods", f"team/{number}", bound(f"p{number}", "", namespace="team", cpu="1"))
    assert rules(watchdog) == []
    write("pods", "team/more", bound("more", "", namespace="team", cpu="100m"))
    assert rules(watchdog) == ["quota exceeded"]


def test_what_was_acknowledged_must_be_on_the_disk() -> None:
    watchdog, _, _ = watched()
    line: Any = type("L", (), {"is_embedded": False})()
    request: Any = type("R", (), {"method": "POST", "query": {}})()
    response: Any = type("A", (), {"status": 201, "body": b'{"metadata":{"resourceVersion":"42"}}'})()
    watchdog.acknowledged(line, request, response)
    watchdog.server_crashed(42)
    assert rules(watchdog) == []
    watchdog.acknowledged(line, request, response)
    watchdog.server_crashed(41)
    assert rules(watchdog) == ["acknowledged write lost"]


@pytest.mark.parametrize(("text", "amount"), [("250m", 250), ("2", 2000), ("1Ki", 1024000), ("3Gi", 3 * 2**30 * 1000)])
def test_quantities(text: str, amount: int) -> None:
    assert thousandths(text) == amount
    assert catalog.POD.resource == "pods"


def test_a_queue_keeps_its_capability() -> None:
    watchdog, write, _ = watched()
    write("nodes", "n", node("n", cpu="20", memory="64Gi", pods=30))
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"queue": "batch"}}
    write("podgroups.scheduling.volcano.sh", "default/g", group)
    for number in range(5):
        write("pods", f"default/{number}", bound(f"p{number}", cpu="1", group="g"))
    write(
        "pods",
        "default/0",
        bound("p0", cpu="1", group="g").set("metadata", "deletionTimestamp", "2026-01-01T00:00:00Z"),
    )
    write("pods", "default/other", bound("other", cpu="2"))
    write("pods", "default/5", bound("p5", cpu="1", group="g"))
    assert rules(watchdog) == []
    write("pods", "default/6", bound("p6", cpu="250m", group="g"))
    assert rules(watchdog) == ["queue over its capability"]
