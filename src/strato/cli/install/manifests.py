"""The objects of an installation, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strato.api import trainingkinds
from strato.api.meta import Json
from strato.cli.install import mesosmaster, nodeagent, roles
from strato.cli.install.values import Values

COMPONENTS = ("namespace", "crds", "rbac", "admission", "scheduler", "controllers", "agent", "mesos", "monitoring")
"""Parts of an installation; ``--only`` names them."""

SCHEDULER, CONTROLLERS, ADMISSION = "volcano-scheduler", "volcano-controllers", "volcano-admission"
ADMISSION_SERVICE = "volcano-admission-service"
_SCHEDULER_CONFIG, _CONTROLLER_CONFIG = "volcano-scheduler-configmap", "volcano-controller-configmap"
_METRICS = {"scheduler": 8080, "controllers": 8081, "admission": 8082, "mesos": 8084}
_HEALTH = 11251
"""Port at which Volcano's components serve ``/healthz``."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One object of an installation."""

    part: str
    body: Json
    when: tuple[str, ...] = ()
    """Paths of the boolean values that must all be true for the object to be installed."""
    service: str = ""
    """Path of the admission service that must be enabled for the object to be installed; empty for none."""


def resources(values: Values, scheduler_config: str) -> list[Resource]:
    """Return every object, whether its condition holds or not."""
    from strato.api.crds import manifests

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": values.namespace}}
    return [
        Resource("namespace", namespace),
        *(Resource("crds", body, _switched(body["metadata"]["name"])) for body in manifests()),
        *_rbac(values),
        *_admission(values),
        *_scheduler(values, scheduler_config),
        *_controllers(values),
        Resource("agent", nodeagent.daemonset(values), (nodeagent.ENABLED,)),
        *_mesos(values),
        *_monitoring(values),
    ]


def chosen(found: Sequence[Resource], values: Values, parts: Sequence[str]) -> list[Json]:
    """Return the objects of the chosen parts (``--only``) whose conditions hold."""
    enabled = {path.strip() for path in str(values("custom.enabled_admissions")).split(",")}
    return [
        resource.body
        for resource in found
        if resource.part in parts
        and all(values(path) for path in resource.when)
        and (not resource.service or resource.service in enabled)
    ]


def _switched(resource: str) -> tuple[str, ...]:
    """Return the path of the value that turns a definition's kind on; empty for kinds that cannot be turned off."""
    kinds = (kind for kinds in trainingkinds.SWITCHES.values() for kind in kinds)
    names = dict.fromkeys(trainingkinds.switch_of(kind) for kind in kinds if kind.resource == resource)
    return tuple(trainingkinds.value_of(name) for name in names)


def _training_kinds(values: Values) -> str:
    """Return the components' option that leaves out the training kinds whose value is false."""
    return "--training-kinds=*" + "".join(
        values.unless(trainingkinds.value_of(name), f",-{name}") for name in trainingkinds.SWITCHES
    )


def _rbac(values: Values) -> list[Resource]:
    from strato.admission import webhook

    here = values.namespace
    secret = values("basic.admission_secret_name")
    cluster = {
        SCHEDULER: roles.scheduler_rules(),
        CONTROLLERS: roles.controller_rules(),
        ADMISSION: roles.webhook_rules([service.configuration for service in webhook.SERVICES.values()]),
        nodeagent.NAME: roles.agent_rules(),
        mesosmaster.NAME: roles.mesos_rules(),
    }
    own = {
        SCHEDULER: [*roles.lease_rules(), *roles.findings_rules()],
        CONTROLLERS: [*roles.lease_rules(), *roles.controller_config_rules()],
        ADMISSION: roles.webhook_secret_rules(secret),
        nodeagent.NAME: [*roles.lease_rules(), *roles.agent_config_rules()],
    }
    conditions = {
        SCHEDULER: "custom.scheduler_enable",
        CONTROLLERS: "custom.controller_enable",
        ADMISSION: "custom.admission_enable",
        nodeagent.NAME: nodeagent.ENABLED,
        mesosmaster.NAME: mesosmaster.ENABLED,
    }
    found = [Resource("rbac", body) for body in roles.user_roles()]
    for name, condition in conditions.items():
        bodies = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": here}},
            roles.role(name, cluster[name]),
            roles.binding(name, name, here),
        ]
        if name in own:
            bodies += [
                roles.role(name, own[name], namespace=here),
                roles.binding(name, name, here, namespace=here),
            ]
        found += [Resource("rbac", body, (condition,)) for body in bodies]
    return found


