"""Controllers: one reconciler per kind.

``job`` is the Volcano Job controller; ``podgroup``, ``queue`` and ``gc`` are Volcano's others; ``kube`` has the stock
Kubernetes ones the embedded cluster needs. Each decides in pure functions and writes at one place. They talk to any
Kubernetes API through `strato.client.cluster.Cluster` and never see the server.
"""

from strato.controllers.manager import (
    DEFAULT,
    EMBEDDED,
    ControllerManager,
    UnknownController,
    choose_controllers,
)

__all__ = ["DEFAULT", "EMBEDDED", "ControllerManager", "UnknownController", "choose_controllers"]
