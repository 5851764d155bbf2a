"""The sandbox helper run by a real ordinary user: the rest of the tests give root that part."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strato
from strato.node.sandbox.security import Security
from strato.node.sandbox.spawner import MAX_MESSAGE_BYTES

PYTHON = "/usr/bin/python3"
SOURCE = Path(strato.__file__).parent.parent
USER = 12345
PROGRAM = (
    "import os, sys; sys.path.insert(0, os.environ['STRATO_SOURCE']); os.dup2(int(sys.argv[1]), 3);"
    "os.set_inheritable(3, True); from strato.node.sandbox.spawner import main; main()"
)


class Helper:
    def __init__(self, sock: socket.socket, directory: Path) -> None:
        self._sock = sock
        self._directory = directory

    def call(self, **request: Any) -> dict[str, Any]:
        self._sock.send(json.dumps({"id": 1, **request}).encode())
        answer: dict[str, Any] = json.loads(self._sock.recv(MAX_MESSAGE_BYTES))
        return answer

    def start(self, script: str, security: Security) -> str:
        directory = self._directory / "run"
        directory.mkdir()
        spec = {
            "isolation": "user",
            "log": str(directory / "log"),
            "argv": ["sh", "-c", script],
            "env": {"PATH": "/usr/bin:/bin"},
            "hostname": "x",
            "workingDir": "/",
            "base": "",
            "root": str(directory / "root"),
            "scratch": str(directory / "scratch"),
            "mounts": [],
            "namespaces": [],
            "cgroups": [],
            "hide": [str(self._directory)],
            "security": security.to_json(),
            "maskedPaths": True,
            "privileged": False,
            "readOnlyRoot": False,
            "hostIPC": False,
            "processNamespace": "",
            "targetDirectory": "",
            "userNamespace": "",
            "userBase": 0,
            "devices": [],
            "stdin": False,
            "stdinOnce": False,
            "tty": False,
        }
        (directory / "spec.json").write_text(json.dumps(spec))
        shutil.chown(directory, USER, USER)
        answer = self.call(op="start", directory=str(directory))
        assert "error" not in answer
        return str(directory)


@pytest.fixture
def helper() -> Iterator[Helper]:
    if os.geteuid() != 0 or not os.path.exists(PYTHON) or not os.stat(SOURCE).st_mode & 0o005:
        pytest.skip("needs root, to be somebody else, and a Python that everybody may run")
    directory = Path(tempfile.mkdtemp(prefix="strato-user-"))
    shutil.chown(directory, USER, USER)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {"PATH": "/usr/bin:/bin", "STRATO_SOURCE": str(SOURCE), "STRATO_LOCK": str(directory / "lock")}
    process = subprocess.Popen(
        [PYTHON, "-I", "-S", "-B", "-c", PROGRAM, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env=environment,
        user=USER,
        group=USER,
        extra_groups=[],
    )
    theirs.close()
    with ours:
        if ours.recv(MAX_MESSAGE_BYTES) != b'{"id":0}':
            pytest.skip("that Python is too old")
        found = Helper(ours, directory)
        if found.call(op="probe") != {"id": 1, "isolation": "user"}:
            pytest.skip("this machine allows ordinary users no namespaces")
        yield found
    process.wait()
    shutil.rmtree(directory)


@pytest.mark.parametrize(("uid", "gid"), [(None, None), (1000, 1001)])
def test_an_ordinary_users_container_is_confined_and_entered(helper: Helper, uid: int | None, gid: int | None) -> None:
    security = Security(uid=uid, gid=gid, set_groups=False, capabilities=(0, 5, 6, 7))
    facts = "id -u; id -g; grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; ls /proc/1/fd /proc/1/root 2>/dev/null"
    directory = helper.start(f"({facts}) > /tmp/new; mv /tmp/new /tmp/facts; sleep 600", security)
    wait = "until [ -e /tmp/facts ]; do sleep 0.05; done"
    same = f"{wait}; ({facts}) > /tmp/mine; cmp /tmp/mine /tmp/facts && cat /tmp/facts"
    answer = helper.call(op="exec", directory=directory, argv=["sh", "-c", same], timeout=120)
    with open(os.path.join(directory, "state.json")) as file:
        os.kill(json.load(file)["pid"], 10)
    assert answer["exitCode"] == 0, answer
    lines = answer["output"].split()
    assert lines[:2] == [str(uid or 0), str(gid or 0)]
    found = dict(zip(lines[2::2], lines[3::2], strict=False))
    assert (found["NoNewPrivs:"], found["Seccomp:"]) == ("1", "2")
    assert found["CapEff:"] == ("00000000000000e1" if uid is None else "0" * 16)
    assert answer["output"].splitlines()[-1].startswith("Seccomp:")
