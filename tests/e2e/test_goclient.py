"""Volcano's own Go client works unchanged: ``goclient/main.go`` says what it does, on either world."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.worlds import World

SOURCE = Path(__file__).parent / "goclient"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


@pytest.fixture(scope="session")
def goclient() -> Path:
    """Build the program once, outside the tree; the first build takes minutes."""
    content = b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strato-goclient"
    binary = cache / hashlib.sha256(content).hexdigest()[:16] / "goclient"
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed (https://go.dev/dl)")
    modules = subprocess.run([go, "mod", "download"], cwd=SOURCE, capture_output=True, text=True, check=False)
    if modules.returncode:
        pytest.skip(f"the modules of the client cannot be had: {modules.stderr[-300:]}")
    subprocess.run([go, "build", "-o", str(binary), "."], cwd=SOURCE, check=True)
    return binary


def test_the_typed_client_does_everything_with_every_kind(world: World, namespace: str, goclient: Path) -> None:
    done = subprocess.run(
        [str(goclient), namespace],
        env={**os.environ, "KUBECONFIG": str(world.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == [], done.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ok a resumed job runs" in lines
    assert "ok the whole group runs" in lines
