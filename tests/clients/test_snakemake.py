"""Snakemake's executor for Kubernetes: jobs on an image of its environment, files in a store of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from strato.cli.servicenetwork import machine_addresses
from tests.clients.environments import client_image, environment, run_program
from tests.e2e.worlds import EmbeddedWorld, eventually, free_port

SNAKEFILE = Path(__file__).parent / "snakemake" / "Snakefile"

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """Run S3 where pods reach it; yield its address, with a bucket named results."""
    addresses, port = machine_addresses(), free_port()
    if not addresses:
        pytest.skip("this machine has no address that its pods could reach")
    program = environment("snakemake") / "bin" / "moto_server"
    with (tmp_path / "s3.log").open("wb") as log:
        server = subprocess.Popen([str(program), "-H", addresses[0], "-p", str(port)], stdout=log, stderr=log)
        url = f"http://{addresses[0]}:{port}"

        def is_there() -> bool:
            assert server.poll() is None, (tmp_path / "s3.log").read_text()
            try:
                urllib.request.urlopen(urllib.request.Request(f"{url}/results", method="PUT"), timeout=60).close()
            except OSError:
                return False
            return True

        eventually(is_there, what="the store of objects serves")
        yield url
        server.terminate()
        server.wait(timeout=60)


def test_a_workflow_runs_as_jobs(sandbox: EmbeddedWorld, namespace: str, store: str, tmp_path: Path) -> None:
    """A job installs the storage plugin from the package index first, as Snakemake has it."""
    shutil.copy(SNAKEFILE, tmp_path)
    image = client_image("snakemake", sandbox)
    storage = f"--default-storage-provider s3 --default-storage-prefix s3://results --storage-s3-endpoint-url {store}"
    keys = "--storage-s3-access-key any --storage-s3-secret-key any --storage-s3-region us-east-1"
    where = f"--executor kubernetes --kubernetes-namespace {namespace} --container-image {image} --jobs 3"
    done = subprocess.run(
        [str(environment("snakemake") / "bin" / "snakemake"), *f"{where} {storage} {keys}".split()],
        cwd=tmp_path,
        env={**os.environ, "KUBECONFIG": str(sandbox.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert run_program("snakemake", "s3_object.py", sandbox, store, "square-12.txt")[0].startswith("144 snakejob-")
    left = sandbox.items("jobs,pods", "-n", namespace)
    assert not [item for item in left if not item["metadata"].get("deletionTimestamp")], "Snakemake deletes its jobs"
