"""Metrics of training jobs, by the names of Kubeflow's operator (spec training J2)."""

from __future__ import annotations

from strato.api.frameworks import MPI_OPERATOR, Framework
from strato.api.kubeflow import TrainingJobStatus
from strato.metrics import Registry


class TrainingMetrics:
    """Counts creations, ends and restarts of the jobs of one kind, each once however often its status is written.

    Args:
        registry: Holds the counters.
        framework: The kind of job.
    """

    def __init__(self, registry: Registry, framework: Framework) -> None:
        labels = ("job_namespace", "framework")
        self._framework = framework.container
        self._counters = {
            what: registry.counter(f"training_operator_jobs_{what}", f"Training jobs {what}", labels)
            for what in ("created", "deleted", "successful", "failed", "restarted")
        }
        self._of_operator = {
            what: registry.counter(f"mpi_operator_jobs_{what}", f"Counts number of MPI jobs {what}")
            for what in ("created", "successful", "failed")
            if framework.manager == MPI_OPERATOR
        }
        """The counters, under the names that the kind's own operator uses, if it has its own."""

    def written(self, namespace: str, old: TrainingJobStatus, new: TrainingJobStatus) -> None:
        """Count the conditions that a new status has and the old one did not."""
        for type_, what in (("Created", "created"), ("Succeeded", "successful"), ("Failed", "failed")):
            if _holds(new, type_) and not _holds(old, type_):
                self._count(what, namespace)
        if _replaced(new) > _replaced(old):
            self._count("restarted", namespace)

    def deleted(self, namespace: str) -> None:
        """Count a deleted job."""
        self._count("deleted", namespace)

    def _count(self, what: str, namespace: str) -> None:
        self._counters[what].labels(namespace, self._framework).inc()
        if what in self._of_operator:
            self._of_operator[what].inc()


def _holds(status: TrainingJobStatus, type_: str) -> bool:
    return any(one.type == type_ and one.status == "True" for one in status.conditions)


def _replaced(status: TrainingJobStatus) -> int:
    return status.replaced_pods.count if status.replaced_pods is not None else 0
