"""``strato submit``: what a batch script's lines become, and that everything wrong with them is said together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from strato.api import catalog
from strato.cli.submit.options import FOREIGN
from tests.cli.test_verbs import Shell, shell

__all__ = ["shell"]

Json = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(folder: Path, *lines: str, name: str = "train.sh", interpreter: str = "#!/bin/bash") -> str:
    (folder / name).write_text("\n".join([interpreter, *lines, "echo hello", ""]))
    return name


def manifests(shell: Shell, *words: str) -> tuple[Json, Json]:
    """Return the ConfigMap and the job."""
    text, job = yaml.safe_load_all(shell.strato("submit", "--dry-run", *words))
    return text, job


def pod(job: Json) -> Json:
    found: Json = job["spec"]["tasks"][0]["template"]["spec"]
    return found


def environment(job: Json) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod(job)["containers"][0]["env"]}


def test_the_script_reaches_the_pods_with_its_interpreter_and_arguments(shell: Shell, folder: Path) -> None:
    name = script(folder, "#SBATCH -J My_Job", interpreter="#!/usr/bin/env python3")
    text, job = manifests(shell, name, "-x", "--epochs=3", "a b")
    assert job["metadata"]["name"].startswith("my-job-")
    container = pod(job)["containers"][0]
    assert container["command"] == ["/var/run/strato/job/script", "-x", "--epochs=3", "a b"]
    assert container["volumeMounts"] == [{"name": "script", "mountPath": "/var/run/strato/job", "readOnly": True}]
    assert pod(job)["volumes"][0]["configMap"] == {"name": text["metadata"]["name"], "defaultMode": 0o755}
    assert text["data"]["script"].startswith("#!/usr/bin/env python3\n")


def test_lines_are_options_until_the_first_command_and_the_command_line_wins(shell: Shell, folder: Path) -> None:
    name = script(
        folder, "# a comment", "#SBATCH --partition=slow -c 2  # two cpus", "", "#STRATO --image=mine", "##SBATCH -c 9",
        "#SBATCHX -c 9", "echo first", "#SBATCH -c 8",
    )  # fmt: skip
    _, job = manifests(shell, "-p", "quick", name)
    assert job["spec"]["queue"] == "quick"
    assert pod(job)["containers"][0]["image"] == "mine"
    assert environment(job)["SLURM_CPUS_PER_TASK"] == "2"


SHAPES = [
    pytest.param("", 1, "1", {}, id="nothing"),
    pytest.param("-n 8", 1, "8", {}, id="tasks of one node"),
    pytest.param("-n 8 -c 2", 1, "16", {}, id="cpus of tasks"),
    pytest.param("-N 2", 2, "1", {}, id="nodes"),
    pytest.param("-N 2 -n 8", 2, "4", {}, id="tasks of two nodes"),
    pytest.param("-n 8 --ntasks-per-node 3", 3, "3", {}, id="nodes follow"),
    pytest.param("-N 2 --ntasks-per-node=4 -c 2", 2, "8", {}, id="tasks of each node"),
    pytest.param("--mem=4G", 1, "1", {"memory": "4096Mi"}, id="memory"),
    pytest.param("--mem=500", 1, "1", {"memory": "500Mi"}, id="megabytes"),
    pytest.param("-n 2 -c 3 --mem-per-cpu=1G", 1, "6", {"memory": "6144Mi"}, id="memory of cpus"),
    pytest.param("--gres=gpu:2", 1, "1", {"nvidia.com/gpu": "2"}, id="gres"),
    pytest.param("--gres=gpu:0", 1, "1", {}, id="no GPUs by number"),
    pytest.param("--gres=none -G 0", 1, "1", {}, id="no GPUs by word"),
    pytest.param("-N 2 -G 4", 2, "1", {"nvidia.com/gpu": "2"}, id="gpus of the job"),
    pytest.param("-n 2 --gpus-per-task=1 --mem-per-gpu=1G", 1, "2", {"nvidia.com/gpu": "2", "memory": "2048Mi"},
                 id="gpus of tasks"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "nodes", "cpus", "more"), SHAPES)
def test_nodes_are_pods_and_tasks_are_their_cpus(
    shell: Shell, folder: Path, line: str, nodes: int, cpus: str, more: Json
) -> None:
    _, job = manifests(shell, script(folder, f"#SBATCH {line}" if line else "#"))
    assert (job["spec"]["tasks"][0]["replicas"], job["spec"]["minAvailable"]) == (nodes, nodes)
    amounts = pod(job)["containers"][0]["resources"]
    assert amounts["requests"] == amounts["limits"] == {"cpu": cpus, **more}
    if nodes > 1:
        assert job["spec"]["plugins"] == {"svc": []}
        assert len(environment(job)["SLURM_JOB_NODELIST"].split(",")) == nodes


def test_every_other_option_has_its_place(shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEED", "7")
    monkeypatch.setenv("LOGNAME", "ann")
    name = script(
        folder,
        "#SBATCH -t 1-00:00:00 -A team --qos=high --comment='a b' --chdir=/data --requeue -N 1-3",
        "#SBATCH --mail-user=ann@example.org --mail-type=END,FAIL --export=SEED,MODE=fast -d afterok:a:b,afterany:c",
    )
    _, job = manifests(shell, name)
    metadata, spec = job["metadata"], job["spec"]
    assert metadata["labels"] == {"strato.dev/account": "team", "strato.dev/user": "ann"}
    assert metadata["annotations"] == {
        "strato.dev/after": "ok:a,ok:b,any:c",
        "strato.dev/comment": "a b",
        "strato.dev/mail": "ann@example.org",
        "strato.dev/mail-type": "end,fail",
    }
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["priorityClassName"]) == (1, 3, "high")
    assert {"event": "PodEvicted", "action": "RestartJob"} in spec["policies"]
    assert pod(job)["activeDeadlineSeconds"] == 86400
    assert pod(job)["containers"][0]["workingDir"] == "/data"
    assert {"SEED": "7", "MODE": "fast"}.items() <= environment(job).items()


def test_an_array_of_gangs_is_one_job(shell: Shell, folder: Path) -> None:
    _, job = manifests(shell, script(folder, "#SBATCH --array=1-9:2%2 -N 2"))
    assert job["spec"]["plugins"] == {"array": ["--indexes=1-9:2", "--limit=2"], "svc": []}
    assert (job["spec"]["tasks"][0]["replicas"], job["spec"]["minAvailable"]) == (10, 2)
    assert "policies" not in job["spec"]  # an element that fails stops no other


def test_everything_wrong_is_said_in_one_message(shell: Shell, folder: Path) -> None:
    name = script(folder, "#SBATCH -C a100 --nodes=x --mem=0 --gres=nvme:1,gpu:a100:2 -H", "#SBATCH -d singleton -t no")
    lines = shell.strato("submit", "--mail-type", "END", name, code=2).splitlines()
    assert lines[0] == "error: train.sh is invalid (9 problems)"
    for part in (
        "--constraint: has no counterpart",
        "--hold: has no counterpart",
        "--nodes: 'x' is no whole number above zero",
        "--mem: '0' is no amount of memory; write for example 4G or 500M; all of a node cannot be asked for",
        "--gres: 'nvme:1': this cluster has nothing like it",
        "--gres: 'a100:2': GPUs are asked for by number, not by model (a100)",
        "--dependency: 'singleton': known are after, afterany, afterok, afternotok",
        "--time: 'no' is no time limit",
        "--mail-user: is missing",
    ):
        assert any(part in line for line in lines), part


def test_lines_that_cannot_be_read_are_named_by_their_number(shell: Shell, folder: Path) -> None:
    name = script(folder, "#SBATCH --foo", "#SBATCH word", "#SBATCH -N")
    error = shell.strato("submit", name, code=2)
    assert "error: train.sh is invalid (3 problems)" in error
    for number, part in ((2, "No such option"), (3, "'word' is no option"), (4, "requires an argument")):
        assert any(f"line {number}: " in line and part in line for line in error.splitlines()), error
    name = script(folder, "#SBATCH --comment='open")
    assert "line 2: No closing quotation" in shell.strato("submit", name, code=2)


def test_of_a_thousand_wrong_lines_a_hundred_are_told(shell: Shell, folder: Path) -> None:
    name = script(folder, *["#SBATCH --foo"] * 1000)
    assert "error: train.sh is invalid (100 problems)" in shell.strato("submit", name, code=2)


BAD_SCRIPTS = [
    pytest.param(b"echo hello\n", "is no batch script: its first line must be #!", id="no interpreter"),
    pytest.param(b"", "is no batch script", id="empty"),
    pytest.param(b"#!/bin/sh\r\necho\r\n", "has DOS line breaks", id="DOS"),
    pytest.param(b"#!/bin/sh\n" + b"#" * 1_000_000, "has more than 900000 bytes", id="too large"),
    pytest.param(b"#!/bin/sh\n" + b"#SBATCH -n 1\n" * 1001, "has 1001 lines of options, at most 1000", id="options"),
]


@pytest.mark.parametrize(("body", "message"), BAD_SCRIPTS)
def test_what_is_no_script_is_refused(shell: Shell, folder: Path, body: bytes, message: str) -> None:
    (folder / "s").write_bytes(body)
    assert f"error: s: {message}" in shell.strato("submit", "s", code=2)


def test_a_script_of_other_bytes_is_carried_as_it_is(shell: Shell, folder: Path) -> None:
    (folder / "s").write_bytes(b"#!/bin/sh\necho \xff\n")
    text, _ = manifests(shell, "s")
    assert text["binaryData"] == {"script": "IyEvYmluL3NoCmVjaG8g/wo="}


def test_what_is_left_out_is_named_once(shell: Shell, folder: Path) -> None:
    name = script(folder, "#SBATCH -o out -e err --cpu-bind=cores --export=ALL --priority=100 --nice --mail-user=a@b.c")
    printed = shell.strato("submit", "--dry-run", name, partly=True)
    (line,) = [line for line in printed.splitlines() if line.startswith("ignored: ")]
    for flag in ("--output", "--error", "--cpu-bind", "--nice", "--export=ALL", "--priority", "--mail-user"):
        assert f"{flag} (" in line
    assert "ignored" not in shell.strato("submit", "-Q", "--dry-run", name, partly=True)


@pytest.mark.parametrize("option", [option for option, _ in FOREIGN], ids=lambda option: option.name)
def test_every_option_of_sbatch_is_known(shell: Shell, folder: Path, option: Any) -> None:
    """In a script, in each of its forms; it is refused or left out with its reason, and never a surprise."""
    foreign = next(foreign for known, foreign in FOREIGN if known is option)
    for flag in option.opts:
        name = script(folder, f"#SBATCH {flag}" + ("" if option.is_flag or option._flag_needs_value else " x"))
        printed = shell.strato("submit", "--dry-run", name, code=2 if foreign.refused else 0, partly=True)
        assert foreign.why in printed


def test_a_job_is_made_with_its_script_and_named(shell: Shell, folder: Path) -> None:
    name = shell.strato("submit", "--parsable", script(folder)).strip()
    assert shell.strato("submit", script(folder)).startswith("Submitted batch job train-")
    job, text = shell.get(catalog.VCJOB, name), shell.get(catalog.CONFIGMAP, f"{name}-script")
    assert text["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_no_script_is_left_of_a_job_that_is_refused(shell: Shell, folder: Path) -> None:
    assert "denied the request" in shell.strato("submit", "-p", "nowhere", script(folder), code=1)
    assert not shell.list(catalog.CONFIGMAP)
    assert shell.strato("submit", "--test-only", script(folder)) == ""
    assert not shell.list(catalog.VCJOB)


def test_a_command_is_wrapped(shell: Shell, folder: Path) -> None:
    text, job = manifests(shell, "--wrap", "hostname; date")
    assert text["data"]["script"] == "#!/bin/sh\nhostname; date\n"
    assert job["metadata"]["name"].startswith("wrap-")
    assert "--wrap is given, and a script too" in shell.strato("submit", "--wrap", "x", script(folder), code=2)
    assert "no script: give a file" in shell.strato("submit", code=2)
    assert "nothing.sh: No such file" in shell.strato("submit", "nothing.sh", code=2)
