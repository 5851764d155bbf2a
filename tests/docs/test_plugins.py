"""The worked example of docs/plugins.md runs as it is printed: the plugin, its tests, its configuration."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from strato.cli.main import cli
from strato.scheduler.framework.plugin import POINTS, Plugin
from strato.testing import manifests

DOC = Path(__file__).parents[2] / "docs" / "plugins.md"
BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    for name, text in BLOCK.findall(DOC.read_text()):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_authors_tests_pass(example: Path) -> None:
    paths = os.pathsep.join([str(example), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_cheap.py"],
        cwd=example,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_configuration_takes_the_plugin_and_decisions_follow(example: Path) -> None:
    objects = [
        manifests.node("dear", cpu="8", labels={"example.com/price": "4.0"}),
        manifests.node("cheap", cpu="8", labels={"example.com/price": "0.5"}),
        manifests.pod("p", cpu="1"),
    ]
    (example / "cluster.json").write_text(json.dumps(objects))
    config = example / "scheduler.conf"
    run = CliRunner().invoke
    assert run(cli, ["config", "check", str(config)], catch_exceptions=False).exit_code == 0
    result = run(cli, ["schedule", "-f", str(example / "cluster.json"), "--config", str(config), "-o", "json"])
    assert json.loads(result.stdout)["cycles"][0]["binds"] == [{"pod": "default/p", "node": "cheap"}]


def test_typing_errors_are_told_as_the_page_says(example: Path) -> None:
    """The worked example with three names mistyped."""
    text = (example / "cheap.py").read_text()
    for right, wrong in (
        ("def filter_task(", "def filter_tasks("),
        ("metadata.annotation(LIMIT)", "metadata.anotation(LIMIT)"),
        ("self.args.weight", "self.args.wieght"),
    ):
        text = text.replace(right, wrong, 1)
    (example / "cheap.py").write_text(text)
    command = [sys.executable, "-m", "strato", "config", "check", "scheduler.conf"]
    done = subprocess.run(command, cwd=example, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: scheduler.conf is invalid (3 problems)")
    assert f"```text\n{done.stderr}```" in DOC.read_text()


def test_the_list_of_extension_points_is_that_of_the_class() -> None:
    rows = []
    for name, found in POINTS.items():
        method = vars(Plugin)[name]
        arguments = ", ".join(list(inspect.signature(method).parameters)[1:])
        toggles = " or ".join(f"`{toggle}`" for toggle in found.toggles)
        first = re.sub(r"`+([^`]+)`+", r"`\1`", (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " "))
        rows.append(f"| `{name}({arguments})` | {first} | {toggles} |")
    text = "| method | what it says | switched by |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
    assert text in DOC.read_text(), f"docs/plugins.md should have\n{text}"
