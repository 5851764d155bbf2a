"""The values of an installation: Volcano's chart's names where they mean the same, in one tree with their defaults.

Manifests get their values from `Values`. For ``strato install`` that is the value itself; for the Helm chart it is a
mark that `strato.cli.install.chart` turns into a template, so that there is one source of both.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable
from typing import Any, Protocol

from strato import __version__
from strato.admission.chain import ALL_WEBHOOKS
from strato.api import trainingkinds, yamltext
from strato.api.meta import Json
from strato.errors import InvalidInput, Problem, one_line

_SMALL = {"requests": {"cpu": "50m", "memory": "256Mi"}}
_LARGE = {"requests": {"cpu": "500m", "memory": "512Mi"}}
_AGENT_SIZE = {"requests": {"cpu": "20m", "memory": "96Mi"}}

DEFAULTS: dict[str, Json] = {
    "basic": {
        "image_registry": "docker.io",
        "scheduler_image_name": "strato/strato",
        "controller_image_name": "strato/strato",
        "admission_image_name": "strato/strato",
        "agent_image_name": "strato/strato",
        "mesos_image_name": "strato/strato",
        "image_tag_version": __version__,
        "scheduler_image_tag_version": "",
        "controller_image_tag_version": "",
        "admission_image_tag_version": "",
        "agent_image_tag_version": "",
        "mesos_image_tag_version": "",
        "image_pull_policy": "IfNotPresent",
        "image_pull_secret": "",
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
        "scheduler_shadow_config": "",
        "scheduler_record_file": "",
        "scheduler_record_keep": 8,
        "scheduler_record_volume": {},
        "controller_enabled_controllers": "*,-sharding-controller",
        "controller_config_override": None,
        "controller_smtp_server": "",
        "controller_mail_from": "",
        "controller_history_file": "",
        "controller_history_volume": {},
        "enabled_admissions": ",".join(ALL_WEBHOOKS),
        **{trainingkinds.value_of(name).partition(".")[2]: True for name in trainingkinds.SWITCHES},
        "admission_failure_policy": "Fail",
        "podmonitor_enable": False,
        "scheduler_metrics_enable": True,
        "controller_metrics_enable": True,
        "scheduler_log_level": 3,
        "controller_log_level": 3,
        "admission_log_level": 3,
        "scheduler_sharding_mode": "none",
        "agent_scheduler_enable": False,
        "colocation_enable": False,
        "agent_kube_cgroup_root": "",
        "agent_supported_features": "OverSubscription,Eviction,Resources",
        "agent_extend_resource_cpu_name": "kubernetes.io/batch-cpu",
        "agent_extend_resource_memory_name": "kubernetes.io/batch-memory",
        "agent_resources": _AGENT_SIZE,
        "agent_ns": {},
        "mesos_enable": False,
        "mesos_replicas": 1,
        "mesos_log_level": 3,
        "mesos_credentials_secret": "strato-mesos-credentials",
        "mesos_tls_secret": "",
        "mesos_tasks_namespace": "mesos",
        "mesos_task_image": "busybox",
        "mesos_offer_timeout": "5mins",
        "mesos_resources": _SMALL,
        "scheduler_resources": _LARGE,
        "controller_resources": _LARGE,
        "admission_resources": _SMALL,
        "default_affinity": {},
        "default_tolerations": [],
        "default_ns": {},
        "default_sc": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "default_csc": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "common_labels": {},
        **{
            f"{component}_{name}": None
            for component in ("scheduler", "controller", "admission", "mesos")
            for name in ("affinity", "tolerations", "ns", "sc", "csc", "labels", "podLabels")
        },
    },
}
"""Sections of the values, as in Volcano's ``values.yaml``."""

