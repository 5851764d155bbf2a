"""Who gives way on busy CPUs: containers one by one, their pod once all of them do, and nobody without a record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from strato.agent.containers import ContainerFacts, facts_of, read_annotation, write_annotation
from strato.agent.events import Suppression
from strato.agent.sampling.layouts import SandboxLayout
from strato.agent.yielding import Yielding
from strato.api.core import Pod


@pytest.fixture
def yielding(tmp_path: Path) -> Yielding:
    (tmp_path / "note").write_text(json.dumps({"unified": str(tmp_path)}))
    for name, weight in (("u", 100), ("u/a", 50), ("u/b", 60)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.weight").write_text(f"{weight}\n")
        (tmp_path / name / "cpu.idle").write_text("0\n")
    return Yielding(SandboxLayout(str(tmp_path / "note")))


def running(*names: str, run: str = "1") -> list[ContainerFacts]:
    statuses = [{"name": name, "containerID": f"{name}{run}", "state": {"running": {}}} for name in names]
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": name, "image": "i"} for name in names]},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }
    return facts_of(msgspec.convert(body, Pod))


def cut(facts: ContainerFacts, weights: tuple[int | None, int | None]) -> Suppression:
    return Suppression(id=facts.id, from_milli=None, to_milli=100, at=1.0, weight=weights[0], pod_weight=weights[1])


def idle(tmp_path: Path) -> list[str]:
    names = ("u", "u/a", "u/b")
    return [name for name in names if (tmp_path / name / "cpu.idle").read_text().strip() == "1"]


def test_a_pod_gives_way_once_all_its_containers_do_and_comes_back_with_the_first(
    tmp_path: Path, yielding: Yielding
) -> None:
    a, b = running("a", "b")
    entries = {"a": cut(a, yielding.weights(a, ()))}
    assert (entries["a"].weight, entries["a"].pod_weight) == (50, 100)
    yielding.settle([a, b], entries, {})
    assert idle(tmp_path) == ["u/a"]
    entries["b"] = cut(b, yielding.weights(b, entries.values()))
    yielding.settle([a, b], entries, {})
    assert idle(tmp_path) == ["u", "u/a", "u/b"]
    (tmp_path / "u/cpu.weight").write_text("0\n")  # as a kernel shows it
    assert yielding.weights(a, entries.values()) == (None, 100), "the pod's weight is known from the record alone"
    yielding.settle([a, b], {"b": entries["b"]}, {"a": entries["a"]})
    assert idle(tmp_path) == ["u/b"]
    assert (tmp_path / "u/cpu.weight").read_text() == "100"
    yielding.settle([a, b], {}, {"b": entries["b"]})
    assert idle(tmp_path) == []


def test_a_container_that_was_started_again_brings_its_pod_back(tmp_path: Path, yielding: Yielding) -> None:
    [a] = running("a")
    entries = {"a": cut(a, yielding.weights(a, ()))}
    yielding.settle([a], entries, {})
    assert idle(tmp_path) == ["u", "u/a"]
    (tmp_path / "u/a/cpu.idle").write_text("0\n")  # a new group
    yielding.settle(running("a", run="2"), entries, {})
    assert idle(tmp_path) == []


def test_who_gives_way_by_somebody_else_s_will_is_left_alone(tmp_path: Path, yielding: Yielding) -> None:
    for name in ("u", "u/a"):
        (tmp_path / name / "cpu.idle").write_text("1\n")
    [a] = running("a")
    weights = yielding.weights(a, ())
    assert weights == (None, None)
    yielding.settle([a], {}, {"a": cut(a, weights)})
    assert idle(tmp_path) == ["u", "u/a"]


def test_groups_that_are_not_there_are_no_error(tmp_path: Path, yielding: Yielding) -> None:
    [c] = running("c")
    assert yielding.weights(c, ()) == (None, 100)
    yielding.settle([c], {"c": cut(c, (10, 100))}, {})
    assert not (tmp_path / "u/c").exists()


def test_the_annotation_keeps_the_weights_and_is_as_before_without() -> None:
    [a] = running("a")
    for weights in ((50, 100), (None, None)):
        entry = replace(cut(a, weights), utilisation=0.95, used_milli=200)
        text = write_annotation({"a": entry})
        assert read_annotation({"strato.io/suppressed": text or ""}) == {"a": entry}
        assert ("podWeight" in (text or "")) is (weights[1] is not None)
