"""Fresh clusters for the clients: one with real pods, one that only pretends."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.worlds import EmbeddedWorld, embedded


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """This machine as a node, on which pods are processes."""
    with embedded(tmp_path_factory.mktemp("sandbox") / "home", "--cpus", "16", "--node-memory", "64Gi") as world:
        yield world


@pytest.fixture(scope="module")
def hollow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """Two hollow nodes, for clients that need no processes."""
    with embedded(tmp_path_factory.mktemp("hollow") / "home", "--no-sandbox", "--hollow-nodes", "2") as world:
        yield world


@pytest.fixture
def namespace(sandbox: EmbeddedWorld) -> Iterator[str]:
    """Return a namespace of the test's own on the cluster with real pods, gone with all its content afterwards."""
    name = f"client-{uuid.uuid4().hex[:8]}"
    sandbox.kubectl("create", "namespace", name)
    yield name
    sandbox.kubectl("delete", "namespace", name, "--timeout=120s")


@pytest.fixture(autouse=True)
def _needs_kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed; on Debian: apt-get install kubernetes-client")
