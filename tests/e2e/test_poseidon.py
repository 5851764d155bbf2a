"""Poseidon's own Go client at ``strato flow serve``: ``poseidon/main.go`` says what it does.

The module is what Poseidon published last (2019). Where it cannot be had the test is skipped; the same calls stand in
`tests/mincost/test_service.py`, with a client of Python's.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gobuild import built
from tests.e2e.worlds import STRATO

SOURCE = Path(__file__).parent / "poseidon"

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def poseidon() -> Path:
    """Build the program once."""
    return built(SOURCE, "poseidon") / "poseidon"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    """Serve on a free port; give the address. On a new machine the kernels are compiled before."""
    log = tmp_path / "serve.log"
    command = [*STRATO, "flow", "serve", "--listen", "127.0.0.1:0"]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as serving,
    ):
        try:
            assert serving.stdout is not None
            line = serving.stdout.readline()
            assert line.startswith("serving firmament.FirmamentScheduler on "), log.read_text()
            yield line.split()[-1]
            serving.send_signal(signal.SIGTERM)
            assert serving.wait(60) == 0
            assert "Traceback" not in log.read_text()
        finally:
            serving.kill()


def test_a_day_of_poseidon_over_its_own_client(poseidon: Path, service: str) -> None:
    done = subprocess.run([str(poseidon), service], capture_output=True, text=True, timeout=600, check=False)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == [], done.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    assert lines[-1] == "ok a node that failed comes back"
