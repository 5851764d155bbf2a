"""One cluster for all end-to-end tests that share it.

``STRATO_E2E_WORLD=kube`` runs them on a real control plane, ``cluster`` on the cluster of ``KUBECONFIG``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.worlds import ClusterWorld, EmbeddedWorld, KubeWorld, World, embedded, eventually

PREFIX = "e2e-"
EXAMPLES = Path(__file__).parents[2] / "examples"

LONGEST = (
    *("test_docs", "test_laptop", "test_failover", "test_foresight", "test_advice", "test_bad_hours", "test_image"),
    *("test_up_down", "test_vcctl", "test_record", "test_examples"),
)
"""Files that take minutes: of workers beside each other none is to be left alone with one of them at the end."""

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored, and so would ours


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long files begin first; needs ``--no-loadscope-reorder``, or xdist begins with those of many tests."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Four hollow nodes of 4 cpus and 16 GiB: 16 cpus in all."""
    if _on_a_cluster():
        cluster = ClusterWorld(Path(os.environ["KUBECONFIG"].split(os.pathsep)[0]))
        cluster.check()
        yield cluster  # namespaces of others' tests may be there, so nobody counts them
        return
    directory = tmp_path_factory.mktemp("world")
    if os.environ.get("STRATO_E2E_WORLD") == "kube":
        kube = KubeWorld(directory)
        if not (kube.binaries / "kube-apiserver").exists():
            pytest.skip(f"no control plane at {kube.binaries}; build it with tests/e2e/kube/controlplane/build.sh")
        try:
            kube.start()
            yield kube
            _no_namespaces_are_left(kube)
            _nothing_was_forbidden(kube)
        finally:
            kube.stop()
        return
    options = ("--no-sandbox", "--hollow-nodes", "4", "--cpu", "4", "--memory", "16Gi")
    with embedded(directory / "home", *options) as cluster:
        yield cluster
        _no_namespaces_are_left(cluster)


def _on_a_cluster() -> bool:
    return os.environ.get("STRATO_E2E_WORLD") == "cluster"


def _nothing_was_forbidden(world: KubeWorld) -> None:
    """The components run under the roles of the installation; what they lack shows in their logs."""
    for part in ("scheduler", "controllers", "webhook"):
        lines = [line for line in world.log(part).splitlines() if "is forbidden: User" in line]
        # none may make namespaces: the installation has made theirs
        assert [line for line in lines if 'cannot create resource "namespaces"' not in line] == [], part


def _no_namespaces_are_left(world: World) -> None:
    def left() -> list[str]:
        names = [item["metadata"]["name"] for item in world.items("namespaces")]
        return [name for name in names if name.startswith(PREFIX)]

    eventually(lambda: not left(), timeout=240, what="every test's namespace is gone", every=0.5)


@pytest.fixture
def namespace(world: World) -> Iterator[str]:
    """Return a namespace of the test's own, removed with all its content afterwards.

    The next test only waits for what takes room: a real cluster looks at a namespace again seconds after its last pod
    has gone. That the namespaces go is checked at the end, for all of them.
    """
    name = f"{PREFIX}{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    world.kubectl("create", "-f", "-", stdin=json.dumps(body))
    yield name
    world.kubectl("delete", "namespace", name, "--wait=false")
    if world.items("pods", "-n", name):  # a `sleep` that is process 1 ignores SIGTERM: each would take its 30 s
        world.kubectl("delete", "pods", "--all", "-n", name, "--grace-period=1", "--wait=false")
    eventually(lambda: not world.items("pods", "-n", name), what=f"no pods of {name} are left")
    eventually(lambda: not world.items("podgroups", "-n", name), what=f"no pod groups of {name} are left")


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Callable[..., EmbeddedWorld]]:
    """Start embedded clusters with options of the test's choice."""
    started: list[EmbeddedWorld] = []

    def start(*options: str) -> EmbeddedWorld:
        cluster = EmbeddedWorld(tmp_path / f"home-{len(started)}", *options)
        started.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in started:
        cluster.stop()
        shutil.rmtree(cluster.home, ignore_errors=True)


@pytest.fixture(autouse=True)
def _needs_own_nodes(request: pytest.FixtureRequest) -> None:
    if not request.node.get_closest_marker("own_nodes") or not _on_a_cluster():
        return
    world: World = request.getfixturevalue("world")
    if not world.has_our_nodes:
        pytest.skip("needs our own nodes: four of 4 cpus and 16 GiB with nothing else on them")


@pytest.fixture(autouse=True)
def _needs_kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed; on Debian: apt-get install kubernetes-client")
