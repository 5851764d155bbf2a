"""The page about what plugins are handed says what the classes say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_would_be_written_now() -> None:
    """If not: ``python tools/plugin_reference.py``."""
    spec = importlib.util.spec_from_file_location("plugin_reference", ROOT / "tools" / "plugin_reference.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (ROOT / "docs" / "plugin-types.md").read_text() == tool.reference()