def _admission(values: Values) -> list[Resource]:
    from strato.admission.webhook import Hooks, WebhookEndpoint, configurations

    port = values("basic.admission_port")
    options = [
        f"--port={port}",
        "--webhook-service-name=" + ADMISSION_SERVICE,
        f"--webhook-namespace={values.namespace}",
        f"--webhook-secret={values('basic.admission_secret_name')}",
        f"--enabled-admission={values('custom.enabled_admissions')}",
        _training_kinds(values),
        f"--failure-policy={values('custom.admission_failure_policy')}",
        f"--scheduler-name={values('custom.scheduler_name')}",
    ]
    deployment = _deployment(values, "admission", "webhook", options)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["ports"].append({"name": "webhook", "containerPort": port})
    container["readinessProbe"] = {"httpGet": {"path": "/readyz", "port": "webhook", "scheme": "HTTPS"}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": ADMISSION_SERVICE, "namespace": values.namespace},
        "spec": {
            "selector": {"app": ADMISSION},
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "webhook"}],
        },
    }
    hooks = Hooks(
        scheduler_names=(values("custom.scheduler_name"),),
        excluded_namespaces=("kube-system", values.namespace),
        part_namespaces=("kube-system", values.namespace),
        failure_policy=values("custom.admission_failure_policy"),
    )
    endpoint = WebhookEndpoint(namespace=values.namespace, service=ADMISSION_SERVICE)
    when = ("custom.admission_enable",)
    return [
        Resource("admission", service, when),
        Resource("admission", deployment, when),
        *(
            Resource("admission", body, (*when, *_switched(hook.kind.resource)), hook.path)
            for hook, body in zip(hooks.services, configurations(hooks, endpoint), strict=True)
        ),
    ]


def _scheduler(values: Values, config: str) -> list[Resource]:
    options = [
        f"--scheduler-name={values('custom.scheduler_name')}",
        "--scheduler-conf=/volcano/config/volcano-scheduler.conf",
        "--shadow=/volcano/config/shadow.yaml",
        f"--schedule-period={values('custom.scheduler_schedule_period')}",
        f"--enable-metrics={_flag(values('custom.scheduler_metrics_enable'))}",
        f"--scheduler-sharding-mode={values('custom.scheduler_sharding_mode')}",
        f"--agent-scheduler={_flag(values('custom.agent_scheduler_enable'))}",
        f"--record={values('custom.scheduler_record_file')}",
        f"--record-keep={values('custom.scheduler_record_keep')}",
    ]
    deployment = _deployment(values, "scheduler", "scheduler", options, config=_SCHEDULER_CONFIG)
    pod = deployment["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"].append({"name": "record", "mountPath": "/record"})
    pod["volumes"].append(values.merged({"name": "record"}, "custom.scheduler_record_volume"))
    data = {"volcano-scheduler.conf": config, "shadow.yaml": values("custom.scheduler_shadow_config")}
    when = ("custom.scheduler_enable",)
    return [
        Resource("scheduler", _configmap(values, _SCHEDULER_CONFIG, data), when),
        Resource("scheduler", deployment, when),
        Resource(
            "scheduler", _metrics_service(values, "scheduler", SCHEDULER), (*when, "custom.scheduler_metrics_enable")
        ),
    ]


def _controllers(values: Values) -> list[Resource]:
    options = [
        f"--scheduler-name={values('custom.scheduler_name')}",
        f"--controllers={values('custom.controller_enabled_controllers')}",
        f"--enable-metrics={_flag(values('custom.controller_metrics_enable'))}",
        f"--smtp-server={values('custom.controller_smtp_server')}",
        f"--mail-from={values('custom.controller_mail_from')}",
        f"--history-file={values('custom.controller_history_file')}",
        _training_kinds(values),
    ]
    deployment = _deployment(values, "controllers", "controllers", options)
    pod = deployment["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"].append({"name": "history", "mountPath": "/history"})
    pod["volumes"].append(values.merged({"name": "history"}, "custom.controller_history_volume"))
    when = ("custom.controller_enable",)
    config = _configmap(
        values, _CONTROLLER_CONFIG, {"volcano-controller.conf": values("custom.controller_config_override")}
    )
    return [
        Resource("controllers", config, (*when, "custom.controller_config_override")),
        Resource("controllers", deployment, when),
        Resource(
            "controllers",
            _metrics_service(values, "controllers", CONTROLLERS),
            (*when, "custom.controller_metrics_enable"),
        ),
    ]


