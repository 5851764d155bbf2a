"""The tree of queues: order, shares, and parents that lead nowhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from strato.cli.main import cli
from strato.scheduler.config import default_config
from strato.scheduler.dryrun.manifests import Located
from strato.scheduler.dryrun.queuetree import QueueShare, queue_tree
from strato.scheduler.dryrun.run import decode_all
from strato.scheduler.dryrun.trial import Copy

Json = dict[str, Any]
SCHEDULING = "scheduling.volcano.sh/v1beta1"


def queue(name: str, parent: str = "", **spec: Any) -> Json:
    spec = {"weight": 1, **({"parent": parent} if parent else {}), **spec}
    return {"apiVersion": SCHEDULING, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def gang(name: str, queue: str, pods: int, **of_pods: Any) -> list[Json]:
    metadata = {"name": name, "namespace": "default"}
    spec = {"queue": queue, "minMember": pods, "minResources": {"cpu": str(pods)}}
    made: list[Json] = [{"apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": metadata, "spec": spec}]
    for number in range(pods):
        own = {
            "name": f"{name}-{number}",
            "namespace": "default",
            "annotations": {"scheduling.k8s.io/group-name": name},
        }
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        pod = {"schedulerName": "volcano", "containers": [container], **of_pods}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": pod})
    return made


NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"}},
}


def tree(*objects: Json) -> list[QueueShare]:
    located: list[Located] = [(f"document {number}", obj) for number, obj in enumerate(objects)]
    found = queue_tree(Copy(decode_all(located, []), default_config(), 0, 1_700_000_000.0))
    return [one for one in found if one.name != "default"]  # which every cluster has, as it has root


def test_children_follow_their_parent_and_siblings_their_names() -> None:
    found = tree(queue("b"), queue("root"), queue("b2", "b"), queue("a", "root"), queue("b1", "b"), queue("x", "b1"))
    assert [(one.name, one.depth) for one in found] == [
        ("root", 0), ("a", 1), ("b", 1), ("b1", 2), ("x", 3), ("b2", 2),
    ]  # fmt: skip


def test_what_leads_nowhere_stands_beside_the_roots_children() -> None:
    found = tree(queue("root"), queue("a", "b"), queue("b", "a"), queue("c", "a"), queue("d", "absent"))
    assert {one.name: one.depth for one in found} == {"root": 0, "a": 1, "b": 1, "c": 1, "d": 1}


def test_a_chain_of_ten_thousand_queues_is_walked() -> None:
    chain = [queue(f"q{number:05}", f"q{number - 1:05}" if number else "root") for number in range(10_000)]
    assert max(one.depth for one in tree(queue("root"), *chain)) == 10_000


def test_what_each_holds_deserves_and_waits_for() -> None:
    jobs = [*gang("first", "a", 3), *gang("second", "a", 2), *gang("third", "b", 9)]
    found = {one.name: one for one in tree(NODE, queue("a"), queue("b", weight=3), *jobs)}
    assert (found["a"].running, found["a"].waiting) == (1, 1), "a gang of three is more than it deserves"
    assert (found["b"].running, found["b"].waiting) == (0, 1)
    assert found["a"].status.allocated["cpu"] == "2"
    assert found["a"].status.deserved["cpu"] == "2"
    assert found["a"].to_json()["share"] == pytest.approx(1.0)
    assert found["a"].row()[:4] == ("  a", "Open", "1", "100%")
    assert found["b"].row()[-2:] == ("0", "1")


def test_the_command_shows_it_of_manifests(tmp_path: Any) -> None:
    path = tmp_path / "state.json"
    objects = [NODE, queue("root"), queue("a", "root"), *gang("first", "a", 3)]
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
    done = CliRunner().invoke(cli, ["queue", "tree", "-f", str(path)])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "QUEUE", "STATE", "WEIGHT", "SHARE", "ALLOCATED", "DESERVED", "RUNNING", "WAITING",
    ]  # fmt: skip
    assert lines[1].startswith("root ")
    assert lines[2].startswith("  a ")
    assert "cpu=3" in lines[2]
    as_json = CliRunner().invoke(cli, ["queue", "tree", "-f", str(path), "-o", "json"])
    assert [one["name"] for one in msgspec.json.decode(as_json.stdout)["queues"]] == ["root", "a", "default"]
