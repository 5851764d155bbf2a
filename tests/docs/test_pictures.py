"""The pictures show the data beside them, and can be read on light and dark pages without anything from elsewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_are_what_would_be_drawn_now(tool: ModuleType) -> None:
    """If not: ``python tools/pictures.py``."""
    drawn = tool.drawn()
    assert {path.name for path in tool.IMAGES.glob("*.svg")} == drawn.keys()
    assert [name for name, content in drawn.items() if (tool.IMAGES / name).read_text() != content] == []


def test_a_picture_is_self_contained_and_has_two_colourings(tool: ModuleType) -> None:
    for content in tool.drawn().values():
        assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        assert re.findall(r"https?://[^\"]+", content) == ["http://www.w3.org/2000/svg"]
        assert "prefers-color-scheme: dark" in content


def test_the_run_holds_no_cpu_twice(tool: ModuleType) -> None:
    pods = {"a": {"a-0": {"bound": 0.0, "ended": 2.0}, "a-1": {"bound": 0.0, "ended": 1.0}}}
    pods["b"] = {"b-0": {"bound": 1.0, "ended": 3.0}}
    assert list(tool.on_cpus(pods, 2)) == [(0, "a", 0.0, 1.0), (1, "a", 0.0, 2.0), (0, "b", 1.0, 3.0)]