COMMENTS: dict[str, str] = {
    "basic": "Images, names and ports.",
    "basic.image_tag_version": "Tag of all images that have none of their own.",
    "basic.image_pull_secret": "Name of a Secret with which images are pulled.",
    "basic.admission_secret_name": "Where the webhook keeps the certificates it makes.",
    "basic.scheduler_config_file": "File of the chart with the scheduler's configuration.",
    "custom": "Which components run, and how.",
    "custom.leader_elect_enable": "One scheduler and one controller manager at a time work; needed with more replicas.",
    "custom.scheduler_name": "Pods with this schedulerName are ours.",
    "custom.scheduler_config_override": "The scheduler's configuration as text, instead of the file.",
    "custom.controller_enabled_controllers": "Comma-separated names; * is all, -name leaves one out.",
    "custom.controller_config_override": "Text of volcano-controller.conf (HyperNode discovery).",
    "custom.controller_smtp_server": "HOST:PORT of the relay that takes mail about jobs; empty: none is sent.",
    "custom.controller_mail_from": "Who such mail is from; empty: strato@ and the pod's name.",
    "custom.controller_history_file": "Where runs and their use are recorded: /history/FILE; empty: they are not.",
    "custom.controller_history_volume": "What is mounted at /history, such as {persistentVolumeClaim: {claimName: C}}.",
    "custom.enabled_admissions": "Which requests the API server sends to the webhook.",
    "custom.admission_failure_policy": "For our own kinds while no webhook answers; pods always pass. Fail or Ignore.",
    "custom.tfjob_enable": "Kinds of training jobs: the definitions, controller and checks of each.",
    "custom.podmonitor_enable": "PodMonitors; needs the Prometheus operator.",
    "custom.scheduler_shadow_config": "Text of a configuration that decides too, applied nowhere; empty: none.",
    "custom.scheduler_record_file": "/record/FILE: decisions are recorded there for strato sim replay; empty: not.",
    "custom.scheduler_record_keep": "So many files of the record, of 256Mi each, are kept; 0: all.",
    "custom.scheduler_record_volume": "What is mounted at /record, such as {persistentVolumeClaim: {claimName: C}}.",
    "custom.scheduler_metrics_enable": "Serve /metrics, for Services with scrape annotations or PodMonitors.",
    "custom.scheduler_log_level": "From 5 on details are logged.",
    "custom.scheduler_sharding_mode": "none, hard or soft: whether nodes outside the NodeShard volcano are used.",
    "custom.agent_scheduler_enable": "The scheduler serves pods with schedulerName agent-scheduler too.",
    "custom.colocation_enable": (
        "A node agent on every node; its policies are the ConfigMaps strato-agent and volcano-agent-configuration."
    ),
    "custom.agent_supported_features": "What volcano-agent-configuration may switch on.",
    "custom.agent_kube_cgroup_root": "The kubelets' --cgroup-root.",
    "custom.agent_ns": "Node selector of the agents.",
    "custom.mesos_enable": "A Mesos master: frameworks get offers of the nodes.",
    "custom.mesos_credentials_secret": "Its file credentials has a principal and a secret a line. Needed.",
    "custom.mesos_tls_secret": "Of type kubernetes.io/tls: the port speaks https with its certificate; empty: http.",
    "custom.mesos_tasks_namespace": "Of the pods of tasks.",
    "custom.mesos_task_image": "Of tasks that name none.",
    "custom.mesos_offer_timeout": "Offers that are not answered for so long are rescinded.",
    "custom.default_affinity": "Of all our pods that have none of their own; likewise the other default_… values.",
    "custom.default_ns": "Node selector.",
    "custom.default_sc": "Security context of the pod.",
    "custom.default_csc": "Security context of the container.",
    "custom.common_labels": "Labels of all our Deployments and pods.",
    "custom.scheduler_affinity": "Of one component's pods instead of the default; labels and podLabels come on top.",
}


_RATE = "the client has no limit of its own; the API server's priority and fairness decides"
_THREADS = "one event loop does the work of all threads"
_NODES = "all nodes are always looked at"
_GATES = "what there is is on"
_AGENT = "the tool network-qos, where a node has it, finds its configuration itself"
_AGENT_SCHEDULER = (
    "the scheduler serves its pods, with agent_scheduler_enable; shards are used as scheduler_sharding_mode says"
)
_HYPERNODE = "HyperNodes are found by the controllers; controller_enabled_controllers leaves them out"
_POLICY = "the webhook does what these policies would; enabled_admissions says what it is asked"
_HOOKS = "kube-system and the own namespace are never asked about; further ones by --exclude-namespace of the webhook"