def _mesos(values: Values) -> list[Resource]:
    when = (mesosmaster.ENABLED,)
    deployment = mesosmaster.complete(_deployment(values, "mesos", "mesos", [], name=mesosmaster.NAME), values)
    tasks = values("custom.mesos_tasks_namespace")
    bodies = (
        mesosmaster.tasks_namespace(values),
        roles.role(mesosmaster.NAME, roles.mesos_task_rules(), namespace=tasks),
        roles.binding(mesosmaster.NAME, mesosmaster.NAME, values.namespace, namespace=tasks),
        mesosmaster.service(values),
        deployment,
    )
    return [Resource("mesos", body, when) for body in bodies]


def _monitoring(values: Values) -> list[Resource]:
    served = {
        SCHEDULER: ("custom.scheduler_enable", "custom.scheduler_metrics_enable"),
        CONTROLLERS: ("custom.controller_enable", "custom.controller_metrics_enable"),
        ADMISSION: ("custom.admission_enable",),
    }
    return [
        Resource(
            "monitoring",
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PodMonitor",
                "metadata": {"name": name, "namespace": values.namespace},
                "spec": {
                    "selector": {"matchLabels": {"app": name}},
                    "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics"}],
                },
            },
            ("custom.podmonitor_enable", *when),
        )
        for name, when in served.items()
    ]


def _flag(value: object) -> object:
    """Return a boolean as YAML and templates write it; a mark as it is."""
    return str(value).lower() if isinstance(value, bool) else value


def _configmap(values: Values, name: str, data: Json) -> Json:
    metadata = {"name": name, "namespace": values.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _metrics_service(values: Values, part: str, name: str) -> Json:
    port = _METRICS[part]
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": "/metrics"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{name}-service", "namespace": values.namespace, "annotations": annotations},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": "metrics", "port": port, "protocol": "TCP", "targetPort": "metrics"}],
        },
    }


def _deployment(
    values: Values, part: str, verb: str, options: Sequence[str], *, config: str = "", name: str = ""
) -> Json:
    """Return a component's Deployment: not root, read-only but for scratch volumes, health and metrics on one port."""
    name = name or f"volcano-{part}"
    word = {"controllers": "controller"}.get(part, part)
    port = _METRICS[part]
    arguments = ["run", verb, f"--listen-address=:{port}", "--enable-healthz=true", *options]
    arguments.append(f"--v={values(f'custom.{word}_log_level')}")
    if part != "admission":
        arguments += [
            f"--leader-elect-resource-namespace={values.namespace}",
            f"--leader-elect={_flag(values('custom.leader_elect_enable'))}",
        ]
    mounts = [{"name": "scratch", "mountPath": "/tmp"}]
    volumes: list[Json] = [{"name": "scratch", "emptyDir": {}}]
    if config:
        mounts.append({"name": "config", "mountPath": "/volcano/config"})
        volumes.append({"name": "config", "configMap": {"name": config}})
    tag = values.first(f"basic.{word}_image_tag_version", "basic.image_tag_version")
    image = f"{values('basic.image_registry')}/{values(f'basic.{word}_image_name')}:{tag}"

    def chosen_or_default(name: str) -> Any:
        return values.first(f"custom.{word}_{name}", f"custom.default_{name}")

    container = {
        "name": name,
        "image": image,
        "imagePullPolicy": values("basic.image_pull_policy"),
        "args": arguments,
        "env": [{"name": "NUMBA_CACHE_DIR", "value": "/tmp/numba"}, {"name": "HOME", "value": "/tmp"}],
        "ports": [{"name": "metrics", "containerPort": port}, {"name": "health", "containerPort": _HEALTH}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "initialDelaySeconds": 30,
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
        "resources": values(f"custom.{word}_resources"),
        "volumeMounts": mounts,
        "securityContext": chosen_or_default("csc"),
    }
    own = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": values.namespace,
            "labels": values.merged(own, f"custom.{word}_labels", "custom.common_labels"),
        },
        "spec": {
            "replicas": values(f"custom.{word}_replicas"),
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": values.merged(own, f"custom.{word}_podLabels", "custom.common_labels")},
                "spec": {
                    "serviceAccountName": name,
                    "priorityClassName": "system-cluster-critical",
                    "imagePullSecrets": values.named("basic.image_pull_secret"),
                    "affinity": chosen_or_default("affinity"),
                    "nodeSelector": chosen_or_default("ns"),
                    "tolerations": chosen_or_default("tolerations"),
                    "securityContext": chosen_or_default("sc"),
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }
