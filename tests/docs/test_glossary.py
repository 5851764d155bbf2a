"""docs/glossary.md tells the truth about the code, and the code uses its words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
ENTRY = re.compile(r"^- \*\*(.+?)\*\*: (.+?)(?=^- \*\*|\Z)", re.MULTILINE | re.DOTALL)
ENTRIES = {term: " ".join(text.split()) for term, text in ENTRY.findall(GLOSSARY.read_text())}

LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
CODE = re.compile(r"`([A-Za-z_]\w+)` in \[[^]]*\]\(([^)]+)\)")

BANNED = {
    "alike": "equal, of one class",
    "crowd": "equivalence class, load",
    "crowded": "under load, over the limit",
    "crowds": "equivalence classes",
    "culprit": "the name of what was found",
    "deaf": "discarding",
    "dismiss": "remove",
    "doom": "terminate",
    "doomed": "terminating",
    "employ": "run",
    "everybody": "all, waiters",
    "farewell": "close",
    "flavour": "variant",
    "happening": "event",
    "happenings": "events",
    "hear": "observe",
    "heard": "observed",
    "hire": "start",
    "immortal": "protected",
    "lonely": "single",
    "lull": "window",
    "minds": "has rules",
    "mould": "template",
    "patience": "timeout",
    "patient": "low priority",
    "restated": "status dirty",
    "said": "reported",
    "sighting": "sources",
    "squeeze": "compress",
    "squeezed": "compressed",
    "stander": "entry",
    "standers": "entries",
    "stir": "change",
    "stirred": "dirty",
    "stranger": "orphan",
    "strangers": "orphans",
    "tell": "notify, report",
    "told": "notified, reported",
    "whoever": "every user",
    "unseen": "not observed",
}
ELSEWHERE = {"tell": {"node/images/layers.py": "file objects have a method of that name"}}
"""Where a banned word is somebody else's name, and whose."""

WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield what a module defines: classes, functions, parameters, variables, attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def banned_names() -> Iterator[str]:
    """Yield where a banned word is part of a name, and what to say instead."""
    for path in (ROOT / "src" / "strato").rglob("*.py"):
        room = path.relative_to(ROOT / "src" / "strato").as_posix()
        for line, name in names(path):
            for word in {part.lower() for part in WORD.findall(name)} & BANNED.keys():
                if room not in ELSEWHERE.get(word, {}):
                    yield f"{room}:{line} {name}: say {BANNED[word]}"


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_names_code_that_is_there(term: str) -> None:
    text = ENTRIES[term]
    links = LINK.findall(text)
    assert any("../src/strato" in link for link in links), "every entry says where the thing is"
    assert [link for link in links if not (GLOSSARY.parent / link).exists()] == []
    for name, link in CODE.findall(text):
        assert re.search(rf"\b{name}\b", (GLOSSARY.parent / link).read_text()), f"{name} is not in {link}"


def test_the_glossary_has_its_terms_in_order() -> None:
    assert len(ENTRIES) >= 40
    assert list(ENTRIES) == sorted(ENTRIES, key=str.lower)


def test_words_of_our_own_do_not_come_back() -> None:
    assert sorted(set(banned_names())) == []
