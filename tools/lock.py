"""Choose versions and hashes of all that the container image installs, and write the list of it (SBOM, CycloneDX)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
_COMPILE = (
    "uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes "
    "--no-header --no-annotate --no-emit-index-url --no-emit-find-links"
)
"""One file for every Python from 3.11 on and every processor; it names no registry."""
_LIST = "cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --sv 1.6 --of JSON"


def main() -> None:
    """Write ``requirements.lock``, ``build.lock`` and ``sbom.cdx.json``."""
    compile_lock("pyproject.toml", "requirements.lock")
    build = DEPLOY / "build.in"
    compile_lock(str(build.relative_to(ROOT)), "build.lock")
    run(f"{_LIST} -o deploy/sbom.cdx.json deploy/requirements.lock")
    shorten(DEPLOY / "sbom.cdx.json")
    print("written: deploy/requirements.lock, deploy/build.lock, deploy/sbom.cdx.json")


def compile_lock(source: str, target: str) -> None:
    """Resolve what a file asks for."""
    run(f"{_COMPILE} -o deploy/{target} {source}")


def shorten(sbom: Path) -> None:
    """Leave out what the lock file says better: each component's every file, with its hash and where it was found."""
    document = json.loads(sbom.read_text())
    for component in (*document["components"], document["metadata"]["component"]):
        for member in ("description", "externalReferences"):
            component.pop(member, None)
    document["metadata"].pop("tools", None)
    sbom.write_text(json.dumps(document, indent=1) + "\n")


def run(command: str) -> None:
    """Run a program of this environment from the repository's root."""
    program, *arguments = command.split()
    subprocess.run([str(BIN / program), *arguments], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
