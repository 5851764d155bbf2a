"""docs/architecture.md draws the rooms there are, and its links and paths lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PATH = re.compile(r"`((?:(?:src/strato|tests|benchmarks|examples)/)?[a-z_]+(?:/[a-z_]+)+(?:\.py|/)?)`")
ROOMS = {path.name.removesuffix(".py") for path in (ROOT / "src" / "strato").iterdir()}


def test_the_drawing_is_the_contract() -> None:
    drawn = re.search(r"```text\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.DOTALL)
    assert drawn is not None
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == "rooms point one way")
    told = [re.split(r" [|:] ", line.strip()) for line in drawn[1].strip().splitlines()]
    assert [set(line) for line in told] == [
        {room.removeprefix("strato.") for room in re.split(r" [|:] ", layer)} for layer in layers
    ]
    assert {room for line in told for room in line} <= ROOMS


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_paths_in_the_documentation_lead_somewhere(page: Path) -> None:
    """A path in backquotes is one of the repository's, or of a room below `src/strato`."""
    lost = []
    for path in PATH.findall(page.read_text()):
        first = path.split("/")[0]
        if first in ("src", "tests", "benchmarks", "examples") and not (ROOT / path).exists():
            lost.append(path)
        if first in ROOMS and not (ROOT / "src" / "strato" / path).exists():
            lost.append(path)
    assert lost == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


MODULE = re.compile(r"`((?:{})(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?`".format("|".join(sorted(ROOMS - {"__main__"}))))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_modules_in_the_documentation_exist(page: Path) -> None:
    """A dotted name in backquotes that begins with a room is a module of it, or something in a module."""
    lost = []
    for name in MODULE.findall(page.read_text()):
        path = ROOT / "src" / "strato" / name.replace(".", "/")
        if not (path.exists() or path.with_suffix(".py").exists() or path.parent.with_suffix(".py").exists()):
            lost.append(name)
    assert lost == []
