"""The pages' commands, typed as they stand: as root and as an ordinary user, freshly installed, in an empty home.

``tests/docs/sessions.py`` reads and types them, ``tests/e2e/bare_debian.sh`` on a Debian with nothing else on it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs import sessions
from tests.docs.sessions import Block, Reader
from tests.e2e.podman import as_deployed, podman
from tests.e2e.test_jobs import submit, vcjob
from tests.e2e.worlds import KubeWorld, eventually, free_port

ORDINARY = 42420
"""A user id that nobody has."""
NEEDS = {
    "examples/mpi/README.md": ("mpirun", "sshd"),
    "examples/mpijob/README.md": ("mpirun", "sshd"),
    "examples/distcc/README.md": ("distccd", "gcc"),
    "examples/parameter-server/README.md": (),
}
"""Programs that a page says it needs."""


SANDBOXES = re.compile(r"strato (-\S+ \S+ )*up\b(?!.*--no-sandbox)|make demo|demo\.py")
"""What makes this machine a node: root's pods are confined in another way than an ordinary user's."""


def of_world(world: str) -> list[list[Block]]:
    """Return the session of each page that has one in a world."""
    found = [[block for block in sessions.blocks(page) if block.world == world] for page in sessions.pages()]
    return [session for session in found if any(not block.not_run for block in session)]


def copy_of_the_repository(directory: Path) -> Path:
    """Return a checkout: what git tracks or would."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=sessions.ROOT,
        text=True,
        capture_output=True,
        check=True,
    )
    copy = directory / "strato"
    for name in listed.stdout.splitlines():
        if (sessions.ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(sessions.ROOT / name, copy / name)
    return copy


def python() -> str:
    """Return a Python that everybody may run: root's own may lie in a closed home."""
    for found in (sys.executable, "/usr/bin/python3"):
        is_reachable = all(parent.stat().st_mode & 0o001 for parent in Path(found).resolve().parents)
        if os.geteuid() != 0 or is_reachable:
            return found
    return sys.executable


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """Install Strato as README says, into an environment of its own; it is the ordinary user's, who compiles in it."""
    with tempfile.TemporaryDirectory(prefix="strato-reader-venv-") as directory:
        os.chmod(directory, 0o755)
        copy = copy_of_the_repository(Path(directory))
        subprocess.run([python(), "-m", "venv", f"{directory}/venv"], check=True)
        pip = [f"{directory}/venv/bin/python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "pip>=25.1", "hatchling>=1.24", "pytest", "pipx"], check=True)
        subprocess.run([*pip, f"{copy}[report]"], check=True)  # some pages draw, and say what that needs
        if os.geteuid() == 0:
            subprocess.run(["chown", "-hR", f"{ORDINARY}:{ORDINARY}", directory], check=True)
        yield Path(directory) / "venv" / "bin"


def reader(programs: Path, directory: Path, user: int | None) -> Reader:
    """Return somebody with an empty home and a checkout in it, whose environment for ``make`` is installed already."""
    home = directory / "home"
    home.mkdir()
    copy = copy_of_the_repository(home)
    os.chmod(directory, 0o755)
    sessions.prepare(copy)
    (copy / ".venv").symlink_to(programs.parent)
    (copy / ".venv" / ".base").touch()
    if user is not None:
        subprocess.run(["chown", "-hR", f"{user}:{user}", str(home)], check=True)
    return Reader(copy, programs, home, user)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that an ordinary user can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="strato-reader-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def typed() -> Iterator[Any]:
    """Yield each page with who types it: an ordinary user, and root too where this machine is a node."""
    for session in of_world(""):
        differs = any(SANDBOXES.search(step.command) for block in session for step in block.steps)
        if differs or os.geteuid() != 0:
            yield pytest.param(session, None, id=f"{session[0].page}-this user")
        if differs or os.geteuid() == 0:
            yield pytest.param(session, ORDINARY, id=f"{session[0].page}-an ordinary user")


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("session", "user"), list(typed()))
def test_a_page_goes_as_it_is_written(programs: Path, folder: Path, session: list[Block], user: int | None) -> None:
    page = session[0].page
    absent = [name for name in NEEDS.get(page, ()) if not shutil.which(name, path="/usr/sbin:/usr/bin:/bin")]
    if absent:
        pytest.skip(f"{page} needs {', '.join(absent)}")
    if user is not None and os.geteuid() != 0:
        pytest.skip("this user is an ordinary one")
    if (user is not None or os.geteuid() != 0) and page in sessions.ROOT_ONLY:
        pytest.skip(f"{page} needs root")
    assert sessions.run(session, reader(programs, folder, user)) > 0


@pytest.fixture
def kube(folder: Path) -> Iterator[Callable[[], KubeWorld]]:
    """Start a real control plane."""
    world = KubeWorld(folder)
    if not (world.binaries / "kube-apiserver").exists():
        pytest.skip("no control plane: tests/e2e/kube/controlplane/build.sh")

    def start() -> KubeWorld:
        world.start_control_plane()
        world.start_part("node", *world.nodes)
        return world

    yield start
    world.stop()


def as_if_volcano_ran(world: KubeWorld) -> None:
    """Install what has Volcano's names, and a scheduler for its pods in place of Kubernetes' own."""
    world.strato("install")
    world.start_part("scheduler", "--scheduler-name", "default-scheduler", "--leader-elect=false")


@pytest.mark.kube
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("session", of_world("cluster"), ids=lambda session: session[0].page)
def test_a_page_goes_as_it_is_written_on_a_cluster(
    programs: Path, folder: Path, kube: Callable[[], KubeWorld], session: list[Block]
) -> None:
    world = kube()
    if session[0].page == "docs/from-volcano.md":
        as_if_volcano_ran(world)
    who = reader(programs, folder, None)
    (who.home / ".kube").mkdir()
    shutil.copy(world.kubeconfig, who.home / ".kube" / "config")
    assert sessions.run(session, who) > 0


@pytest.mark.kube
@pytest.mark.timeout(1200)
def test_the_image_is_built_pushed_and_installed_as_the_page_says_and_runs(
    programs: Path, folder: Path, kube: Callable[[], KubeWorld]
) -> None:
    """``docker`` is podman; the base image is this machine's Python. Then its containers bring a job to its end."""
    dockerfile = (sessions.ROOT / "deploy" / "Dockerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE)
    (session,) = of_world("registry")
    with podman(folder / "podman") as docker:
        docker.make_base(f"docker.io/library/{base}")
        world = kube()
        who = reader(programs, folder, None)
        (who.home / ".kube").mkdir()
        shutil.copy(world.kubeconfig, who.home / ".kube" / "config")
        (docker.programs / "strato").symlink_to(programs / "strato")
        assert sessions.run(session, Reader(who.root, docker.programs, who.home)) == 3
        manifests = sessions.ROOT / "examples" / "manifests"
        (image,) = re.findall(r"docker build .* -t (\S+)", session[0].steps[0].command)
        said = docker.run(
            "run", "--rm", "--volume", f"{manifests}:/manifests:ro", image, "schedule", "-f", "/manifests"
        )
        assert "train-large" in said
        # the pods of the webhook cannot be reached: this control plane knows no network of pods
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            world.kubectl("delete", kind, "--all")
        for part in ("scheduler", "controllers"):
            words = as_deployed(world, f"volcano-{part}", folder, world._account(part))
            words += [f"--{port}-address=127.0.0.1:{free_port()}" for port in ("listen", "healthz")]
            world._spawn(part, [str(docker.docker), *words])
        submit(world, "default", vcjob("built", replicas=4))

        def is_completed() -> bool:
            for part in ("scheduler", "controllers"):
                assert world.processes[part].poll() is None, world.log(part)
            return world.job_phase("built") == "Completed"

        eventually(is_completed, what="job is Completed", timeout=240, every=0.5)
        for part in ("scheduler", "controllers"):
            assert "Traceback" not in world.log(part)
            assert world.stop_part(part) == 0, world.log(part)
