"""The command reference says what the commands say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("command_reference", ROOT / "tools" / "command_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_would_be_written_now(tool: ModuleType) -> None:
    """If not: ``python tools/command_reference.py``."""
    assert (ROOT / "docs" / "commands.md").read_text() == tool.reference()
