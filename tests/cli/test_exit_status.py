"""Exit status by one rule, of every command: 0 done, 1 failed, 2 unusable input."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from strato.cli.main import cli
from tests.cli.test_verbs import Shell, shell

__all__ = ["shell"]

Words = tuple[str, ...]


def leaves(command: click.Command, path: Words, ctx: click.Context) -> Iterator[tuple[Words, click.Command]]:
    """Yield every command that does something, with its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from leaves(found, (*path, name), click.Context(found, ctx, info_name=name))


COMMANDS = [words for words, _ in leaves(cli, (), click.Context(cli, info_name="strato"))]
PASSED_ON = {("kubectl",)}
"""What follows is another program's."""

ASKING: dict[str, Sequence[str]] = {
    "job delete": ("-N", "no"),
    "job list": (),
    "job logs": ("no",),
    "job resume": ("-N", "no"),
    "job run": ("-N", "x"),
    "job suspend": ("-N", "no"),
    "job top": ("no",),
    "job tree": ("no",),
    "job view": ("-N", "no"),
    "job wait": ("no",),
    "submit": ("--wrap", "true"),
    "queue create": ("-n", "x"),
    "queue delete": ("-n", "no"),
    "queue get": ("-n", "no"),
    "queue list": (),
    "queue operate": ("-n", "no", "-a", "open"),
    "queue tree": (),
    "pod list": (),
    "podgroup get": ("-N", "no"),
    "podgroup list": (),
    "jobflow create": ("-f", "flow.yaml"),
    "jobflow delete": ("-N", "no"),
    "jobflow describe": ("-N", "no"),
    "jobflow get": ("-N", "no"),
    "jobflow list": (),
    "jobtemplate create": ("-f", "template.yaml"),
    "jobtemplate delete": ("-N", "no"),
    "jobtemplate describe": ("-N", "no"),
    "jobtemplate get": ("-N", "no"),
    "jobtemplate list": (),
    "node fail": ("no",),
    "node recover": ("no",),
    "logs": ("no",),
    "explain": ("job/no",),
    "shadow": (),
    "when": ("job/no",),
    "schedule": ("--from-cluster",),
    "what-if": (),
    "sim load": ("lublin:jobs=2,nodes=2", "--rate", "9/s"),
    "sim record": ("-o", "log", "--for", "1"),
    "slurm sacct": (),
    "slurm salloc": ("true",),
    "slurm sbatch": ("--wrap", "true"),
    "slurm scancel": ("no",),
    "slurm scontrol": ("show", "job", "no"),
    "slurm sinfo": (),
    "slurm squeue": (),
    "slurm srun": ("true",),
    "install": (),
}
"""Commands that ask a cluster, with what they need; an object they name is not there."""
LOCAL = {
    ("up",), ("down",), ("status",), ("kubectl",), ("config", "arguments"), ("config", "check"), ("image", "import"),
    ("image", "list"), ("image", "rm"), ("image", "build"), ("image", "pull"), ("image", "push"), ("image", "inspect"),
    ("image", "prune"), ("flow", "serve"), ("flow", "simulate"), ("flow", "solve"), ("sim", "run"),
    ("sim", "replay"), ("sim", "sweep"),
    ("sim", "reproduce"), ("sim", "utilisation"), ("sim", "traces"),
    ("run", "scheduler"), ("run", "controllers"), ("run", "webhook"), ("run", "all"), ("run", "apiserver"),
    ("run", "node"), ("run", "mesos"), ("yarn", "import"), ("yarn", "check"), ("examples",), ("man",), ("backup",),
    ("restore",), ("advise",), ("report",), ("stats",), ("agent", "reset"),
    ("doctor",), ("crds",), ("slurm", "install"), ("completion",), ("version",),
}  # fmt: skip
"""Commands that work on this machine, or are components, which wait for their server."""
STREAMS = {("exec",), ("cp",), ("port-forward",), ("shell",), ("attach",)}
"""Commands with tests of their own for what they return."""

