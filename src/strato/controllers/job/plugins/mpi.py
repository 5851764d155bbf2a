"""mpi: gives the launcher of an MPI job the hosts of its workers, as ``MPI_HOST``, and opens their ssh port.

Source: volcano-controllers Part B, mpi.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import (
    JobPlugin,
    add_port,
    add_variables,
    every_container,
    find_task,
    host_addresses,
)

VARIABLE = "MPI_HOST"
PORT_NAME = "mpijob-port"


class MpiPlugin(JobPlugin):
    """See the module. It relies on the plugins ``svc`` and ``ssh``, which admission adds to the job."""

    name: ClassVar[str] = "mpi"
    defaults: ClassVar[Mapping[str, Value]] = {"master": "master", "worker": "worker", "port": 22}

    def shape(self, job: Job, task: TaskSpec, pod: dict[str, Any]) -> None:
        """Open the port everywhere and add the variable to the master; one without workers stays as it is."""
        if task.name == self.text("master"):
            workers = find_task(job, self.text("worker"))
            if workers is None:
                return
            hosts = ",".join(host_addresses(job, workers))
            add_variables(pod["spec"], ("containers", "initContainers"), [{"name": VARIABLE, "value": hosts}])
        for container in every_container(pod):
            add_port(container, PORT_NAME, self.number("port"))
