"""Every page has its place in the order of the site (mkdocs.yml)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ORDER = ["Start", "Use", "Policies", "Operate", "Understand"]
NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]


def pages(nav: Any) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case list() | dict():
            for entry in nav.values() if isinstance(nav, dict) else nav:
                yield from pages(entry)


def test_a_reader_finds_the_pages_in_the_order_of_what_he_wants() -> None:
    assert [next(iter(section)) for section in NAV] == ORDER
    assert NAV[0]["Start"][0] == "index.md"


def test_no_page_is_left_out() -> None:
    """A new page goes into ``nav`` of mkdocs.yml, under what its reader wants to do."""
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert there - set(pages(NAV)) == set()


def test_no_page_has_two_places() -> None:
    places = list(pages(NAV))
    assert sorted(places) == sorted(set(places))
