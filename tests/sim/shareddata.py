"""Where the public traces and profiles stand that tests read; a test skips where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[2].parent / "shared" / "data"


def data_folder() -> Path:
    """Return what ``STRATO_DATA`` names, or ``shared/data`` beside the checkout; skip the test without either."""
    folder = Path(os.environ.get("STRATO_DATA") or _BESIDE)
    if not folder.is_dir():
        pytest.skip(f"there is no folder {folder}; set STRATO_DATA to run this test")
    return folder
