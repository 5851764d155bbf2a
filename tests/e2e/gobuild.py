"""Programs of others, built once with Go from published modules and kept outside the tree."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


class NotBuilt(Exception):
    """There is no Go here, or a module cannot be had."""


def built(source: Path, name: str, packages: Sequence[str] = (".",)) -> Path:
    """Return what `build` does; without Go or the modules the test is skipped, with a word."""
    try:
        return build(source, name, packages)
    except NotBuilt as error:
        pytest.skip(str(error))


def build(source: Path, name: str, packages: Sequence[str] = (".",)) -> Path:
    """Return the directory of the programs that ``source``, a folder with a ``go.mod``, builds from ``packages``.

    The first call takes minutes.

    Raises:
        NotBuilt: There is no Go, or a module cannot be had.
    """
    files = sorted(path for path in source.iterdir() if path.suffix in {".mod", ".sum", ".go"})
    content = b"".join(path.read_bytes() for path in files)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"strato-{name}"
    target = cache / hashlib.sha256(content).hexdigest()[:16]
    if target.exists():
        return target
    go = _go()
    # only what these packages import: a plain download would fetch every module that is named
    listed = subprocess.run([go, "list", "-deps", *packages], cwd=source, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise NotBuilt(f"the modules of {name} cannot be had: {listed.stderr[-300:]}")
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    fresh.mkdir(parents=True)
    subprocess.run([go, "build", "-ldflags", "-s -w", "-o", f"{fresh}/", *packages], cwd=source, check=True)
    if target.exists():
        shutil.rmtree(fresh)
    else:
        fresh.rename(target)
    return target


def module_files(source: Path, module: str) -> Path:
    """Return where the Go toolchain keeps the files of a module that ``source`` requires; skip the test without."""
    try:
        go = _go()
    except NotBuilt as error:
        pytest.skip(str(error))
    done = subprocess.run([go, "list", "-m", "-json", module], cwd=source, capture_output=True, text=True, check=False)
    directory = json.loads(done.stdout).get("Dir", "") if done.returncode == 0 else ""
    if not directory:
        downloaded = subprocess.run(
            [go, "mod", "download", "-json", module], cwd=source, capture_output=True, text=True, check=False
        )
        if downloaded.returncode:
            pytest.skip(f"{module} cannot be had: {(downloaded.stdout + downloaded.stderr)[-300:]}")
        directory = json.loads(downloaded.stdout)["Dir"]
    return Path(directory)


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise NotBuilt("Go is not installed (https://go.dev/dl)")
    return go
