"""Images of Spark and of its operator for a machine that reaches no registry: what their Dockerfiles make.

Debian's Java and Python, PySpark's release in ``/opt/spark``, the operator built from its module and its entry point.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.environments import CLIENTS, environment, made_once
from tests.clients.foreign import FOLDERS
from tests.e2e.gobuild import built, module_files
from tests.e2e.worlds import EmbeddedWorld

MODULE = "github.com/kubeflow/spark-operator/v2"
ENTRY = FOLDERS.parents[1] / "examples" / "spark-experiment" / "entrypoint.py"
DEBIAN = ("--variant=minbase", "--include=openjdk-17-jre-headless,python3,procps,tini", "bookworm")
NO_FILES = ("dev", "var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")
"""Of the root file system, what no container reads; an image holds no devices."""
USER = "185"
"""Who Spark's and the operator's containers run as."""


def source_of_operator() -> Path:
    """Return the files of the operator's module, its chart among them; skip the test without."""
    return module_files(FOLDERS / "sparkoperator", MODULE)


def import_images(world: EmbeddedWorld, spark: str, operator: str) -> None:
    """Build both images in a cluster's store by these names; skip the test where their parts cannot be had."""
    root = str(_root())
    config = ["--env", "SPARK_HOME=/opt/spark", "--user", f"{USER}:{USER}", "--workdir", "/opt/spark/work-dir"]
    for name, entry in ((spark, ["python3", "/opt/entrypoint.py"]), (operator, ["/usr/bin/entrypoint.sh"])):
        words = [word for one in entry for word in ("--entrypoint", one)]
        world.own("image", "build", name, root, *config, *words, timeout=1800)


def _root() -> Path:
    """Return the root file system of both images, made once: the operator's Dockerfile adds two files to Spark's."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("images of Spark are made as root by debootstrap; on Debian: apt-get install debootstrap")
    source = source_of_operator()
    packages = next(environment("pyspark").glob("lib/python*/site-packages"))
    program = built(FOLDERS / "sparkoperator", "clients/spark-operator", [f"{MODULE}/cmd/operator"]) / "operator"

    def make(target: Path) -> None:
        root = target / "root"
        done = subprocess.run(["debootstrap", *DEBIAN, str(root)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Debian's packages cannot be had: {done.stdout[-300:]}{done.stderr[-300:]}")
        for name in NO_FILES:
            shutil.rmtree(root / name, ignore_errors=True)
        with (root / "etc" / "passwd").open("a") as passwd:
            passwd.write(f"spark:x:{USER}:{USER}::/opt/spark/work-dir:/usr/sbin/nologin\n")
        modules = root / "usr" / "lib" / "python3" / "dist-packages"
        shutil.copytree(packages / "pyspark", root / "opt" / "spark", symlinks=True)
        shutil.copytree(packages / "py4j", modules / "py4j")
        (modules / "pyspark").symlink_to("/opt/spark")
        work = root / "opt" / "spark" / "work-dir"
        work.mkdir()
        work.chmod(0o777)
        for file, place in (
            (ENTRY, "opt/"),
            (program, "usr/bin/spark-operator"),
            (source / "entrypoint.sh", "usr/bin/"),
        ):
            shutil.copy(file, root / place)
        for name in ("spark-operator", "entrypoint.sh"):
            (root / "usr" / "bin" / name).chmod(0o755)

    content = "\n".join((*DEBIAN, *CLIENTS["pyspark"], str(program))).encode() + ENTRY.read_bytes()
    return made_once("spark-root", content + Path(__file__).read_bytes(), make) / "root"
