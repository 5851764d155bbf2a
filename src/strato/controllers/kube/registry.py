"""The table of stock controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.controllers.kube.deployments import DeploymentController
from strato.controllers.kube.endpoints import EndpointsController
from strato.controllers.kube.garbage import GarbageCollector
from strato.controllers.kube.namespaces import (
    NamespaceController,
    RootCertificateController,
    ServiceAccountController,
)
from strato.controllers.kube.nodes import NodeLifecycleController
from strato.controllers.kube.replicasets import ReplicaSetController
from strato.controllers.reconcile import Controller

KUBE: Mapping[str, Callable[[Cluster, Informers, Clock], Controller]] = {
    controller.name: controller
    for controller in (
        GarbageCollector,
        NamespaceController,
        ServiceAccountController,
        RootCertificateController,
        EndpointsController,
        NodeLifecycleController,
        ReplicaSetController,
        DeploymentController,
    )
}
"""Stock controllers by name."""
