"""The node gets an answer to each container that it starts, whatever fails on the way."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from strato.node.sandbox import supervisor

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
"""Threads that other tests left do not matter to the child, which runs the supervisor alone."""

SPEC: dict[str, Any] = {"isolation": "plain", "stdin": False, "tty": False, "cgroups": [], "userNamespace": ""}


def launched(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Launch a container in a process of its own; return the answer and how it says that it ended."""
    directory.mkdir()
    (directory / "spec.json").write_text(json.dumps({**SPEC, "log": str(directory / "0.log"), "argv": ["true"]}))
    read, write = os.pipe()

    def send(answer: dict[str, Any]) -> None:
        os.write(write, json.dumps(answer).encode())

    pid = os.fork()
    if pid == 0:
        try:
            supervisor.launch(str(directory), send)
        finally:
            os._exit(1)
    os.close(write)
    with open(read, "rb") as answers:
        answer = json.loads(answers.read() or b"{}")
    os.waitpid(pid, 0)
    return answer, json.loads((directory / "exit.json").read_text())


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        pytest.param("Pipes", ValueError("a bug"), "ValueError('a bug')", id="a bug"),
        pytest.param("LogWriter", OSError(errno.ENOSPC, "No space left on device"), "No space left", id="a full disk"),
    ],
)
def test_what_fails_before_the_process_is_made_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, text: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(supervisor, name, fail)
    answer, end = launched(tmp_path / "0")
    assert text in answer["error"]
    assert (answer["pid"], end["exitCode"], end["error"]) == (0, 128, answer["error"])


def test_a_process_that_cannot_be_forked_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says so when the builder of the root, the first process of the namespace, has failed already."""
    fork = os.fork

    def once() -> int:
        monkeypatch.setattr(os, "fork", refuse)
        return fork()

    def refuse() -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", once)
    answer, end = launched(tmp_path / "0")
    assert answer["error"] == end["error"] == "sandbox of the container: Cannot allocate memory"
