"""``strato up``, ``kubectl``, ``status`` and ``version`` before and around a cluster."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from strato.cli.apiserver import open_api, purge
from strato.cli.embedded.background import _Compiling, full_disks
from strato.cli.embedded.serve import end_a_start_that_cannot_write
from strato.cli.home import Home
from strato.cli.main import main
from strato.clock import SystemClock
from strato.errors import Unavailable
from strato.metrics import Registry
from strato.server.journal import SqliteJournal

MISTAKES: list[Any] = [
    pytest.param(["--cpus", "abc"], "'--cpus': 'abc' is not a quantity", id="cpus that are no quantity"),
    pytest.param(["--node-memory", "5Q"], "'--node-memory': '5Q' is not a quantity", id="memory of an unknown unit"),
    pytest.param(["--hollow-nodes", "2", "--cpu", "0"], "'--cpu': '0' is not above zero", id="hollow nodes of no cpu"),
    pytest.param(["--memory", "-1Gi"], "'-1Gi' is not above zero", id="memory below zero"),
    pytest.param(["--no-sandbox"], "no nodes: with --no-sandbox give --hollow-nodes N", id="a cluster without nodes"),
    pytest.param(["--data-dir", __file__], f"'--data-dir': Directory '{__file__}' is a file", id="a file as directory"),
    pytest.param(["--pod-network", "lan"], "'lan' is not one of 'nat', 'isolated', 'host'", id="an unknown network"),
]

ONE_NODE = """\
{apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {allocatable: {cpu: 1, pods: 5}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: pod-1}, spec: {schedulerName: volcano, containers: [{name: c, image: i}]}}
"""


def run(capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    output = capfd.readouterr()
    return int(ended.value.code or 0), output.out, output.err


@pytest.mark.parametrize(("options", "words"), MISTAKES)
def test_up_refuses_what_cannot_work_before_anything_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    code, _, err = run(capfd, "--home", str(tmp_path / "home"), "up", "--port", "0", *options)
    assert code != 0
    assert words in err
    assert not (tmp_path / "home").exists()


def outcome(stderr: str) -> str:
    """Return what a start said but for the line that a loaded machine adds, where it takes long."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("still starting;"))


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        pytest.param("--config", 'actions: "enqueue, alocate"\n', "alocate", id="the other process finds it"),
        pytest.param("--encryption-key-file", "a: short\n", "the key must be 32 bytes", id="the server finds it"),
    ],
)
def test_up_with_an_unusable_file_says_only_that(tmp_path: Path, option: str, text: str, words: str) -> None:
    """Paths are those of the directory where the command was typed, whose files are not modules of ours."""
    (tmp_path / "given").write_text(text)
    (tmp_path / "given").chmod(0o600)
    (tmp_path / "random.py").write_text("raise SystemExit('imported')\n")
    options = ["--no-sandbox", "--hollow-nodes", "1", "--port", "0", option, "given", "--data-dir", "data"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "strato", "--home", "home", "up", *options],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    said = outcome(done.stderr).splitlines()
    assert said[0] == f"error: {tmp_path / 'given'} is invalid (1 problem)"
    assert words in said[1]
    assert len(said) == 2


async def test_a_start_ends_when_the_journal_cannot_be_written_and_a_cluster_that_serves_does_not(
    tmp_path: Path,
) -> None:
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    announced = asyncio.Event()
    starting = asyncio.ensure_future(end_a_start_that_cannot_write(journal, announced))
    await asyncio.sleep(0)
    assert not starting.done()
    journal.failure = Unavailable("the journal cannot be written: database or disk is full")
    journal.failed.set()
    with pytest.raises(Unavailable, match="disk is full"):
        await starting
    announced.set()
    serving = asyncio.ensure_future(end_a_start_that_cannot_write(journal, announced))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not serving.done()
    serving.cancel()
    journal.close()


async def test_purge_leaves_nothing_but_what_others_put_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    api = await open_api(
        home, SystemClock(), Random(1), metrics=Registry(), host="127.0.0.1", port=0, data_dir=home.data
    )
    await api.close()
    home.log.write_text("said\n")
    assert len(list(home.path.iterdir())) > 8
    mine = home.path / "kubeconfig.mine"
    mine.write_text("kept\n")
    with pytest.raises(SystemExit):
        await asyncio.to_thread(main, ["--home", str(home.path), "down", "--purge", "--yes"])
    assert "no cluster runs" in capfd.readouterr().out
    assert list(home.path.iterdir()) == [mine]
    mine.unlink()
    purge(home)
    assert not home.path.exists()
    purge(home)


