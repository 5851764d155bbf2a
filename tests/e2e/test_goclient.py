"""Volcano's own Go client works unchanged: ``goclient/main.go`` says what it does, on either world."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.gobuild import built
from tests.e2e.worlds import World

SOURCE = Path(__file__).parent / "goclient"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


@pytest.fixture(scope="session")
def goclient() -> Path:
    """Build the program once; the first build takes minutes."""
    return built(SOURCE, "goclient") / "goclient"


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
