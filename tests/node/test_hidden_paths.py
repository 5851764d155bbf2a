"""Who runs a program of a private directory on the machine's root is told why it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.hiddenpaths import end_message, hidden_path
from strato.node.sandbox.volumes import Mount
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import running
from tests.node.test_pod_files import ended, every_level

MOUNTS = [Mount("/srv/data", "/home/ann/data/")]


@pytest.mark.parametrize(
    ("argv", "path"),
    [
        pytest.param(["/root/bin/python", "x.py"], "/root/bin/python", id="the program itself"),
        pytest.param(["sh", "-c", "cd / && exec /root/v/python"], "/root/v/python", id="in a line for a shell"),
        pytest.param(["env", "PYTHONPATH=/home/bob/lib", "python3"], "/home/bob/lib", id="in a variable"),
        pytest.param(["sh", "-c", "(/var/tmp/a;true)"], "/var/tmp/a", id="between signs of the shell"),
        pytest.param(["/home/ann/data/run", "/home/ann/run"], "/home/ann/run", id="what is mounted is seen"),
        pytest.param(["/usr/bin/root", "/rooted/x", "/opt/root/x", "./root/x"], "", id="other directories"),
        pytest.param(["ls", "/root", "/tmp/"], "", id="the directory itself is there"),
        pytest.param(["sh", "-c", "/tmp/$NAME /root/*"], "", id="what only the shell knows"),
    ],
)
def test_the_first_path_that_is_not_seen(argv: list[str], path: str) -> None:
    said = hidden_path(argv, MOUNTS)
    assert said.partition(":")[0] == path


@pytest.mark.parametrize(
    ("code", "error", "written", "want"),
    [
        pytest.param(127, "", "", "hidden", id="not found"),
        pytest.param(126, "", "", "hidden", id="cannot be run"),
        pytest.param(1, "", "", "", id="another failure"),
        pytest.param(127, "", "mine", "mine", id="the container's own words count more"),
        pytest.param(128, "no such file", "", "no such file; hidden", id="it never started"),
    ],
)
def test_when_it_is_said(code: int, error: str, written: str, want: str) -> None:
    assert end_message(code, error, written, "hidden") == want


@every_level
async def test_a_program_in_roots_home_is_said_not_to_be_seen(tmp_path: Path, level: dict[str, Any]) -> None:
    """Where a pod has no root of its own it does see the machine's: then nothing is said."""
    async with running(tmp_path / "node", FakeApi(), **level) as world:
        world.sh("p", "/root/of/nobody/python; exit 127")
        message = ended(await world.finished("p")).get("message", "")
        assert ("/root/of/nobody/python: a pod on this machine's root" in message) == (level.get("level") != "plain")
    teardown(tmp_path / "node")