WITHOUT_EFFECT: dict[str, str] = {
    "basic.admission_config_file": "pods are changed only with --admission-conf of the webhook",
    "custom.admission_config_override": "pods are changed only with --admission-conf of the webhook",
    "custom.metrics_enable": "no Prometheus is bundled; podmonitor_enable serves one that is there",
    "custom.scheduler_pprof_enable": "there is no such profile of a Python program",
    "custom.scheduler_kube_api_qps": _RATE,
    "custom.scheduler_kube_api_burst": _RATE,
    "custom.controller_kube_api_qps": _RATE,
    "custom.controller_kube_api_burst": _RATE,
    "custom.scheduler_node_worker_threads": _THREADS,
    "custom.controller_worker_threads": _THREADS,
    "custom.controller_worker_threads_for_gc": _THREADS,
    "custom.controller_worker_threads_for_podgroup": _THREADS,
    "custom.scheduler_percentage_nodes_to_find": _NODES,
    "custom.scheduler_plugins_dir": "Go plugins cannot be loaded; name Python files in the configuration",
    "custom.ignored_provisioners": "a provisioner that tells no capacity is never held against a node",
    "custom.scheduler_feature_gates": _GATES,
    "custom.admission_feature_gates": _GATES,
    "custom.controller_feature_gates": _GATES,
    "custom.scheduler_sharding_name": "the NodeShard is called volcano",
    "custom.sharding_configmap_enable": "make the ConfigMap volcano-sharding-configmap yourself",
    "custom.sharding_configmap_data": "make the ConfigMap volcano-sharding-configmap yourself",
    "custom.webhooks_namespace_selector_expressions": _HOOKS,
    "custom.vap_enable": _POLICY,
    "custom.map_enable": _POLICY,
    "custom.admission_init_ttl": "the webhook makes its certificates itself, without a Job",
    "custom.go_memlimit_enable": "there is no Go here",
    "custom.aggregationRule_labels": "the roles aggregate into admin, edit and view",
    "custom.default_resources": "each component has resources of its own",
    "custom.hypernode_controller_mode": _HYPERNODE,
    "custom.hypernode_controller_replicas": _HYPERNODE,
    "custom.hypernode_controller_metrics_enable": _HYPERNODE,
    "basic.hypernode_controller_image_name": _HYPERNODE,
    "basic.hypernode_controller_image_tag_version": _HYPERNODE,
    "basic.agent_scheduler_image_name": _AGENT_SCHEDULER,
    "basic.agent_scheduler_image_tag_version": _AGENT_SCHEDULER,
    "basic.agent_scheduler_config_file": _AGENT_SCHEDULER,
    "custom.agent_scheduler_name": _AGENT_SCHEDULER,
    "custom.agent_scheduler_worker_count": _AGENT_SCHEDULER,
    "custom.agent_scheduler_replicas": _AGENT_SCHEDULER,
    "custom.agent_scheduler_sharding_mode": _AGENT_SCHEDULER,
    "custom.agent_scheduler_sharding_name": _AGENT_SCHEDULER,
    "custom.agent_cni_config_path": _AGENT,
    "service.ipFamilyPolicy": "Services take the cluster's address family",
    "service.ipFamilies": "Services take the cluster's address family",
}
"""Values of Volcano's chart without effect here, and why; accepted, so that its users' values files work unchanged."""


class Values(Protocol):
    """Source of the manifests' values: `Chosen` returns the values themselves, the chart's marks."""

    @property
    def namespace(self) -> str:
        """Namespace of the installation."""

    def __call__(self, path: str) -> Any:
        """Return the value of a path such as ``custom.scheduler_replicas``, or a mark for it."""

    def first(self, path: str, fallback: str) -> Any:
        """Return the value of a path, of another one if that is empty, or a mark for it."""

    def merged(self, base: dict[str, str], *paths: str) -> Any:
        """Return a map and those at the paths laid over each other, the first one on top, or a mark for it."""

    def named(self, path: str) -> Any:
        """Return the name at a path as a list of one reference, an empty one for no name, or a mark for it."""

    def secret_sources(self, path: str) -> Any:
        """Return a list of one source for a projected volume, the Secret named at a path, or a mark for it."""

    def unless(self, path: str, text: str) -> str:
        """Return a text if a switch is off, an empty one if it is on, or a mark for it."""

    def where(self, path: str, text: str) -> str:
        """Return a text if there is a name at a path, an empty one for no name, or a mark for it."""


