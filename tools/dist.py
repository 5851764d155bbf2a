"""Build wheel and source archive, install each into a fresh environment and use it: make dist.

What is checked of each: every file of the package is in it, the commands answer, and a small cluster starts, runs a
job to its end and is taken away again, from a directory that knows nothing of the source.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
BIN = Path(sys.executable).parent
JOB = ("job", "run", "-N", "hello", "-i", "busybox", "-c", "sleep 1", "-r", "3", "-m", "3", "--wait")


def main() -> int:
    """Build, install, use; return 1 when something is missing."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for old in DIST.glob("strato-*"):
        old.unlink()
    # the wheel is built from the source archive, so that whatever lacks there is noticed
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    wheel, source = DIST / f"strato-{version}-py3-none-any.whl", DIST / f"strato-{version}.tar.gz"
    missing = left_out(wheel)
    if missing:
        print("the wheel lacks:", *missing, sep="\n  ")
        return 1
    for package in (wheel, source):
        with tempfile.TemporaryDirectory(prefix="strato-dist-") as scratch:
            use(package, Path(scratch), version)
        print(f"{package.name}: installs, runs a job, leaves nothing ({package.stat().st_size >> 10} KiB)", flush=True)
    return 0


def left_out(wheel: Path) -> list[str]:
    """Return the files of the package, as git knows them, that a wheel lacks; and metadata that it should have."""
    listed = run("git", "-C", str(ROOT), "ls-files", "src/strato").split()
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
        (metadata,) = (name for name in there if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    wanted = [name.removeprefix("src/") for name in listed if (ROOT / name).exists()]
    words = [line for line in ("Requires-Python: <3.15,>=3.11", "License-Expression: Apache-2.0") if line not in text]
    licences = [] if any(re.search(r"dist-info/licenses/LICENSE$", name) for name in there) else ["LICENSE"]
    return [*(name for name in wanted if name not in there), *words, *licences]


def use(package: Path, scratch: Path, version: str) -> None:
    """Install a package and do with it what a newcomer does."""
    run(sys.executable, "-m", "venv", str(scratch / "venv"))
    run(str(scratch / "venv/bin/python"), "-m", "pip", "install", "--quiet", str(package))
    home = str(scratch / "home")

    def strato(*words: str) -> str:
        return run(str(scratch / "venv/bin/strato"), "--home", home, *words, cwd=scratch)

    assert "Batch scheduling for Kubernetes" in strato("--help")
    assert f"Version: {version}" in strato("version")
    assert "CustomResourceDefinition" in strato("crds")
    assert "actions:" in strato("install", "--dry-run")  # the configuration that ships
    assert "strato-job-run.1" in strato("man", str(scratch / "man"))
    strato("up", "--port", "0", "--no-sandbox", "--hollow-nodes", "2")
    try:
        assert "hello: Completed" in strato(*JOB)
        assert "hello" in strato("job", "list")
        strato("doctor")
    finally:
        said = strato("down", "--purge", "--yes")
    assert "cluster is down" in said
    assert not Path(home).exists()


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a command and return what it printed; its failure ends this program with all it said."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
