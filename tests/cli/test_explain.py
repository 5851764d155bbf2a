"""``strato explain`` on manifests: targets by name, fixes, JSON, and what is not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strato.cli.main import cli, main
from strato.testing import cluster, manifests


@pytest.fixture
def state(tmp_path: Path) -> str:
    scene = cluster().namespace("ns").nodes(2, cpu="4").queue("q", capability={"cpu": "3"})
    scene = scene.gang("g", 4, namespace="ns", queue="q", cpu="1").gang("ok", 1, namespace="ns", cpu="1")
    job: dict[str, Any] = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "done"}}
    job["metadata"]["namespace"] = "ns"
    job["status"] = {"state": {"phase": "Completed"}}
    owner = {"kind": "Job", "name": "train", "uid": "u", "apiVersion": "batch.volcano.sh/v1alpha1", "controller": True}
    group = manifests.podgroup("train-u", namespace="ns", queue="q", min_member=9, min_resources={"cpu": "9"})
    group["metadata"]["ownerReferences"] = [owner]
    path = tmp_path / "state.json"
    path.write_text(json.dumps([*scene, job, group]))
    return str(path)


def ask(target: str, state: str, *options: str) -> Result:
    return CliRunner().invoke(cli, ["explain", target, "-n", "ns", "-f", state, *options], catch_exceptions=False)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param("pg/g", ["podgroup ns/g (Pending): queue q", "deserved cpu 3"], id="a pod group"),
        pytest.param("g-0", ["pod ns/g-0 (Pending): "], id="a pod, by its bare name"),
        pytest.param("pod/ok-0", ["nothing holds it back: the next cycle binds it to node-"], id="a pod that can go"),
        pytest.param(
            "job/train", ["podgroup ns/train-u (Pending): queue q: resource quota insufficient"], id="a job's group"
        ),
        pytest.param("job/done", ["job ns/done (Completed): it has completed"], id="a job without a group"),
        pytest.param("queue/q", ["q (Open): ", "capability cpu 3", "podgroup ns/g: "], id="a queue"),
    ],
)
def test_everything_is_explained(target: str, words: list[str], state: str) -> None:
    result = ask(target, state)
    assert result.exit_code == 0
    for word in words:
        assert word in result.output


def test_fixes_come_as_json_with_their_kinds(state: str) -> None:
    found = json.loads(ask("pg/g", state, "--fix", "-o", "json").output)
    changes = {fix["kind"]: fix["change"] for fix in found["fixes"]}
    assert changes["members"] == "fewer members: minMember 4 -> 3"
    assert changes["queue"].startswith("another queue: q -> ")
    assert changes["quota"] == "more quota: capability of queue q: cpu 3 -> 4"


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        pytest.param("pg/nobody", [], "there is no podgroup 'nobody' in namespace ns", id="no such group"),
        pytest.param("queue/nobody", [], "there is no queue 'nobody'", id="no such queue"),
        pytest.param("job/nobody", [], "there is no job 'nobody' in namespace ns", id="no such job"),
        pytest.param("house/g", [], "write pod/NAME", id="no such kind"),
        pytest.param("queue/q", ["--fix"], "name one of those in the queue", id="a queue cannot be started"),
    ],
)
def test_what_cannot_be_explained(
    target: str, options: list[str], words: str, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["explain", target, "-n", "ns", "-f", state, *options])
    assert caught.value.code == (1 if words.startswith("there is no") else 2)
    assert words in capsys.readouterr().err


def test_members_of_a_wrong_type_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.json"
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": "odd"}
    path.write_text(json.dumps([manifests.pod("p", namespace="ns"), event]))
    with pytest.raises(SystemExit) as caught:
        main(["explain", "p", "-n", "ns", "-f", str(path)])
    assert caught.value.code == 2
    assert "pod 'p', or what belongs to it, has a member that is not as Kubernetes writes" in capsys.readouterr().err
