"""Helm as released: built once from its module, then run in a namespace of a cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.e2e.gobuild import built
from tests.e2e.worlds import EmbeddedWorld

SOURCES = Path(__file__).parent / "helm"

Helm = Callable[..., str]


def helm_of(version: int, world: EmbeddedWorld, namespace: str, scratch: Path) -> Helm:
    """Return what runs Helm of a version and returns what it printed; the first build takes minutes."""
    program = built(SOURCES / f"v{version}", f"clients/helm-{version}", [f"helm.sh/helm/v{version}/cmd/helm"]) / "helm"
    own = {f"HELM_{name}_HOME": str(scratch / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}

    def run(*args: str) -> str:
        done = subprocess.run(
            [str(program), "--namespace", namespace, *args],
            env={**os.environ, **own, "KUBECONFIG": str(world.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, f"helm {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    return run
