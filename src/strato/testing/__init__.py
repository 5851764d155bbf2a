"""Test helpers, for Strato's own tests and for authors of plugins.

- `manifests`: builders of single objects (`pod`, `node`, `podgroup`, `queue`, `vcjob`), plain JSON.
- `scenes`: the objects of a whole cluster as an immutable value (`cluster()`).
- `decisions`: run scheduling cycles on a scene and return the decisions (`decide()`), for plugin authors.
- `agent`: random hosts for handlers of the node agent, and checks of the handlers' contract (`check()`).
- `faults`: a client whose API server refuses, throttles, is slow, hangs and loses answers.
- `harness`: an API server with controllers, scheduler and hollow nodes in this process, on the real or a virtual clock.
- `chaos`: a cluster of processes in virtual time under a seeded adversary (`python -m strato.testing.chaos`).
"""

from typing import TYPE_CHECKING, Any

from strato.testing.manifests import (
    JobManifest,
    Manifest,
    PodManifest,
    namespace,
    node,
    pod,
    podgroup,
    priority_class,
    queue,
    vcjob,
)
from strato.testing.scenes import Scene, cluster

if TYPE_CHECKING:
    from strato.testing.decisions import Decisions, decide

__all__ = [
    "Decisions",
    "JobManifest",
    "Manifest",
    "PodManifest",
    "Scene",
    "cluster",
    "decide",
    "namespace",
    "node",
    "pod",
    "podgroup",
    "priority_class",
    "queue",
    "vcjob",
]


def __getattr__(name: str) -> Any:
    """Import the scheduler on first use only; it loads the kernels."""
    if name in ("Decisions", "decide"):
        from strato.testing import decisions

        return getattr(decisions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