FLOW = "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\nspec: {flows: [{name: a}]}\n"
TEMPLATE = (
    "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobTemplate\nmetadata: {name: t}\nspec: {tasks: [{replicas: 1, "
    "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]}\n"
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    (tmp_path / "broken.yaml").write_text("a: [1,\n")


def test_every_command_is_in_a_table() -> None:
    known = {tuple(words.split()) for words in ASKING} | LOCAL | STREAMS
    assert set(COMMANDS) - known == set()


@pytest.mark.parametrize("words", [words for words in COMMANDS if words not in PASSED_ON], ids=" ".join)
def test_an_unknown_option_cannot_be_used(shell: Shell, words: Words) -> None:
    error = shell.strato(*words, "--no-such-option", code=2)
    assert "No such option" in error


def refused(words: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strato.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


@pytest.mark.parametrize("words", ASKING)
def test_a_server_that_does_not_answer_is_a_failure(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from strato.cli.main import main

    with socket.socket() as probe:  # nobody listens there any more
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SystemExit) as caught:
        main(["--master", f"http://127.0.0.1:{port}", *words.split(), *ASKING[words]])
    out, err = capsys.readouterr()
    assert caught.value.code == 1, out + err
    assert "Traceback" not in err
    assert "127.0.0.1" in err


@pytest.mark.parametrize("words", [words for words in ASKING if "-N" in ASKING[words] or "no" in ASKING[words]])
def test_an_object_that_is_not_there_is_a_failure(shell: Shell, words: str) -> None:
    if words == "job run":
        words = "job view"
    given = ["no" if word == "x" else word for word in ASKING[words]]
    error = shell.strato(*words.split(), *given, code=1)
    assert "no" in error
    assert error.count("\n") == 1


def test_no_cluster_at_all_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for words in (["job", "list"], ["status"], ["logs", "x"]):
        done = refused(["--home", str(tmp_path / "none"), *words], environment)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "strato up" in done.stderr


UNUSABLE: list[Words] = [
    ("job", "run", "-N", "X_y"),
    ("job", "run", "-N", "x", "-r", "0"),
    ("job", "run", "-N", "x", "-R", "cpu=2", "-L", "cpu=1"),
    ("job", "run", "-N", "x", "--dry-run=sometimes"),
    ("job", "run", "-f", "broken.yaml"),
    ("job", "list", "-l", "a=b=c"),
    ("job", "list", "-o", "xml"),
    ("job", "view", "-N", ""),
    ("job", "wait", "x", "--timeout", "soon"),
    ("job", "logs", "x", "--tail", "-1"),
    ("submit", "no-such-file"),
    ("submit", "--wrap", "x", "-t", "soon"),
    ("queue", "create", "-n", "q", "-w", "0"),
    ("queue", "create", "-n", "Q q"),
    ("queue", "operate", "-n", "default", "-a", "update"),
    ("queue", "operate", "-n", "default", "-a", "paint"),
    ("queue", "tree", "-f", "broken.yaml"),
    ("queue", "tree", "-w", "-f", "job.yaml"),
    ("sim", "utilisation", "broken.yaml"),
    ("sim", "sweep", "broken.yaml", "--over", "nodes.count=1"),
    ("sim", "sweep", "no-such-file.yaml", "--over", "nodes.count=1"),
    ("sim", "traces", "no-such-file"),
    ("sim", "traces", "broken.yaml"),
    ("sim", "traces", "lublin:jobs=many"),
    ("sim", "load", "lublin:jobs=2", "--rate", "soon"),
    ("sim", "load", "lublin:jobs=2", "--rate", "1/s", "--speed", "2x"),
    ("sim", "replay", "no-such-log"),
    ("sim", "replay", "broken.yaml"),
    ("what-if", "-f", "broken.yaml"),
    ("what-if", "--log", "no-such-log"),
    ("what-if", "--at", "+1s"),
    ("yarn", "check", "broken.yaml"),
    ("yarn", "import", "broken.yaml"),
    ("pod", "list", "-o", "xml"),
    ("podgroup", "get", "-N", "a/b"),
    ("jobflow", "create", "-f", "broken.yaml"),
    ("jobflow", "create", "-f", "no-such-file.yaml"),
    ("jobflow", "describe", "-o", "xml"),
    ("jobtemplate", "delete"),
    ("node", "fail"),
    ("node", "fail", "n", "--how", "paint"),
    ("node", "recover", "n", "--all"),
    ("logs", "a/b/c"),
    ("explain", "paint/x"),
    ("explain", "-f", "broken.yaml", "job/x"),
    ("schedule", "-f", "broken.yaml"),
    ("schedule",),
    ("config", "check", "broken.yaml"),
    ("config", "arguments", "no-such-plugin"),
    ("image", "import", "x", "no-such-file"),
    ("flow", "solve", "no-such-file"),
    ("flow", "simulate", "no-such-folder"),
    ("flow", "serve", "--listen", "x"),
    ("sim", "run", "no-such-file.csv"),
    ("install", "--set", "a"),
    ("completion", "nosh"),
    ("up", "--port", "x"),
    ("up", "--smtp-server", "a b"),
    ("up", "--mail-from", "nobody"),
    ("run", "nothing"),
    ("run", "controllers", "--controllers", "no-such-controller"),
    ("version", "extra"),
    ("paint",),
]


@pytest.mark.parametrize("words", UNUSABLE, ids=" ".join)
def test_what_cannot_be_used_has_a_status_of_its_own(shell: Shell, words: Words) -> None:
    assert shell.strato(*words, code=2)


def test_a_flow_that_could_not_be_created_is_a_failure(shell: Shell) -> None:
    shell.strato("jobflow", "create", "-f", "flow.yaml")
    error = shell.strato("jobflow", "create", "-f", "flow.yaml", code=1)
    assert error == 'Failed to create jobflow: JobFlow default/f: jobflows.flow.volcano.sh "f" already exists\n'


def test_an_image_that_is_not_there_is_a_failure(shell: Shell, tmp_path: Path) -> None:
    assert "is not in the store" in shell.strato("--home", str(tmp_path / "home"), "image", "rm", "no", code=1)
