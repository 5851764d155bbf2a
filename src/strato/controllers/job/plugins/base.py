"""The base of job plugins: pure functions that change pods and name the objects that a job needs beside its pods.

Source: volcano-controllers Part B.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from strato.api.meta import Object
from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job import terms
from strato.controllers.job.plugins.arguments import Value, parse_flags
from strato.controllers.owners import controller_reference
from strato.errors import StratoError

_log = logging.getLogger(__name__)


class PluginRefusal(StratoError):
    """A plugin cannot shape the pods of a job."""


@dataclass(frozen=True, slots=True)
class RequiredObject:
    """An object that a plugin requires to exist."""

    view: type[Object]
    body: dict[str, Any]
    data_member: str = ""
    """Member to bring up to date when the object exists (``data`` of a ConfigMap); empty changes no existing object."""
    decisive_key: str = ""
    """The one key of that member to compare; when it is equal the object is up to date. Empty compares all keys."""

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self.body["metadata"]["name"]
        return name


class JobPlugin:
    """Base of all job plugins; a method that a plugin does not override does nothing."""

    name: ClassVar[str]
    varies: ClassVar[bool] = False
    """Whether `on_pod_create` changes pods; if not, pods can be built from templates."""
    tracked: ClassVar[bool] = True
    """Whether the plugin is listed in ``status.controlledResources``, because it owns objects."""

    computes_long: ClassVar[bool] = False
    """Whether `objects` computes for so long (tens of milliseconds) that it has to run off the event loop."""

    defaults: ClassVar[Mapping[str, Value]] = {}
    """Its flags and their defaults."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._flags, self.complaint = parse_flags(arguments, self.defaults) if self.defaults else ({}, "")
        if self.complaint:
            _log.warning("job plugin %s: %s; this argument and those after it are ignored", self.name, self.complaint)

    def text(self, flag: str) -> str:
        """Return the value of a flag that is text."""
        return str(self._flags[flag])

    def number(self, flag: str) -> int:
        """Return the value of a flag that is a whole number."""
        return int(self._flags[flag])

    def switch(self, flag: str) -> bool:
        """Return the value of a flag that is on or off."""
        return bool(self._flags[flag])

    def shape(self, job: Job, task: TaskSpec, pod: dict[str, Any]) -> None:
        """Change in place what all pods of a task share. ``pod`` has labels, annotations and spec.

        Raises:
            PluginRefusal: The job lacks what the plugin needs.
        """

    def on_pod_create(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Change one pod. Members below ``spec`` are shared between pods: replace lists, never edit them."""

    def objects(self, job: Job) -> Sequence[RequiredObject]:
        """Return the objects that must exist before the job's pods are created."""
        return ()

    def refreshed(self, job: Job) -> Sequence[RequiredObject]:
        """Return the objects to bring up to date when the job's spec has changed."""
        return ()

    def removed(self, job: Job) -> Sequence[tuple[type[Object], str]]:
        """Return the objects to delete when all pods of the job are killed, as views and names."""
        return ()


def every_container(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return containers and init containers of a pod's body."""
    spec = pod["spec"]
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def host_names(job: Job, task: TaskSpec) -> list[str]:
    """Return the host names of a task's pods; a fixed one in the template stands for all of them."""
    if task.template.spec.hostname:
        return [task.template.spec.hostname]
    return [f"{job.metadata.name}-{task.name}-{index}" for index in range(task.replicas)]


def host_addresses(job: Job, task: TaskSpec) -> list[str]:
    """Return ``hostname.subdomain`` of a task's pods: their DNS names within the namespace."""
    subdomain = subdomain_of(job, task)
    return [f"{host}.{subdomain}" for host in host_names(job, task)]


def first_address(job: Job, task: TaskSpec) -> str:
    """Return the address of a task's pod of index 0, which need not exist yet."""
    host = task.template.spec.hostname or f"{job.metadata.name}-{task.name}-0"
    return f"{host}.{subdomain_of(job, task)}"


def subdomain_of(job: Job, task: TaskSpec) -> str:
    """Return the subdomain of a task's pods."""
    return task.template.spec.subdomain or job.metadata.name


def find_task(job: Job, name: str) -> TaskSpec | None:
    """Return the task of that name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def add_port(container: dict[str, Any], name: str, port: int) -> None:
    """Declare a port of a container in place, unless the container declares that number already."""
    ports = container.get("ports") or ()
    if all(declared.get("containerPort") != port for declared in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": port}]


def add_variables(spec: dict[str, Any], members: Sequence[str], added: Sequence[dict[str, Any]]) -> None:
    """Append variables to the containers of one pod; copies the lists that it shares with other pods.

    Args:
        spec: The pod's own spec; changed in place.
        members: Which containers: ``containers``, ``initContainers``.
        added: The variables.
    """
    for member in members:
        if spec.get(member):
            spec[member] = [{**c, "env": [*(c.get("env") or ()), *added]} for c in spec[member]]


def owned_metadata(job: Job, name: str) -> dict[str, Any]:
    """Return the metadata of an object that the job owns, so that it is deleted with the job."""
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "ownerReferences": [controller_reference(terms.JOB_API_VERSION, terms.JOB_KIND, job.metadata)],
    }


def pod_labels(job: Job) -> dict[str, str]:
    """Return the labels that select the job's pods."""
    return {terms.JOB_NAME: job.metadata.name, terms.JOB_NAMESPACE: job.metadata.namespace}
