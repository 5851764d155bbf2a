"""``strato job run``: what its flags make of a job, and that everything wrong with them is said together."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from strato.api import catalog
from strato.cli.job.timelimit import parse_time_limit
from tests.cli.test_verbs import Shell, shell

__all__ = ["shell"]

Json = dict[str, Any]


def manifest(shell: Shell, *words: str) -> Json:
    made: Json = yaml.safe_load(shell.strato("job", "run", "-N", "x", "--dry-run", *words))
    return made


def container(job: Json) -> Json:
    found: Json = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return found


_BOTH = {"cpu": "1", "nvidia.com/gpu": "2"}
RESOURCES = [
    pytest.param((), {"cpu": "1000m", "memory": "100Mi"}, {"cpu": "1000m", "memory": "100Mi"}, id="neither"),
    pytest.param(("-R", "cpu=2,memory=1Gi"), {"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, id="asked"),
    pytest.param(("-L", "cpu=4"), {"cpu": "4"}, {"cpu": "4"}, id="limits"),
    pytest.param(("-R", "cpu=1", "-L", "cpu=2"), {"cpu": "1"}, {"cpu": "2"}, id="both"),
    pytest.param(("-R", "cpu=500m", "-L", ""), {"cpu": "500m"}, {}, id="no limits"),
    pytest.param(("-R", "a.b/c=2", "-L", "cpu=2"), {"a.b/c": "2"}, {"cpu": "2", "a.b/c": "2"}, id="extended resources"),
    pytest.param(("--gpus", "2", "-R", "cpu=1"), _BOTH, _BOTH, id="gpus"),
]


@pytest.mark.parametrize(("words", "requests", "limits"), RESOURCES)
def test_requests_and_limits_agree(shell: Shell, words: tuple[str, ...], requests: Json, limits: Json) -> None:
    assert container(manifest(shell, *words))["resources"] == {"requests": requests, "limits": limits}


def test_everything_wrong_is_said_in_one_message(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    words = [
        "-R",
        "cpu=4,memory=x,cpu=1,e.f/g=2",
        "-L",
        "cpu=2,e.f/g=3",
        "--gpus",
        "1",
        "--env",
        "1=2",
        "--env",
        "NOT_SET",
    ]
    words += ["--time", "soon", "--array", "9-1", "--after", "if:me", "--mail", "ann", "--mail-type", "often"]
    lines = shell.strato("job", "run", *words, code=2).splitlines()
    assert lines[0] == "Failed to run job: what was given is invalid (12 problems)"
    text = "\n".join(lines)
    for part in (
        "--name: job name cannot be left blank",
        "--requests: 'memory=x' is not name=quantity",
        "--requests: cpu is given twice",
        "--limits: cpu=2 is less than the request, 4",
        "--limits: e.f/g=3 is not the request, 2: they must be equal",
        "--env: '1=2' is not KEY=VALUE",
        "--env: NOT_SET is not set here",
        "--time: 'soon' is no time limit",
        "--array: '9-1': the first index is above the last",
        "--after: 'if:me' is not start|any|ok|not-ok:JOB",
        "--mail: 'ann' is no mail address",
        "--mail-type: 'often' is not one of begin, end, fail",
    ):
        assert part in text, text


def test_flags_become_what_they_say(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "a=b")
    job = manifest(
        shell, "-q", "gold", "--priority", "high", "--env", "MODE=fast", "-e", "TOKEN", "--env", "EMPTY=",
        "--time", "1:30:00", "--mail", "ann@example.org", "--mail-type", "END,FAIL", "--", "python", "-c", "print(1)",
    )  # fmt: skip
    assert (job["spec"]["queue"], job["spec"]["priorityClassName"]) == ("gold", "high")
    assert container(job)["env"] == [
        {"name": "MODE", "value": "fast"},
        {"name": "TOKEN", "value": "a=b"},
        {"name": "EMPTY", "value": ""},
    ]
    assert container(job)["command"] == ["python", "-c", "print(1)"]
    assert job["spec"]["tasks"][0]["template"]["spec"]["activeDeadlineSeconds"] == 5400
    assert job["metadata"]["annotations"] == {
        "strato.dev/mail": "ann@example.org",
        "strato.dev/mail-type": "end,fail",
    }


def test_an_array_has_a_pod_or_a_gang_per_index(shell: Shell) -> None:
    spec = manifest(shell, "--array", "0-9%3")["spec"]
    assert spec["plugins"] == {"array": ["--indexes=0-9", "--limit=3"]}
    assert (spec["minAvailable"], spec["minSuccess"], spec["tasks"][0]["replicas"]) == (1, 10, 10)
    spec = manifest(shell, "--array", "1,5", "-r", "4")["spec"]
    assert spec["plugins"] == {"array": ["--indexes=1,5"]}
    assert (spec["minAvailable"], spec["minSuccess"], spec["tasks"][0]["replicas"]) == (4, 8, 8)
    policy = {"totalPartitions": 2, "partitionSize": 4, "minPartitions": 1}
    assert spec["tasks"][0]["partitionPolicy"] == policy
    assert "all 4 pods of an array's element start together" in shell.strato(
        "job", "run", "-N", "x", "--array", "1-2", "-r", "4", "-m", "2", code=2
    )


def test_what_the_api_makes_of_it_is_shown_and_nothing_is_created(shell: Shell) -> None:
    made = yaml.safe_load(shell.strato("job", "run", "-N", "x", "--array", "0-3", "-r", "2", "--dry-run=server"))
    assert made["spec"]["tasks"][0]["name"] == "default0"
    assert made["spec"]["queue"] == "default"
    assert "denied the request" in shell.strato("job", "run", "-N", "x", "-q", "no", "--dry-run=server", code=1)
    assert not shell.list(catalog.VCJOB)
    assert shell.strato("job", "run", "-N", "x", "--dry-run", "-o", "name") == "job.batch.volcano.sh/x\n"


def test_a_job_to_wait_for_is_pinned_by_its_uid_and_must_exist(shell: Shell) -> None:
    first = shell.job("first")["metadata"]["uid"]
    shell.strato("job", "run", "-N", "x", "--after", "first", "--after", "any:first")
    found = shell.get(catalog.VCJOB, "x")["metadata"]["annotations"]["strato.dev/after"]
    assert found == f"ok:first/{first},any:first/{first}"
    error = shell.strato("job", "run", "-N", "y", "--after", "ok:nobody,any:none", code=1)
    assert error == "Failed to run job: --after: no such job in namespace default: nobody, none\n"
    assert [job["metadata"]["name"] for job in shell.list(catalog.VCJOB)] == ["first", "x"]


def test_flags_about_the_job_do_not_go_with_a_file(shell: Shell, tmp_path: Any) -> None:
    path = tmp_path / "job.yaml"
    job = manifest(shell, "--array", "1-2")
    job["metadata"]["namespace"] = "other"
    path.write_text(yaml.safe_dump(job))
    error = shell.strato("job", "run", "-f", str(path), "--queue", "q", "--env", "A=1", code=2)
    assert "given with --filename, which says all about the job: --queue, --env; write it into" in error
    shell.strato("job", "run", "-f", str(path))
    assert shell.get(catalog.VCJOB, "x", "other")


def test_volcanos_command_makes_volcanos_job(shell: Shell) -> None:
    shell.tool("vcctl", "job", "run", "-N", "x", "-R", "cpu=500m")
    amounts = container(shell.get(catalog.VCJOB, "x"))["resources"]
    assert amounts == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "100Mi"}} or amounts == {
        "requests": {"cpu": "500m"},
        "limits": {"cpu": "1000m", "memory": "100Mi"},
    }


TIMES = [
    ("30", 1800),
    ("10:30", 630),
    ("1:00:00", 3600),
    ("1-0", 86400),
    ("1-12:30", 131400),
    ("1-00:00:00", 86400),
    ("90m", 5400),
    ("1h30m", 5400),
    ("45s", 45),
    ("0.2s", 1),
    ("UNLIMITED", None),
    ("0", None),
]


@pytest.mark.parametrize(("text", "seconds"), TIMES)
def test_time_limits_are_slurms(text: str, seconds: int | None) -> None:
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "1:2:3:4", "1-", "99999999999", f"{'9' * 400}h", "0s", "1-1:1:1:1"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time limit"):
        parse_time_limit(text)
