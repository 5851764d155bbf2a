"""CRD manifests of Volcano's and Kubeflow's kinds, built from the catalog and the schemas here, their only source."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from strato.api import catalog
from strato.api.crds import infrastructure, jobrules, jobs, scheduling, trainer, training, verticalautoscaling
from strato.api.crds.rules import ValidationRule, add, all_rules
from strato.api.crds.schema import Schema, text
from strato.api.kinds import Column, Kind

KEEP_ANNOTATION = ("helm.sh/resource-policy", "keep")
"""Keeps Helm from deleting the definitions, and with them every job of the cluster, when the chart is uninstalled."""

_MEMBERS: dict[Kind, tuple[Callable[[], dict[str, Schema]], tuple[str, ...], str]] = {
    catalog.VCJOB: (jobs.job, (), "A batch job: tasks whose pods are scheduled as one gang."),
    catalog.VCCRONJOB: (jobs.cron_job, ("spec",), "Makes Volcano jobs on a schedule."),
    catalog.PODGROUP: (scheduling.pod_group, (), "Pods that are scheduled all together or not at all."),
    catalog.QUEUE: (scheduling.queue, (), "A share of the cluster that jobs wait for."),
    catalog.COMMAND: (scheduling.command, (), "An order to a job or a queue."),
    catalog.JOBFLOW: (jobs.job_flow, (), "Jobs that run in the order of their dependencies."),
    catalog.JOBTEMPLATE: (jobs.job_template, (), "A job that flows make."),
    catalog.NUMATOPOLOGY: (infrastructure.numatopology, (), "The NUMA layout of a node."),
    catalog.HYPERNODE: (infrastructure.hyper_node, (), "A network domain of nodes or other HyperNodes."),
    catalog.NODESHARD: (infrastructure.node_shard, ("spec",), "The nodes of one scheduler."),
    catalog.COLOCATIONCONFIGURATION: (
        infrastructure.colocation_configuration,
        ("spec",),
        "How online and offline pods share a node.",
    ),
    catalog.TFJOB: (training.tensorflow, (), "Distributed training with TensorFlow."),
    catalog.PYTORCHJOB: (training.pytorch, (), "Distributed training with PyTorch."),
    catalog.XGBOOSTJOB: (training.xgboost, (), "Distributed training with XGBoost."),
    catalog.PADDLEJOB: (training.paddle, (), "Distributed training with PaddlePaddle."),
    catalog.JAXJOB: (training.jax, (), "Distributed training with JAX."),
    catalog.TRAINJOB: (trainer.train_job, ("spec",), "A training, by what a runtime says."),
    catalog.TRAININGRUNTIME: (trainer.runtime, ("spec",), "What TrainJobs of its namespace run."),
    catalog.CLUSTERTRAININGRUNTIME: (trainer.runtime, ("spec",), "What TrainJobs of all namespaces run."),
    catalog.VERTICALPODAUTOSCALER: (
        verticalautoscaling.autoscaler,
        ("spec",),
        "What the containers of a workload shall request.",
    ),
    catalog.VERTICALPODAUTOSCALERCHECKPOINT: (verticalautoscaling.checkpoint, (), "What is kept of a container's use."),
    catalog.MPIJOB_V1: (partial(training.mpi, by_ssh=False), (), "A job whose launcher starts ranks on workers."),
    catalog.MPIJOB: (partial(training.mpi, by_ssh=True), (), "A job whose launcher starts ranks by ssh."),
}


_OF_THE_WHOLE: dict[Kind, tuple[ValidationRule, ...]] = {
    catalog.VCJOB: jobrules.ROOT,
    catalog.VCCRONJOB: jobs.CRON_ROOT,
    catalog.QUEUE: scheduling.QUEUE_ROOT,
    catalog.TRAINJOB: trainer.ROOT,
}
"""Rules that need the object's name."""


_APPROVED = {
    "autoscaling.k8s.io": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/63797"}
}
"""Group → annotation that API servers require of definitions in one of Kubernetes' own groups."""


def manifests(off: Collection[Kind] = ()) -> list[dict[str, Any]]:
    """Return new CustomResourceDefinitions of our kinds, without those that are switched off."""
    found = {kind.resource: kind for kind in reversed(catalog.CUSTOM) if kind not in off}
    return [manifest(kind) for kind in found.values()][::-1]


def manifest(kind: Kind) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one of our kinds, in all of its versions; the first is stored.

    Raises:
        KeyError: The kind is not one of ``catalog.CUSTOM``.
    """
    versions = [one for one in catalog.CUSTOM if one.resource == kind.resource]
    names: dict[str, Any] = {
        "kind": kind.name,
        "listKind": kind.list_kind,
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource, "annotations": dict([KEEP_ANNOTATION]) | _APPROVED.get(kind.group, {})},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [{**_version(one), "storage": one is versions[0]} for one in versions],
        },
    }


def _version(kind: Kind) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema(kind)},
    }
    if kind.has_status:
        version["subresources"] = {"status": {}}
    if kind.scale_paths is not None:
        names = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
        version.setdefault("subresources", {})["scale"] = dict(zip(names, kind.scale_paths, strict=True))
    if kind.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in kind.columns]
    return version


def schema(kind: Kind) -> Schema:
    """Return the structural schema of one of our kinds."""
    build, required, description = _MEMBERS[kind]
    members: Schema = {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": text("Group and version of the kind."),
            "kind": text("The kind."),
            "metadata": {"type": "object"},
            **build(),
        },
    }
    if required:
        members["required"] = list(required)
    if kind in _OF_THE_WHOLE:
        add(members, *_OF_THE_WHOLE[kind])
    return members


def rule_texts(kind: Kind) -> frozenset[str]:
    """Return the rules in CEL of a kind's definition."""
    return frozenset(rule["rule"] for rule in all_rules(schema(kind)))


def _column(column: Column) -> dict[str, Any]:
    body: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.priority:
        body["priority"] = column.priority
    if column.description:
        body["description"] = column.description
    return body