class Chosen:
    """Values chosen on a command line: defaults overlaid by files and settings.

    Args:
        files: Texts of values files, later ones win.
        settings: ``path=value`` with YAML values; they win over files.

    Raises:
        InvalidInput: Values that do not exist or have another type; all are listed.
    """

    def __init__(self, namespace: str, files: Iterable[tuple[str, str]] = (), settings: Iterable[str] = ()) -> None:
        self.namespace = namespace
        self._values = copy.deepcopy(DEFAULTS)
        self.notes: dict[str, str] = {}
        """Values given that have no effect, and why."""
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
            raise InvalidInput("this set of values", problems)

    def __call__(self, path: str) -> Any:
        """Return a value."""
        section, _, name = path.partition(".")
        return copy.deepcopy(self._values[section][name])

    def first(self, path: str, fallback: str) -> Any:
        """Return the value of a path, of another one if that is empty."""
        return self(path) or self(fallback)

    def merged(self, base: dict[str, str], *paths: str) -> Any:
        """Return a map and those at the paths laid over each other, the first one on top."""
        merged: Json = {}
        for path in reversed(paths):
            merged.update(self(path) or {})
        return {**merged, **base}

    def named(self, path: str) -> Any:
        """Return the name at a path as a list of one reference, an empty one for no name."""
        return [{"name": self(path)}] if self(path) else []

    def secret_sources(self, path: str) -> Any:
        """Return a list of one source for a projected volume, an empty one for no name."""
        return [{"secret": {"name": self(path)}}] if self(path) else []

    def unless(self, path: str, text: str) -> str:
        """Return a text if a switch is off, an empty one if it is on."""
        return "" if self(path) else text

    def where(self, path: str, text: str) -> str:
        """Return a text if there is a name at a path, an empty one for no name."""
        return text if self(path) else ""

    def _merge_file(self, name: str, text: str, problems: list[Problem]) -> None:
        try:
            body = yamltext.load(text) or {}
        except yamltext.InvalidYaml as error:
            problems.append(Problem(name, f"not YAML: {one_line(error)}"))
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
        if path in WITHOUT_EFFECT:
            self.notes[path] = WITHOUT_EFFECT[path]
        elif name not in known:
            problems.append(Problem(where, _unknown(path)))
        elif value is None and not isinstance(known[name], bool | int):
            # as the chart's templates have it: no text is the default, no map or list an empty one
            self._values[section][name] = known[name] if isinstance(known[name], str | None) else type(known[name])()
        elif known[name] is not None and type(value) is not type(known[name]):
            problems.append(Problem(where, f"must be {_TYPES[type(known[name])]}, is {value!r}"))
        else:
            self._values[section][name] = _laid_over(self._values[section][name], value)


def _laid_over(present: Any, given: Any) -> Any:
    """Return a value overlaid by another one, as Helm does: maps key by key; null removes a key."""
    if not isinstance(present, dict) or not isinstance(given, dict):
        return given
    merged = {**present, **{key: _laid_over(present.get(key), value) for key, value in given.items()}}
    return {key: value for key, value in merged.items() if value is not None}


_TYPES = {bool: "true or false", int: "a whole number", str: "a text", dict: "a map", list: "a list"}


def _unknown(path: str) -> str:
    names = [f"{part}.{key}" for part, members in DEFAULTS.items() for key in members]
    near = difflib.get_close_matches(path, names, 3)
    return f"no such value; {'did you mean ' + ' or '.join(near) if near else 'see values.yaml of the chart'}"


def _parsed(text: str) -> Any:
    try:
        return yamltext.load(text)
    except yamltext.InvalidYaml:
        return text
