"""Pods on another machine: the embedded API server asks their node, which another home and process is."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.worlds import STRATO, EmbeddedWorld, embedded, eventually, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]
SCRIPT = "echo begun; mkdir /tmp/web; cd /tmp/web; echo served > name; exec python3 -m http.server 8000"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """A cluster without pods of its own machine, and a node of another home that holds no more than its own rights."""
    folder = tmp_path_factory.mktemp("remote")
    with embedded(folder / "home", "--no-sandbox", "--hollow-nodes", "1") as world:
        home = [*STRATO, "--home", str(folder / "far")]
        node = [*home, "-k", str(world.home / "kubeconfig.node"), "run", "node", "--sandbox", "--cpus", "2"]
        door = ["--kubelet-port", str(free_port()), "--client-ca-file", str(world.home / "pki" / "ca.crt")]
        with (folder / "log").open("wb") as log, subprocess.Popen([*node, *door], stdout=log, stderr=log) as process:
            try:
                main = {"name": "main", "image": "strato/host", "command": ["sh", "-c", SCRIPT], "stdin": True}
                spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [main]}
                spec["nodeSelector"] = {"node.kubernetes.io/instance-type": "sandbox"}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "far"}, "spec": spec}
                world.kubectl("create", "-f", "-", stdin=json.dumps(pod))
                world.kubectl("wait", "--for=condition=Ready", "pod/far", "--timeout=240s")
                yield world
                world.kubectl("delete", "pod", "far")
            finally:
                process.terminate()
                process.wait(120)
                subprocess.run([*home, "down"], check=True, capture_output=True, timeout=240)


def test_logs_and_commands(world: EmbeddedWorld) -> None:
    assert world.kubectl("logs", "far", "--tail=1") == "begun\n"
    assert world.kubectl("exec", "-i", "far", "--", "tr", "a-c", "x-z", stdin="abc") == "xyz"
    failed = world.kubectl_process("exec", "far", "--", "sh", "-c", "echo told >&2; exit 3", check=False)
    assert (failed.returncode, "told" in failed.stderr) == (3, True)
    missing = world.kubectl_process("logs", "far", "--previous", check=False)
    assert 'previous terminated container "main" in pod "far" not found' in missing.stderr


def test_files_are_copied(world: EmbeddedWorld, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(bytes(range(256)) * 4096)
    world.kubectl("cp", str(tmp_path / "there"), "far:/tmp/copied")
    world.kubectl("cp", "far:/tmp/copied", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()


def test_ports_are_reached(world: EmbeddedWorld) -> None:
    assert world.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/far:8000/proxy/name") == "served\n"
    port = free_port()
    forward = ["kubectl", "--kubeconfig", str(world.kubeconfig), "port-forward", "pod/far", f"{port}:8000"]
    with subprocess.Popen(forward, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as forwarding:
        assert forwarding.stdout is not None
        try:
            assert forwarding.stdout.readline().startswith(b"Forwarding from")

            def page() -> bytes:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/name", timeout=30) as answer:
                    return bytes(answer.read())

            eventually(lambda: page() == b"served\n", what="the page")
        finally:
            forwarding.terminate()
