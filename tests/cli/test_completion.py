"""What a word on the command line may be, and the scripts that ask; real shells are in ``tests/e2e``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from strato.cli.completion import kinds_of
from strato.cli.main import cli

WORDS: list[Any] = [
    (["job", "view"], "name", {"": "Job"}),
    (["job", "view"], "bare_name", {"": "Job"}),
    (["job", "wait"], "names", {"": "Job"}),
    (["job", "run"], "name", {}),
    (["job", "run"], "queue", {"": "Queue"}),
    (["queue", "create"], "name", {}),
    (["queue", "get"], "name", {"": "Queue"}),
    (["jobflow", "get"], "name", {"": "JobFlow"}),
    (["pod", "list"], "job_name", {"": "Job"}),
    (["pod", "list"], "namespace", {"": "Namespace"}),
    (["logs"], "target", {"": "Pod", "pod/": "Pod", "job/": "Job"}),
    (["explain"], "target", {"pod/": "Pod", "job/": "Job", "podgroup/": "PodGroup", "queue/": "Queue"}),
    (["install"], "namespace", {}),
    (["image", "rm"], "names", {}),
    (["sim", "run"], "experiment", {}),
]


@pytest.mark.parametrize(("path", "name", "kinds"), WORDS)
def test_which_objects_a_parameter_names(path: list[str], name: str, kinds: dict[str, str]) -> None:
    assert {word: kind.name for word, kind in kinds_of(path, name).items()} == kinds
    command: click.Command = cli
    for word in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    if (path, name) != (["job", "run"], "queue"):
        assert name in {param.name for param in command.params}


def complete(*words: str, home: Path) -> tuple[list[str], str]:
    """Return what bash would be told, and what goes to standard error."""
    env = {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "STRATO_HOME")}
    env |= {"HOME": str(home), "_STRATO_COMPLETE": "bash_complete"}
    env |= {"COMP_WORDS": " ".join(["strato", *words]), "COMP_CWORD": str(len(words))}
    command = [sys.executable, "-P", "-m", "strato"]
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=False, timeout=120)
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line], done.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("doc",), ["doctor"]),
        (("completion", "f"), ["fish"]),
        (("down", "--pur"), ["--purge"]),
        (("job", "view", "-N", "tr"), []),
        (("-k", "/nowhere", "job", "view", "-N", "tr"), []),
        (("-s", "http://127.0.0.1:1", "job", "view", "-N", "tr"), []),
        (("explain", "jo"), ["job/"]),
        (("logs", ""), ["pod/", "job/"]),
    ],
)
def test_without_a_cluster_words_are_completed_and_nothing_is_said(
    words: tuple[str, ...], found: list[str], tmp_path: Path
) -> None:
    assert complete(*words, home=tmp_path) == (sorted(found), "")
