"""``strato examples``: what README and the pages name is there, and does what they say."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from strato.cli.examples import examples_folder
from strato.cli.main import cli, main

ROOT = Path(__file__).parents[2]


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    done = run("examples")
    assert done.exit_code == 0, done.output
    assert "strato schedule -f manifests/ --config scheduler.yaml" in done.output
    folder = tmp_path / "strato-examples"
    monkeypatch.chdir(folder)
    return folder


def test_they_come_with_the_wheel() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert build["force-include"] == {"examples": "strato/examples"}
    assert examples_folder() == ROOT / "examples"


def test_readmes_commands_work_on_them(written: Path) -> None:
    commands = [
        line.partition("#")[0].split()[2:]
        for line in (ROOT / "README.md").read_text().splitlines()
        if re.match(r"\$ strato (schedule|config|sim|explain job/train-large) ", line)
    ]
    assert [words[0] for words in commands] == ["schedule", "explain", "config", "sim"]
    said = [run(*words) for words in commands]
    assert [done.exit_code for done in said] == [0] * 4, [done.output for done in said]
    assert "Cycle 1: 11 bound, 20 waiting" in said[0].output
    assert "research" in said[1].output
    assert "valid: enqueue, allocate, preempt, backfill" in said[2].output
    assert "240 of 240 jobs finished" in said[3].output


def test_the_other_trace_has_queues_and_priorities(written: Path) -> None:
    done = run("sim", "run", "trace.csv", "--nodes", "4x32cpu,128Gi,8gpu", "--json", "report.json")
    assert "60 of 60 jobs finished" in done.output
    assert set(json.loads(Path("report.json").read_text())["queues"]) == {"production", "research"}


def test_what_is_there_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(SystemExit) as ended:
            main(["examples", str(place)])
        assert ended.value.code == 2
        assert f"{place} is there already" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(SystemExit) as ended:
        main(["examples", "/proc/nowhere"])
    assert ended.value.code == 2
    assert "/proc/nowhere cannot be written" in capsys.readouterr().err


def test_the_pages_of_the_examples_name_files_that_are_there() -> None:
    folder = ROOT / "examples"
    for name in re.findall(r"\]\(([^)#:]+)\)", (folder / "README.md").read_text()):
        assert (folder / name).exists(), name


def test_five_schools_run_one_trace(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written / "schools")
    command = re.search(r"^\$ strato (sim run .*\n.*)$", Path("README.md").read_text(), re.MULTILINE)
    assert command is not None
    words = command[1].replace("\\\n", " ").split()
    done = run(*words, "--limit", "25", "--processes", "2", "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["runs"]
    assert {one["policy"]: one["report"]["finished"] for one in found} == dict.fromkeys(
        ("volcano", "yarn-fair", "mesos", "firmament", "easy"), 25
    )
