"""The manifests in ``examples/``: every one is accepted as it is, and those that need nothing special run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import EXAMPLES
from tests.e2e.worlds import EmbeddedWorld, World

pytestmark = pytest.mark.e2e

MANIFESTS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml"))


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_is_accepted_as_it_is(world: World, namespace: str, manifest: str) -> None:
    """Without storing: queues are cluster-wide. Jobs of queues in the same file are told so, nothing else."""
    done = world.kubectl_process(
        "create", "--dry-run=server", "--validate=strict", "-n", namespace, "-f", str(EXAMPLES / manifest), check=False
    )
    refusals = [line for line in done.stderr.splitlines() if "unable to find job queue" not in line]
    assert refusals == [], done.stderr


@pytest.mark.embedded
@pytest.mark.timeout(360)
def test_mpirun_starts_its_ranks_in_three_worker_pods(laptop: Callable[..., EmbeddedWorld]) -> None:
    """Real ssh between sandboxes with the job's own keys and names, real OpenMPI over it."""
    if shutil.which("mpirun") is None or not Path("/usr/sbin/sshd").exists() or shutil.which("ssh") is None:
        pytest.skip("OpenMPI or ssh is not installed; on Debian: apt-get install openmpi-bin openssh-server")
    world = laptop("--cpus", "4")
    world.kubectl("create", "-f", str(EXAMPLES / "mpi" / "job.yaml"))
    world.own("job", "wait", "mpi", "--timeout", "240")
    log = world.own("job", "logs", "mpi", "-t", "master")
    ranks = sorted(line[line.index("rank") :] for line in log.splitlines() if "rank " in line)
    assert ranks == [f"rank {rank} of 3 on mpi-worker-{rank}" for rank in range(3)]
