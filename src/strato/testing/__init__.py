"""Room `testing`: small worlds for tests, ours and those of plugin authors.

- `manifests`: builders of single objects (`pod`, `node`, `podgroup`, `queue`, `vcjob`), plain JSON.
- `scenes`: a whole cluster as a value (`cluster()`).
- `harness`: an API server with controllers, scheduler and hollow nodes in this process, under either clock.
"""

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

__all__ = [
    "JobManifest",
    "Manifest",
    "PodManifest",
    "Scene",
    "cluster",
    "namespace",
    "node",
    "pod",
    "podgroup",
    "priority_class",
    "queue",
    "vcjob",
]
