"""Compiled code is made again where what is kept of it is damaged, or of a version with other names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MODULE = """
from typing import NamedTuple
import numpy as np
from strato.machinecode import jit

class {name}(NamedTuple):
    values: object

@jit()
def total(row):
    return row.values.sum()

print(total({name}(np.arange(4))), total._cache.__class__.__name__)
"""


def run(folder: Path, name: str) -> str:
    """Import a module with a kernel that takes a named tuple in a new process; return what it prints."""
    (folder / "kernelmodule.py").write_text(MODULE.format(name=name))
    made = subprocess.run(
        [sys.executable, "-c", "import logging; logging.basicConfig(); import kernelmodule"],
        cwd=folder,
        env={"PATH": "", "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout + made.stderr


def kept(folder: Path, ending: str) -> list[Path]:
    return sorted((folder / "cache").rglob(f"*{ending}"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def spoil(path: Path) -> None:
    path.write_bytes(bytes(byte ^ 0x55 for byte in path.read_bytes()))


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [cut, spoil, lambda path: path.write_bytes(b"")], ids=["cut", "spoiled", "emptied"])
def test_damaged_code_is_made_again(tmp_path: Path, ending: str, damage: Callable[[Path], None]) -> None:
    assert run(tmp_path, "Row").startswith("6 CodeCache")
    (file,) = kept(tmp_path, ending)
    damage(file)
    assert "compiled code cannot be used" in run(tmp_path, "Row")
    assert "cannot be used" not in run(tmp_path, "Row")


def test_code_for_a_class_that_has_another_name_now_is_made_again(tmp_path: Path) -> None:
    run(tmp_path, "Row")
    assert run(tmp_path, "RequestRow").startswith("6 CodeCache")
