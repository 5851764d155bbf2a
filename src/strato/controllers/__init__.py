"""Controllers: one reconciler per kind.

``job`` is the Volcano Job controller; ``podgroup``, ``queue`` and ``gc`` stand beside it. ``flow`` runs JobFlows,
``cron`` cron jobs of both kinds, ``topology`` finds HyperNodes, ``sharding`` divides nodes among schedulers and
``colocation`` configures co-located pods. ``kube`` has the stock Kubernetes controllers that the embedded cluster
needs. Each decides in pure functions and writes at one place. They talk to any Kubernetes API through
`strato.client.cluster.Cluster` and never see the server.
"""

from strato.controllers.context import ControllerSettings
from strato.controllers.manager import (
    DEFAULT,
    EMBEDDED,
    ControllerManager,
    UnknownController,
    choose_controllers,
    controllers_of,
)

__all__ = [
    "DEFAULT",
    "EMBEDDED",
    "ControllerManager",
    "ControllerSettings",
    "UnknownController",
    "choose_controllers",
    "controllers_of",
]
