"""Hooks of mkdocs (``make docs``): pages that lie outside docs/ join the site, and links are the repository's.

In the repository a link leads to a file. In the site a link to another page leads to that page; one to a file that
is no page (a source, a manifest) becomes its text; one to a file that is not there fails the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "deploy/README.md": "on-a-cluster.md",
    "SECURITY.md": "report-a-vulnerability.md",
    "examples/README.md": "examples/index.md",
    **{
        f"examples/{path.parent.name}/README.md": f"examples/{path.parent.name}.md"
        for path in ROOT.glob("examples/*/README.md")
    },
}
"""Pages outside docs/, and their names in the site."""
SOURCES = {site: source for source, site in OUTSIDE.items()}
FILE = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
WORLD = re.compile(r"^```console world=(\w+)$", re.MULTILINE)
WORLDS = {"cluster": "on a cluster", "registry": "with docker, a registry and a cluster"}
"""What a block's world is called above it."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")

_log = logging.getLogger("mkdocs.hooks.docs_site")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie elsewhere."""
    for source, site in OUTSIDE.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Lead links to where their files are in the site."""
    del config, files
    site = page.file.src_uri
    source = SOURCES.get(site) or f"docs/{site}"

    def lead(found: re.Match[str]) -> str:
        mark, text, link, anchor = found.groups(default="")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if not (ROOT / target).exists():
            _log.warning("%s: a link leads to %s, which is not there", source, target)
        place = OUTSIDE.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
        if not place or (ROOT / target).is_dir():
            return text
        return f"{mark}[{text}]({posixpath.relpath(place, posixpath.dirname(site) or '.')}{anchor})"

    titled = WORLD.sub(lambda found: f'```console title="{WORLDS[found[1]]}"', FILE.sub(r'```\1 title="\2"', markdown))
    return LINK.sub(lead, titled)
