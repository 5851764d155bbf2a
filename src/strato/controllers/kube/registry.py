"""The table of stock controllers."""

from __future__ import annotations

from collections.abc import Mapping

from strato.controllers.cron import KubeCronController
from strato.controllers.kube.autoscalers import AutoscalerController
from strato.controllers.kube.certificates import CertificateController
from strato.controllers.kube.daemonsets import DaemonSetController
from strato.controllers.kube.deployments import DeploymentController
from strato.controllers.kube.disruptions import DisruptionController
from strato.controllers.kube.endpoints import EndpointsController
from strato.controllers.kube.endpointslices import EndpointSliceMirror
from strato.controllers.kube.garbage import GarbageCollector
from strato.controllers.kube.jobs import KubeJobController
from strato.controllers.kube.namespaces import NamespaceController, RootCertificateController, ServiceAccountController
from strato.controllers.kube.nodes import NodeLifecycleController
from strato.controllers.kube.podgc import PodGarbageCollector
from strato.controllers.kube.quotas import QuotaController
from strato.controllers.kube.replicasets import ReplicaSetController, ReplicationControllerController
from strato.controllers.kube.statefulsets import StatefulSetController
from strato.controllers.kube.volumes import EphemeralClaimController, VolumeController
from strato.controllers.reconcile import Factory

KUBE: Mapping[str, Factory] = {
    controller.name: controller
    for controller in (
        NamespaceController,
        ServiceAccountController,
        RootCertificateController,
        EndpointsController,
        EndpointSliceMirror,
        DisruptionController,
        QuotaController,
        EphemeralClaimController,
        GarbageCollector,
        NodeLifecycleController,
        PodGarbageCollector,
        ReplicaSetController,
        ReplicationControllerController,
        AutoscalerController,
        StatefulSetController,
        DaemonSetController,
        DeploymentController,
        KubeCronController,
        KubeJobController,
        CertificateController,
        VolumeController,
    )
}
"""Stock controllers by name."""
