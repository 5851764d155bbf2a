"""Files that commands write: what cannot be written is refused before any work, and ``-`` is standard output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from strato.cli.outputs import OutputFile, problem_with
from strato.errors import StateError

TRACE = "submit,run_time,cpu\n0,10,1\n5,10,1\n"
STATE = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: x}]}\n"


def strato(*words: object, given: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strato", *map(str, words)]
    done = subprocess.run(command, input=given, text=True, capture_output=True, timeout=120, check=False, cwd=cwd)
    assert "Traceback" not in done.stderr, done.stderr
    return done


WRITERS: list[tuple[str, ...]] = [
    ("sim", "run", "TRACE", "--json", "OUT"),
    ("schedule", "-f", "STATE", "--save", "OUT"),
]


def words_of(command: Sequence[str], tmp_path: Path, out: object) -> list[str]:
    places = {"TRACE": tmp_path / "trace.csv", "STATE": tmp_path / "state.yaml", "OUT": out}
    (tmp_path / "trace.csv").write_text("this is no trace: it is not read before the output was checked")
    (tmp_path / "state.yaml").write_text("neither is this: a manifest: [")
    return [str(places.get(word, word)) for word in command]


@pytest.mark.parametrize("command", WRITERS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("out", "why"),
    [("nowhere/report.json", "there is no directory"), (".", "it is a directory"), ("/proc/report.json", "")],
    ids=["no directory", "a directory", "a place that takes no files"],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, command: Sequence[str], out: str, why: str
) -> None:
    place = out if out.startswith("/") else tmp_path / out
    done = strato(*words_of(command, tmp_path, place))
    assert done.returncode == 2
    assert f"{place} cannot be written: {why}" in done.stderr
    assert "trace" not in done.stderr.replace(str(tmp_path), "")


@pytest.mark.parametrize("command", WRITERS, ids=lambda words: words[0])
def test_a_file_that_is_there_is_kept_until_there_is_a_new_one(tmp_path: Path, command: Sequence[str]) -> None:
    out = tmp_path / "out.json"
    out.write_text("of an earlier run")
    failed = strato(*words_of(command, tmp_path, out))
    assert failed.returncode == 2
    assert f"note: {out} exists and will be replaced" in failed.stderr
    assert out.read_text() == "of an earlier run"
    words = words_of(command, tmp_path, out)
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "state.yaml").write_text(STATE)
    assert strato(*words).returncode == 0
    assert json.loads(out.read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "state.yaml", "trace.csv"]


def test_a_dash_is_standard_output_and_standard_input(tmp_path: Path) -> None:
    report = strato("sim", "run", "-", "--json", "-", given=TRACE)
    assert json.loads(report.stdout)["finished"] == 2
    saved = strato("schedule", "-f", "-", "--save", "-", given=STATE)
    assert json.loads(saved.stdout[: saved.stdout.index("\n}\n") + 3])["kind"] == "List"


def test_a_directory_of_backups_is_checked_before_the_cluster_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("/proc/nowhere", tmp_path / "file"):
        done = strato("--home", tmp_path / "home", "up", "--port", "0", "--backup-dir", place)
        assert (done.returncode, f"--backup-dir {place} cannot be written: " in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "home").exists()


READERS = [
    ("config check -", "actions: 'enqueue, allocate'\ntiers: []\n", "valid: enqueue, allocate"),
    ("sim run -", TRACE, "2 of 2 jobs finished"),
    ("flow solve -", "p min 2 1\nn 1 3\nn 2 -3\na 1 2 0 5 2\n", "s 6"),
    ("install --dry-run -f -", "custom: {scheduler_replicas: 3}\n", "replicas: 3"),
    ("schedule -f STATE --config -", "actions: 'allocate'\ntiers: []\n", "Cycle 1"),
    ("explain pod/p -f STATE --config -", "actions: 'allocate'\ntiers: []\n", "default/p"),
]


@pytest.mark.parametrize(("command", "given", "shown"), READERS, ids=[row[0] for row in READERS])
def test_a_dash_is_standard_input(tmp_path: Path, command: str, given: str, shown: str) -> None:
    (tmp_path / "STATE").write_text(STATE)
    done = strato(*command.split(), given=given, cwd=tmp_path)
    assert shown in done.stdout, done.stderr
    assert done.returncode == 0


def test_an_image_and_a_backup_come_from_standard_input(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file").write_text("x")
    packed = subprocess.run(["tar", "-C", tmp_path / "root", "-c", "."], capture_output=True, check=True).stdout
    command = [sys.executable, "-m", "strato", "--home", str(home)]
    done = subprocess.run([*command, "image", "import", "tools:1", "-"], input=packed, capture_output=True, check=False)
    assert done.stdout == b"imported tools:1\n", done.stderr
    done = subprocess.run([*command, "restore", "-"], input=packed, capture_output=True, check=False)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    assert b"backup" in done.stderr


def test_what_is_no_plain_file_is_written_through(tmp_path: Path) -> None:
    OutputFile(Path("/dev/null")).write(b"x")
    assert Path("/dev/null").is_char_device()
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    OutputFile(link).write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert problem_with(tmp_path / "free") == ""
    assert os.listdir(tmp_path) == ["target", "link"] or sorted(os.listdir(tmp_path)) == ["link", "target"]


def test_a_file_that_cannot_be_written_any_more_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(StateError, match="a cannot be written: Is a directory") as failed:
        OutputFile(tmp_path / "a").write(b"x")
    assert failed.value.exit_code == 1


def test_results_that_cannot_all_be_written_are_written_as_far_as_possible(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    done = strato("sim", "run", "t.csv", "--nodes", "1x4cpu", "--fidelity", "decisions", "--out", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("error: out/report.html cannot be written: Is a directory\n")
    assert "2 of 2 jobs finished" in done.stdout
    assert json.loads((tmp_path / "out" / "results.json").read_text())["finished"] == 2


@pytest.mark.parametrize(
    "words", [("--help",), ("crds",), ("config", "arguments"), ("completion", "bash")], ids=" ".join
)
def test_a_full_device_is_a_failure_in_a_sentence(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "strato.cli.main", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (1, "error: what is printed: No space left on device\n")
