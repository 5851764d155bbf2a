"""Slurm's commands against a server in this process; the jobs' states are written by the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strato.api import catalog
from tests.cli.test_verbs import Shell, shell

__all__ = ["shell"]


def job(shell: Shell, name: str, phase: str, user: str = "ann", **spec: object) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}}
    shell.create(
        catalog.VCJOB,
        name,
        metadata={"labels": {"strato.dev/user": user}},
        spec={"queue": "default", "minAvailable": 1, "tasks": [{"replicas": 1, "template": template}], **spec},
        status={"state": {"phase": phase}},
    )


def test_squeue_shows_what_waits_and_runs(shell: Shell) -> None:
    job(shell, "one", "Running")
    job(shell, "two", "Completed")
    job(shell, "three", "Pending", "bob")
    assert shell.strato("slurm", "squeue", "-h", "-o", "%i %t %C").splitlines() == ["one R 2", "three PD 2"]
    assert shell.strato("slurm", "squeue", "-h", "-o", "%i", "-u", "bob") == "three\n"
    assert shell.strato("slurm", "squeue", "-h", "-o", "%i", "-t", "CD") == "two\n"
    assert len(shell.strato("slurm", "squeue", "-t", "all").splitlines()) == 4
    assert shell.strato("slurm", "squeue", "--noheader", "--me", "--name", "nothing") == ""
    assert "'XX' is no state" in shell.strato("slurm", "squeue", "-t", "XX", code=2)
    assert "%y is not known" in shell.strato("slurm", "squeue", "-o", "%y", code=2)


def test_sacct_shows_what_has_ended_too(shell: Shell) -> None:
    job(shell, "one", "Completed")
    job(shell, "two", "Running")
    assert shell.strato("slurm", "sacct", "-n", "-P", "-o", "JobID,State").splitlines() == [
        "one|COMPLETED",
        "two|RUNNING",
    ]
    assert shell.strato("slurm", "sacct", "-X", "-n", "-j", "one", "--format=State%10") == " COMPLETED \n"


def test_scancel_ends_what_is_chosen(shell: Shell) -> None:
    job(shell, "one", "Running")
    job(shell, "two", "Pending", "bob")
    job(shell, "done", "Completed")
    assert shell.strato("slurm", "scancel", "one", "done") == ""
    assert [command["target"]["name"] for command in shell.list(catalog.COMMAND)] == ["one"]
    assert shell.strato("slurm", "scancel", "-u", "bob", "-t", "PENDING") == ""
    assert sorted(command["target"]["name"] for command in shell.list(catalog.COMMAND)) == ["one", "two"]
    assert "Invalid job id specified" in shell.strato("slurm", "scancel", "nobody", code=1)
    assert shell.strato("slurm", "scancel", "-Q", "nobody") == ""
    assert "no job: give ids" in shell.strato("slurm", "scancel", code=2)


def test_elements_are_not_cancelled_by_themselves(shell: Shell) -> None:
    job(shell, "many", "Pending", plugins={"array": ["--indexes=0-3"]})
    assert "cancel many" in shell.strato("slurm", "scancel", "many_2", code=2)
    assert shell.strato("slurm", "squeue", "-h", "-o", "%i") == "many_[0-3]\n"
    assert len(shell.strato("slurm", "squeue", "-h", "-r").splitlines()) == 4


def test_scontrol_shows_and_acts(shell: Shell) -> None:
    job(shell, "one", "Running")
    assert "JobState=RUNNING" in shell.strato("slurm", "scontrol", "show", "job", "one")
    assert "\n" not in shell.strato("slurm", "scontrol", "-o", "show", "job=one").strip()
    shell.strato("slurm", "scontrol", "requeue", "one")
    assert [command["action"] for command in shell.list(catalog.COMMAND)] == ["RestartJob"]
    assert "Invalid job id" in shell.strato("slurm", "scontrol", "show", "job", "none", code=1)
    assert "are known" in shell.strato("slurm", "scontrol", "show", "weather", code=2)


def test_sinfo_shows_queues_and_nodes(shell: Shell) -> None:
    shell.create(
        catalog.NODE,
        "n1",
        status={"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    )
    assert shell.strato("slurm", "sinfo").splitlines() == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "default*     up   infinite      1   idle n1",
    ]
    assert shell.strato("slurm", "sinfo", "-h", "-o", "%R %C") == "default 0/4/0/4\n"


def test_commands_of_slurms_names(shell: Shell, tmp_path: Path) -> None:
    shell.strato("slurm", "install", str(tmp_path / "bin"))
    done = subprocess.run([tmp_path / "bin" / "squeue", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "List jobs that wait or run" in done.stdout
    shell.strato("slurm", "install", str(tmp_path / "bin"))  # over its own
    (tmp_path / "bin" / "sbatch").write_text("#!/bin/sh\n")
    assert "not written by this command" in shell.strato("slurm", "install", str(tmp_path / "bin"), code=2)


@pytest.mark.parametrize("verb", ["srun", "salloc"])
def test_options_that_sbatch_does_not_know_are_refused(shell: Shell, verb: str) -> None:
    assert "--nonsense" in shell.strato("slurm", verb, "--nonsense=3", "true", code=2)


def test_srun_needs_a_command(shell: Shell) -> None:
    assert "no command" in shell.strato("slurm", "srun", "-n", "2", code=2)
    assert "--pty" in shell.strato("slurm", "srun", "--pty", "sh", code=2)
