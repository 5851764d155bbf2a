"""The dry run: manifests in, decisions out, the same every time."""

from __future__ import annotations

import json

import pytest

from strato.errors import InvalidInput
from strato.scheduler.config import default_config
from strato.scheduler.dryrun.run import dry_run, load
from tests.scheduler import worlds


def test_decisions_follow_the_contract() -> None:
    objects = [worlds.node("n", cpu="2"), worlds.group("g", 1, phase="Pending")]
    objects += [worlds.pod("a", "g", cpu="1"), worlds.pod("b", "g", cpu="5"), worlds.pod("plain", cpu="1")]
    world = load([(f"state.yaml: document {i}", obj) for i, obj in enumerate(objects)])
    out = dry_run(world, default_config(), cycles=2)
    json.dumps(out)
    first, second = out["cycles"]
    assert {b["pod"]: b["node"] for b in first["binds"]} == {"ns/a": "n", "ns/plain": "n"}
    assert [u["pod"] for u in first["unschedulable"]] == ["ns/b"]
    assert second["binds"] == []
    assert {q["name"] for q in first["queues"]} == {"root", "default"}
    assert set(first) == {"binds", "evictions", "pipelined", "podGroups", "unschedulable", "queues"}


def test_every_bad_object_is_listed_with_its_place() -> None:
    bad_node, bad_pod = worlds.node("n", cpu="many"), worlds.pod("p", cpu="-")
    with pytest.raises(InvalidInput) as caught:
        load([("a.yaml: document 1", bad_node), ("b.yaml: document 2", bad_pod)])
    assert [p.where for p in caught.value.problems] == [
        "a.yaml: document 1: status.allocatable.cpu",
        "b.yaml: document 2: spec.containers[0].resources.requests.cpu",
    ]
