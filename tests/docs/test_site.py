"""The documentation as a site: every page has its place, links lead somewhere, nothing is loaded from other hosts."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mkdocs", reason="the dependency group docs is not installed: make docs")

ROOT = Path(__file__).parents[2]
LOADS = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "srcset", "object": "data"}
FOREIGN = re.compile(r"(?:https?:)?//[a-z0-9.-]+", re.IGNORECASE)
FETCHED_BY_SCRIPTS = {"https://unpkg.com": 'class="mermaid"', "https://api.github.com": 'data-md-component="source"'}
"""What the theme's scripts would fetch, and the element on a page that would make them."""


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", path)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


class Loaded(HTMLParser):
    """The addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name == LOADS.get(tag) and value]


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loaded = []
    for page in site.rglob("*.html"):
        parser = Loaded()
        parser.feed(page.read_text())
        loaded += [f"{page.name}: {address}" for address in parser.addresses if FOREIGN.match(address)]
    for style in site.rglob("*.css"):
        loaded += re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)'\"]+", style.read_text())
    assert loaded == []


def test_scripts_of_the_theme_have_no_reason_to_fetch(site: Path) -> None:
    code = " ".join(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in site.rglob("bundle.*.js"))
    assert code, "the theme's script is there"
    hosts = {host.lower() for host in re.findall(r"[\"'`](https?://[a-zA-Z0-9.-]+)", code)} - {"http://www.w3.org"}
    assert hosts <= FETCHED_BY_SCRIPTS.keys()
    pages = "".join(path.read_text() for path in site.rglob("*.html"))
    assert [element for element in FETCHED_BY_SCRIPTS.values() if element in pages] == []


def test_every_fenced_block_is_shown_as_one(site: Path) -> None:
    assert [page.name for page in site.rglob("*.html") if re.search(r"<p>\s*```", page.read_text())] == []


def test_a_page_without_a_place_fails_the_build(tmp_path: Path) -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    for path in ("docs", "tools/docs_site.py"):
        text = text.replace(f"{path}\n", f"{ROOT / path}\n").replace(f"[{path}]", f"[{ROOT / path}]")
    (tmp_path / "mkdocs.yml").write_text(text.replace("      - glossary.md\n", ""))
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "glossary.md" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("page", "link", "want"),
    [
        ("index.md", "[a](docs/glossary.md)", "[a](glossary.md)"),
        ("index.md", "![a](docs/glossary.md)", "![a](glossary.md)"),
        ("glossary.md", "[a](../README.md#x)", "[a](index.md#x)"),
        ("glossary.md", "[a](design/own-http.md)", "[a](design/own-http.md)"),
        ("design/own-http.md", "[a](../../benchmarks/README.md)", "[a](../benchmarks.md)"),
        ("glossary.md", "[a.py](../src/strato/clock.py)", "a.py"),
        ("glossary.md", "[a](https://example.com/b)", "[a](https://example.com/b)"),
    ],
)
def test_a_link_leads_to_the_page_in_the_site(hooks: Any, page: str, link: str, want: str) -> None:
    where: Any = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert hooks.on_page_markdown(link, where, None, None) == want


def test_a_link_to_nowhere_is_a_warning_and_so_fails_the_build(hooks: Any, caplog: pytest.LogCaptureFixture) -> None:
    where: Any = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    with caplog.at_level(logging.WARNING):
        hooks.on_page_markdown("[a](docs/no-such.md)", where, None, None)
    assert "docs/no-such.md" in caplog.text
