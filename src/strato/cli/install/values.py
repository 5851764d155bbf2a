"""The values of an installation: Volcano's chart's names where they mean the same, in one tree with their defaults.

Manifests ask `Values` for what they need. For ``strato install`` that is the value itself; for the Helm chart it is a
mark that `strato.cli.install.chart` turns into a template, so that there is one source of both.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Protocol

import yaml

from strato import __version__
from strato.errors import InvalidInput, Problem

Json = dict[str, Any]

SERVICES = (
    "/jobs/mutate,/jobs/validate,/podgroups/mutate,/podgroups/validate,/pods/validate,"
    "/queues/mutate,/queues/validate,/hypernodes/validate,/jobflows/validate,/cronjobs/validate"
)
_SMALL = {"requests": {"cpu": "50m", "memory": "256Mi"}}
_LARGE = {"requests": {"cpu": "500m", "memory": "512Mi"}}

DEFAULTS: dict[str, Json] = {
    "basic": {
        "image_registry": "docker.io",
        "scheduler_image_name": "strato/strato",
        "controller_image_name": "strato/strato",
        "admission_image_name": "strato/strato",
        "image_tag_version": __version__,
        "image_pull_policy": "IfNotPresent",
        "admission_secret_name": "volcano-admission-secret",
        "admission_port": 8443,
        "scheduler_config_file": "config/volcano-scheduler.conf",
    },
    "custom": {
        "scheduler_enable": True,
        "controller_enable": True,
        "admission_enable": True,
        "scheduler_replicas": 1,
        "controller_replicas": 1,
        "admission_replicas": 1,
        "leader_elect_enable": True,
        "scheduler_name": "volcano",
        "scheduler_schedule_period": "1s",
        "scheduler_config_override": None,
        "controller_enabled_controllers": "*,-sharding-controller",
        "controller_config_override": None,
        "enabled_admissions": SERVICES,
        "admission_failure_policy": "Fail",
        "podmonitor_enable": False,
        "scheduler_resources": _LARGE,
        "controller_resources": _LARGE,
        "admission_resources": _SMALL,
        "scheduler_affinity": {},
        "controller_affinity": {},
        "admission_affinity": {},
        "default_tolerations": [],
        "default_ns": {},
    },
}
"""Sections of the values, as in Volcano's ``values.yaml``."""

COMMENTS: dict[str, str] = {
    "basic": "Images, names and ports.",
    "basic.image_tag_version": "Tag of all images.",
    "basic.admission_secret_name": "Where the webhook keeps the certificates it makes.",
    "basic.scheduler_config_file": "File of the chart with the scheduler's configuration.",
    "custom": "Which components run, and how.",
    "custom.leader_elect_enable": "One scheduler and one controller manager at a time work; needed with more replicas.",
    "custom.scheduler_name": "Pods with this schedulerName are ours.",
    "custom.scheduler_config_override": "The scheduler's configuration as text, instead of the file.",
    "custom.controller_enabled_controllers": "Comma-separated names; * is all, -name leaves one out.",
    "custom.controller_config_override": "Text of volcano-controller.conf (HyperNode discovery).",
    "custom.enabled_admissions": "Which requests the API server sends to the webhook.",
    "custom.admission_failure_policy": "For our own kinds while no webhook answers; pods always pass. Fail or Ignore.",
    "custom.podmonitor_enable": "PodMonitors; needs the Prometheus operator.",
    "custom.default_tolerations": "Of all our pods.",
    "custom.default_ns": "Node selector of all our pods.",
}


class Values(Protocol):
    """Where manifests get values from."""

    @property
    def namespace(self) -> str:
        """Namespace of the installation."""
        ...

    def __call__(self, path: str) -> Any:
        """Return the value of a path such as ``custom.scheduler_replicas``, or a mark for it."""
        ...


class Chosen:
    """Values as chosen on a command line.

    Args:
        namespace: Namespace of the installation.
        files: Texts of values files, later ones win.
        settings: ``path=value`` with YAML values; they win over files.

    Raises:
        InvalidInput: Values that do not exist or have another type; all are listed.
    """

    def __init__(self, namespace: str, files: Iterable[tuple[str, str]] = (), settings: Iterable[str] = ()) -> None:
        self.namespace = namespace
        self._values = copy.deepcopy(DEFAULTS)
        problems: list[Problem] = []
        for name, text in files:
            self._merge_file(name, text, problems)
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals:
                problems.append(
                    Problem(f"--set {setting}", "write path=value, for example custom.scheduler_replicas=2")
                )
                continue
            self._set(path.strip(), _parsed(text), f"--set {path}", problems)
        if problems:
            raise InvalidInput("the values", problems)

    def __call__(self, path: str) -> Any:
        """Return a value."""
        section, _, name = path.partition(".")
        return copy.deepcopy(self._values[section][name])

    def _merge_file(self, name: str, text: str, problems: list[Problem]) -> None:
        try:
            body = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            problems.append(Problem(name, f"not YAML: {error}"))
            return
        if not isinstance(body, dict):
            problems.append(Problem(name, "must hold sections such as basic and custom"))
            return
        for section, members in body.items():
            if not isinstance(members, dict):
                problems.append(Problem(f"{name}: {section}", f"must be a map, is {members!r}"))
                continue
            for key, value in members.items():
                self._set(f"{section}.{key}", value, f"{name}: {section}.{key}", problems)

    def _set(self, path: str, value: Any, where: str, problems: list[Problem]) -> None:
        section, _, name = path.partition(".")
        known = DEFAULTS.get(section, {})
        if name not in known:
            names = ", ".join(f"{part}.{key}" for part, members in DEFAULTS.items() for key in members)
            problems.append(Problem(where, f"no such value; there are {names}"))
        elif known[name] is not None and value is not None and type(value) is not type(known[name]):
            problems.append(
                Problem(where, f"must be a {type(known[name]).__name__} like {known[name]!r}, is {value!r}")
            )
        else:
            self._values[section][name] = value


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
