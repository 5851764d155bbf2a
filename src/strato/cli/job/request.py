"""A job as a user requests it, by flags or by a script's lines, and its manifest."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strato.api import catalog
from strato.api.afterjobs import AFTER, Dependency, parse_after
from strato.api.arrays import Array, parse_array
from strato.api.mail import MAIL, MAIL_TYPE, MailType, parse_addresses, parse_types
from strato.cli.job.resources import Resources, agree
from strato.cli.job.timelimit import parse_time_limit
from strato.client.cluster import Json
from strato.errors import InvalidInput, Problem, UsageError

JOB_LABEL = "job.volcano.sh"
_VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job of one task, as asked for and checked."""

    name: str
    namespace: str
    image: str
    command: Sequence[str] = ()
    replicas: int = 1
    """Number of pods; in an array, of each element."""
    min_available: int = 1
    resources: Resources
    scheduler: str = "volcano"
    queue: str = ""
    priority: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    time_seconds: int | None = None
    """How long each pod may run; None sets no limit."""
    array: Array | None = None
    after: Sequence[Dependency] = ()
    mail: Sequence[str] = ()
    mail_types: Sequence[MailType] = tuple(MailType)

    def manifest(self) -> Json:
        """Return the job. Its task stays unnamed: admission calls it ``default0``."""
        pod: Json = {"restartPolicy": "Never", "containers": [self._container()]}
        if self.time_seconds is not None:
            pod["activeDeadlineSeconds"] = self.time_seconds
        template = {"metadata": {"name": self.name, "labels": {JOB_LABEL: self.name}}, "spec": pod}
        task: Json = {"replicas": self.replicas, "template": template}
        spec: Json = {"minAvailable": self.min_available, "schedulerName": self.scheduler, "tasks": [task]}
        if self.queue:
            spec["queue"] = self.queue
        if self.priority:
            spec["priorityClassName"] = self.priority
        if self.array is not None:
            self._make_array(spec, task, self.array)
        metadata: Json = {"name": self.name, "namespace": self.namespace}
        if annotations := self._annotations():
            metadata["annotations"] = annotations
        return {"apiVersion": catalog.VCJOB.api_version, "kind": catalog.VCJOB.name, "metadata": metadata, "spec": spec}

    def _container(self) -> Json:
        container: Json = {
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": dict(self.resources.requests), "limits": dict(self.resources.limits)},
        }
        if self.command:
            container["command"] = list(self.command)
        if self.environment:
            container["env"] = [{"name": name, "value": value} for name, value in self.environment.items()]
        return container

    def _make_array(self, spec: Json, task: Json, array: Array) -> None:
        """Make one element for each index; elements of several pods become partitions, each of them a gang."""
        elements = len(array.indexes)
        task["replicas"] = spec["minSuccess"] = elements * self.replicas
        spec["minAvailable"] = self.replicas
        if self.replicas > 1:
            task["partitionPolicy"] = {"totalPartitions": elements, "partitionSize": self.replicas, "minPartitions": 1}
        else:
            task["minAvailable"] = 1
        limit = [f"--limit={array.limit}"] if array.limit else []
        spec["plugins"] = {"array": [f"--indexes={array.text}", *limit]}

    def _annotations(self) -> dict[str, str]:
        found = {}
        if self.after:
            found[AFTER] = ",".join(map(str, self.after))
        if self.mail:
            found[MAIL] = ",".join(self.mail)
            found[MAIL_TYPE] = ",".join(self.mail_types)
        return found


class Checks:
    """Parses options and collects their problems, which `done` raises together."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.problems: list[Problem] = []

    def problem(self, flag: str, text: str) -> None:
        """Add a problem with an option."""
        self.problems.append(Problem(flag, text))

    def done(self) -> None:
        """Raise `UsageError` for one problem, `InvalidInput` for several."""
        if len(self.problems) == 1:
            raise UsageError(f"{self.problems[0].where}: {self.problems[0].message}")
        if self.problems:
            raise InvalidInput(self._what, self.problems)

    def resources(self, requests: str | None, limits: str | None, gpus: int) -> Resources:
        """Return requests and limits that agree."""
        return agree(requests, limits, gpus, self.problem)

    def environment(self, words: Sequence[str]) -> dict[str, str]:
        """Read ``KEY=VALUE`` and ``KEY``, whose value is this process'."""
        found: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not _VARIABLE.fullmatch(name):
                self.problem("--env", f"{word!r} is not KEY=VALUE or KEY; a key has letters, digits, '_', '-' and '.'")
            elif not equals and name not in os.environ:
                self.problem("--env", f"{name} is not set here; write {name}=VALUE")
            else:
                found[name] = value if equals else os.environ[name]
        return found

    def time_limit(self, text: str, flag: str = "--time") -> int | None:
        """Read a time limit; empty is none."""
        return self._read(flag, text, parse_time_limit, None) if text else None

    def array(self, text: str, flag: str = "--array") -> Array | None:
        """Read an array; empty is none."""
        return self._read(flag, text, parse_array, None) if text else None

    def after(self, words: Sequence[str], flag: str = "--after") -> tuple[Dependency, ...]:
        """Read the jobs that this one starts after."""
        return tuple(one for word in words for one in self._read(flag, word, parse_after, ()))

    def mail(self, addresses: str, types: str | None) -> tuple[tuple[str, ...], tuple[MailType, ...]]:
        """Read the mail addresses and the kinds of events they get; without addresses no mail is sent."""
        wanted = self._read("--mail-type", types, parse_types, ()) if types is not None else tuple(MailType)
        if not addresses:
            return (), ()
        return self._read("--mail", addresses, parse_addresses, ()), wanted

    def _read(self, flag: str, text: str, parse: Callable[[str], Any], instead: Any) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            self.problem(flag, str(error))
            return instead
