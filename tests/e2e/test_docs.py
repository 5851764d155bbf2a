"""The pages' commands, typed as they stand: as root and as an ordinary user, freshly installed, in an empty home.

``tests/docs/sessions.py`` reads and types them, ``tests/e2e/bare_debian.sh`` on a Debian with nothing else on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs import sessions
from tests.docs.sessions import Block, Reader
from tests.e2e.worlds import KubeWorld

ORDINARY = 42420
"""A user id that nobody has."""
NEEDS = {
    "examples/mpi/README.md": ("mpirun", "sshd"),
    "examples/mpijob/README.md": ("mpirun", "sshd"),
    "examples/distcc/README.md": ("distccd", "gcc"),
    "examples/parameter-server/README.md": (),
}
"""Programs that a page says it needs."""


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


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("user", [None, ORDINARY], ids=["this user", "an ordinary user"])
@pytest.mark.parametrize("session", of_world(""), ids=lambda session: session[0].page)
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
