"""The table of stock controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.controllers.context import ControllerContext, Factory
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
from strato.controllers.kube.namespaces import (
    NamespaceController,
    RootCertificateController,
    ServiceAccountController,
)
from strato.controllers.kube.nodes import NodeLifecycleController
from strato.controllers.kube.quotas import QuotaController
from strato.controllers.kube.replicasets import ReplicaSetController, ReplicationControllerController
from strato.controllers.kube.statefulsets import StatefulSetController
from strato.controllers.kube.volumes import EphemeralClaimController, VolumeController
from strato.controllers.reconcile import Controller


def _simple(controller: Callable[[Cluster, Informers, Clock], Controller]) -> Factory:
    """Return the factory of a controller that needs nothing but the cluster and time."""
    return lambda context: controller(context.cluster, context.informers, context.clock)


def _recording(controller: Callable[..., Controller]) -> Factory:
    """Return the factory of a controller that also records events."""
    return lambda context: controller(context.cluster, context.informers, context.clock, recorder=context.recorder)


def _job(context: ControllerContext) -> Controller:
    return KubeJobController(
        context.cluster, context.informers, context.clock, random=context.random, recorder=context.recorder
    )


def _volumes(context: ControllerContext) -> Controller:
    return VolumeController(
        context.cluster,
        context.informers,
        context.clock,
        recorder=context.recorder,
        local=context.settings.local_volumes,
    )


def _certificates(context: ControllerContext) -> Controller:
    folder = context.settings.signing_folder
    return CertificateController(context.cluster, context.informers, context.clock, folder)


KUBE: Mapping[str, Factory] = {
    **{
        controller.name: _simple(controller)
        for controller in (
            NamespaceController,
            ServiceAccountController,
            RootCertificateController,
            EndpointsController,
            EndpointSliceMirror,
            DisruptionController,
            QuotaController,
            EphemeralClaimController,
        )
    },
    **{
        controller.name: _recording(controller)
        for controller in (
            GarbageCollector,
            NodeLifecycleController,
            ReplicaSetController,
            ReplicationControllerController,
            AutoscalerController,
            StatefulSetController,
            DaemonSetController,
            DeploymentController,
            KubeCronController,
        )
    },
    KubeJobController.name: _job,
    CertificateController.name: _certificates,
    VolumeController.name: _volumes,
}
"""Stock controllers by name."""
