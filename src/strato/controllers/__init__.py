"""Controllers: one reconciler per kind.

``job`` is the Volcano Job controller; ``podgroup``, ``queue`` and ``gc`` stand beside it. ``flow`` runs JobFlows,
``cron`` cron jobs of both kinds, ``topology`` finds HyperNodes, ``sharding`` divides nodes among schedulers and
``colocation`` configures co-located pods. ``kube`` has the stock Kubernetes controllers that the embedded cluster
needs. Each controller decides in pure functions and sends its writes at one place. Controllers use any Kubernetes API
through `strato.client.cluster.Cluster`; they do not know the embedded server.
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
