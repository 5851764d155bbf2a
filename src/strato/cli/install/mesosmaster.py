"""The Mesos master of an installation: a Deployment, its Service and the namespace of its tasks.

It makes pods in the name of whoever reaches its port, so it asks for credentials: without the Secret that holds them
its pod does not start.
"""

from __future__ import annotations

from typing import Final

from strato.api.meta import Json
from strato.cli.install.values import Values

NAME: Final = "strato-mesos"
ENABLED: Final = "custom.mesos_enable"
_PORT: Final = 5050
_TLS_SECRET: Final = "custom.mesos_tls_secret"


def tasks_namespace(values: Values) -> Json:
    """Return the namespace of the pods of tasks."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": values("custom.mesos_tasks_namespace")}}


def complete(deployment: Json, values: Values) -> Json:
    """Add what is the master's own to a component's Deployment: its port, its address and its credentials."""
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["args"] += [
        "--ip=0.0.0.0",
        f"--port={_PORT}",
        "--advertise=$(POD_IP)",  # the others of several masters send frameworks to the one that leads
        "--credentials=/credentials/credentials",
        f"--tls-cert-file={values.where(_TLS_SECRET, '/tls/tls.crt')}",
        f"--tls-private-key-file={values.where(_TLS_SECRET, '/tls/tls.key')}",
        f"--tasks-namespace={values('custom.mesos_tasks_namespace')}",
        f"--image={values('custom.mesos_task_image')}",
        f"--offer-timeout={values('custom.mesos_offer_timeout')}",
    ]
    container["env"].append({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    container["ports"].append({"name": "mesos", "containerPort": _PORT})
    for name in ("credentials", "tls"):
        container["volumeMounts"].append({"name": name, "mountPath": f"/{name}", "readOnly": True})
    secret = values("custom.mesos_credentials_secret")
    pod["volumes"] += [
        {"name": "credentials", "secret": {"secretName": secret}},
        {"name": "tls", "projected": {"sources": values.secret_sources(_TLS_SECRET)}},  # empty where no Secret is named
    ]
    return deployment


def service(values: Values) -> Json:
    """Return the Service through which frameworks reach a master; one that does not lead sends them on."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": values.namespace},
        "spec": {
            "selector": {"app": NAME},
            "ports": [{"name": "mesos", "port": _PORT, "protocol": "TCP", "targetPort": "mesos"}],
        },
    }
