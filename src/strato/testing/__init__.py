"""Room `testing`: small worlds for tests, ours and those of plugin authors.

- `manifests`: builders of single objects (`pod`, `node`, `podgroup`, `queue`, `vcjob`), plain JSON.
- `scenes`: a whole cluster as a value (`cluster()`).
- `decisions`: one call from a scene to what the scheduler decides on it (`decide()`), for plugin authors.
- `agent`: random hosts for handlers of the node agent, and the rules that they keep (`check()`).
- `faults`: an API server that refuses, throttles, is slow, hangs and loses answers.
- `harness`: an API server with controllers, scheduler and hollow nodes in this process, under either clock.
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