def test_a_start_without_room_names_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log, where the reason should be, may have been the first to find no room."""
    room = {tmp_path: 0, tmp_path / "data": 1 << 30}
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(
        "strato.cli.embedded.background.shutil.disk_usage", lambda path: SimpleNamespace(free=room[path])
    )
    assert full_disks(*room, tmp_path / "not-there") == f"\n  {tmp_path}: no space left on this disk"


def test_kubectl_gets_every_word_as_typed(tmp_path: Path) -> None:
    tool = tmp_path / "kubectl"
    tool.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    tool.chmod(0o755)
    (tmp_path / "config").write_text("{}")
    words = ["exec", "p", "-n", "x", "--help", "--", "sh", "-c", "echo -- 'a b'"]
    done = subprocess.run(
        [sys.executable, "-m", "strato", "--kubeconfig", str(tmp_path / "config"), "kubectl", *words],
        env={**os.environ, "PATH": str(tmp_path)},
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout.split("|")[:-1] == words


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["--help"], 0, id="help"),
        pytest.param(["get", "-h"], 0, id="help on a verb"),
        pytest.param(["completion", "bash"], 0, id="a completion script"),
        pytest.param([], 0, id="nothing, which kubectl answers with its help"),
        pytest.param(["get", "pods"], 1, id="a question to a cluster"),
        pytest.param(["exec", "p", "--", "sh", "--help"], 1, id="help of a program in a pod"),
    ],
)
def test_kubectl_explains_itself_without_a_cluster(tmp_path: Path, words: list[str], code: int) -> None:
    tool = tmp_path / "kubectl"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "strato", "--home", str(tmp_path / "none"), "kubectl", *words],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == code


def test_kubectl_speaks_to_the_cluster_that_the_global_options_name(tmp_path: Path) -> None:
    """A command for one cluster must not reach another one because a context was passed over."""
    tool = tmp_path / "kubectl"
    tool.write_text('#!/bin/sh\nprintf "%s|" "$KUBECONFIG" "$@"\n')
    tool.chmod(0o755)
    config = tmp_path / "config"
    config.write_text("{}")
    named = ["--kubeconfig", str(config), "--context", "other", "--master", "https://there:1"]
    done = subprocess.run(
        [sys.executable, "-m", "strato", *named, "kubectl", "get", "pods"],
        env={**os.environ, "PATH": str(tmp_path)},
        text=True,
        capture_output=True,
        check=True,
    )
    words = [str(config), "--server=https://there:1", "--context=other", "get", "pods"]
    assert done.stdout.split("|")[:-1] == words


def test_version_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "version", "-o", "json")
    assert code == 0
    assert json.loads(out)["API Version"] == "v1alpha1"


def test_the_list_of_commands_imports_none_of_what_they_need() -> None:
    heavy = "{'numpy', 'numba', 'msgspec', 'httptools', 'yaml', 'rich', 'cryptography'}"
    script = (
        "import sys\nfrom strato.cli.main import main\n"
        "try:\n main(['--help'])\nexcept SystemExit:\n pass\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_user_without_a_place_for_kernels_is_told_which_variable_names_one() -> None:
    """Numba itself finds none: it looks into zip files only."""
    env = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}
    command = [sys.executable, "-P", "-m", "strato", "schedule", "-f", "-"]
    done = subprocess.run(command, input=ONE_NODE, env=env, text=True, capture_output=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("set NUMBA_CACHE_DIR to a folder that may")


def test_purge_asks_first_and_a_script_is_told_how_to_answer(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "tokens.json").write_text("{}")
    command = [sys.executable, "-P", "-m", "strato", "--home", str(home), "down", "--purge"]
    done = subprocess.run(command, input="y\n", text=True, capture_output=True, check=False)
    assert done.returncode == 2
    assert "in a script add --yes" in done.stderr
    assert home.exists()
    for answer, code in (("n", 1), ("y", 0)):
        master, terminal = os.openpty()
        os.write(master, f"{answer}\n".encode())
        done = subprocess.run(command, stdin=terminal, text=True, capture_output=True, check=False)
        os.close(master)
        os.close(terminal)
        assert done.returncode == code, done.stderr
        assert "with all its jobs, images and keys?" in done.stdout + done.stderr
        assert home.exists() == (answer == "n")


def test_what_a_first_start_compiles_is_said_as_it_is_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path)
    home.log.write_text("x I strato.scheduler.placement.kernelcache: of the start before\n")
    compiling = _Compiling(home)
    assert compiling.report() is False
    with home.log.open("a") as log:
        log.write(
            "x I strato.cli: random seed 1\nx I strato.scheduler.placement.kernelcache: compiling: 1 of 3\nx I str"
        )
    assert compiling.report() is True
    with home.log.open("a") as log:
        log.write("ato.scheduler.placement.kernelcache: compiling: 2 of 3\n")
    assert compiling.report() is True
    assert compiling.report() is False
    said = capfd.readouterr().err.splitlines()
    assert said == ["first start: compiling: 1 of 3 …", "first start: compiling: 2 of 3 …"]


def test_of_a_port_that_is_taken_only_that_is_said(tmp_path: Path) -> None:
    """What the parts meet as the server goes away again is in the log."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["up", "--no-sandbox", "--hollow-nodes", "1", "--port", str(port)]
        command = [sys.executable, "-P", "-m", "strato", "--home", str(tmp_path / "home"), *words]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "error: the cluster did not start:\n"
        f"  error: cannot listen on 127.0.0.1:{port}: Address already in use; choose another --port\n",
    )
