"""``strato what-if`` and ``strato sim replay`` as they are typed; the question about a cluster writes nothing to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strato.api import catalog
from strato.cli.main import cli
from strato.testing import manifests
from tests.cli.test_verbs import Shell, shell
from tests.sim.recording.recordings import NEVER_PREEMPTING, record

__all__ = ["shell"]

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: submitted}
spec:
  minAvailable: 2
  schedulerName: volcano
  tasks:
  - name: w
    replicas: 2
    template:
      spec: {containers: [{name: c, image: busybox, resources: {requests: {cpu: "4"}}}], restartPolicy: Never}
"""
STATE = [
    manifests.node("n1", cpu="4", memory="8Gi"),
    manifests.queue("default"),
    manifests.podgroup("gang", min_member=2),
    manifests.pod("a", cpu="4", group="gang"),
    manifests.pod("b", cpu="4", group="gang"),
]


@pytest.fixture
def state(tmp_path: Path) -> str:
    path = tmp_path / "state.yaml"
    path.write_text("\n---\n".join(json.dumps(obj) for obj in STATE))
    return str(path)


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args), catch_exceptions=False)


def asked(*args: str) -> Any:
    result = run("what-if", *args, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_nodes_start_a_gang(state: str) -> None:
    answer = asked("-f", state, "--add-nodes", "1x4cpu,8Gi")
    assert (answer["before"]["wait"], answer["after"]["wait"]) == (1, 0)
    assert answer["changes"] == ["add 1x4cpu,8Gi"]
    (job,) = answer["jobs"]
    assert job["after"]["startsInSeconds"] == 0.0


def test_the_fewest_nodes_with_a_job_that_is_submitted(state: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    answer = asked("-f", state, "--submit", str(tmp_path / "job.yaml"), "--until-all-start", "4cpu,8Gi")
    assert answer["fewestNodes"]["nodes"] == 3  # four pods of four cpus, one node is there
    assert {job["name"] for job in answer["jobs"]} == {"default/gang", "default/submitted"}


def test_the_table_has_both_sides(state: str) -> None:
    text = run("what-if", "-f", state, "--add-nodes", "1x4cpu,8Gi").stdout
    assert text.startswith("changes: add 1x4cpu,8Gi\n")
    assert "BEFORE   AFTER" in text
    assert "default/gang" in text
    assert "at once" in text


def test_all_problems_of_a_question_are_named_at_once(
    state: str,
    shell: Shell,
) -> None:
    words = ("--drain", "no", "--queue", "defalt.weight=2", "--queue", "default.size=2", "--add-nodes", "1xmany")
    text = shell.strato("what-if", "-f", state, *words, code=2)
    assert "(4 problems)" in text
    for part in ("--drain no", "--queue defalt.weight=2", "did you mean 'default'", "--add-nodes 1xmany"):
        assert part in text


def test_a_question_about_a_cluster_writes_nothing(shell: Shell, tmp_path: Path) -> None:
    objects = [obj for obj in STATE if obj["kind"] != "Queue"]  # the default one is there
    for obj in (*objects, manifests.vcjob("late", min_available=2).task("w", 2, cpu="4")):
        kind = manifests.kind_of_manifest(obj)
        members = {key: value for key, value in obj.items() if key not in ("metadata", "apiVersion", "kind")}
        shell.create(kind, obj["metadata"]["name"], metadata=obj["metadata"], **members)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "policy.yaml").write_text(NEVER_PREEMPTING)
    before = shell.server.store.revision
    answer = json.loads(
        shell.strato(
            "what-if", "--add-nodes", "4x8cpu", "--drain", "n1", "--queue", "default.weight=3", "--submit",
            str(tmp_path / "job.yaml"), "--policy", str(tmp_path / "policy.yaml"), "--until-all-start", "8cpu",
            "-o", "json",
        )
    )  # fmt: skip
    assert answer["after"]["nodes"] == answer["before"]["nodes"] + 4 - 1
    assert {job["name"] for job in answer["jobs"]} >= {"default/gang", "default/submitted"}
    assert shell.server.store.revision == before
    assert "submitted" not in {item["metadata"]["name"] for item in shell.list(catalog.VCJOB)}


def test_replay_says_that_nothing_differs_or_what_does(tmp_path: Path) -> None:
    log = tmp_path / "log"
    record(log)
    same = run("sim", "replay", str(log))
    assert same.exit_code == 0
    assert "no decision differs from what was recorded" in same.stdout
    (tmp_path / "policy.yaml").write_text(NEVER_PREEMPTING)
    other = run("sim", "replay", str(log), "--policy", str(tmp_path / "policy.yaml"), "--limit", "1")
    assert "stays, had been evicted" in other.stdout
    assert "cycles more; --limit 0 shows all" in other.stdout
    body = json.loads(run("sim", "replay", str(log), "-o", "json").stdout)
    assert body["exact"]
    assert body["differingCycles"] == 0
    then = run("sim", "replay", str(log), "--at", "+60s", "-o", str(tmp_path / "then"))
    assert then.exit_code == 0
    assert run("schedule", "-f", str(tmp_path / "then" / "state.json")).exit_code == 0
    answer = asked("--log", str(log), "--at", "+60s", "--add-nodes", "2x4cpu,16Gi")
    assert answer["after"]["nodes"] == answer["before"]["nodes"] + 2


@pytest.mark.parametrize(
    "words",
    [
        ("sim", "replay", "LOG", "--at", "+60s"),
        ("sim", "replay", "LOG", "--at", "1970-01-01T00:00:00Z", "-o", "x"),
        ("sim", "replay", "LOG", "--at", "soon", "-o", "x"),
        ("sim", "replay", "LOG", "-o", "folder"),
        ("what-if", "--at", "+1s"),
        ("what-if", "-f", "x.yaml", "--log", "LOG"),
        ("what-if", "--log", "LOG", "--horizon", "soon"),
        ("what-if", "--log", "LOG", "--until-all-start", "1x4cpu+1x8cpu"),
    ],
)
def test_questions_that_cannot_be_answered(words: tuple[str, ...], tmp_path: Path, shell: Shell) -> None:
    record(tmp_path / "log", _nothing)
    shell.strato(*[word.replace("LOG", str(tmp_path / "log")) for word in words], code=2)


async def _nothing(h: Any) -> None:
    await h.clock.sleep(1.0)
