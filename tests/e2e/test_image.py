"""The container image, without a container: the steps of ``deploy/Dockerfile`` in a fresh folder and environment."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PREFIX = "/install"


def steps(word: str, stage: int = -1) -> list[str]:
    """Return the arguments of every instruction ``word`` in a stage of the Dockerfile, the last one unless told."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = re.split(r"^FROM .*$", text, flags=re.MULTILINE)[1:][stage].splitlines()
    return [line.removeprefix(word).strip() for line in lines if line.startswith(word)]


def test_the_image_runs_as_the_user_of_the_deployments() -> None:
    from strato.cli.install.values import DEFAULTS

    assert steps("USER") == [str(DEFAULTS["custom"]["default_sc"]["runAsUser"])]
    assert steps("ENTRYPOINT") == ['["strato"]']


def test_nothing_is_sent_to_a_builder_but_what_is_copied() -> None:
    """An environment of a developer beside the sources has more than a gigabyte."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        source
        for stage in (0, 1)
        for step in steps("COPY", stage)
        if not step.startswith("--from")
        for source in step.split()[:-1]
    }
    assert kept == copied
    assert lines[1] == "*"  # a later line overrides an earlier one


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(600)
def test_what_the_image_copies_and_runs_gives_working_programs(tmp_path: Path) -> None:
    """Only what COPY names is there, and every ``pip install`` runs as it stands."""
    build, prefix = tmp_path / "src", tmp_path / "install"
    build.mkdir()
    for copied in steps("COPY", 0):
        *sources, target = copied.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, build / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, build / target)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    commands = [command.strip() for run in steps("RUN", 0) for command in run.split("&&")]
    assert all(command.startswith("pip install ") for command in commands)
    for command in commands:
        words = shlex.split(command.replace(PREFIX, str(prefix)))
        done = subprocess.run(
            [str(python), "-m", *words, "--quiet"], cwd=build, text=True, capture_output=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    installed = next(prefix.glob("lib/python*/site-packages"))
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(installed)}
    env |= {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in scripts:
        done = subprocess.run(
            [str(prefix / "bin" / name), "--help"], env=env, cwd=tmp_path, text=True, capture_output=True, check=False
        )
        assert (done.returncode, "Usage:" in done.stdout) == (0, True), f"{name}: {done.stdout}{done.stderr}"
    shown = subprocess.run(
        [str(prefix / "bin" / "strato"), "install", "--dry-run"], env=env, cwd=tmp_path, text=True, capture_output=True,
        check=True,
    ).stdout  # fmt: skip
    assert len(re.findall(r"^kind: CustomResourceDefinition$", shown, re.MULTILINE)) >= 10
    where = subprocess.run(
        [str(python), "-c", "import strato; print(strato.__file__)"],
        env=env,
        text=True,
        capture_output=True,
        check=True,
    )
    assert where.stdout.startswith(str(installed))
