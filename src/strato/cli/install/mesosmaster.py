"""The Mesos master of an installation: a Deployment, its Service and the namespace of its tasks.

The master creates pods for every client that reaches its port, so it requires credentials: its pod does not start
without the Secret that holds them.
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
    """Add the master's port, advertised address and credentials to a component's Deployment."""
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["args"] += [
        "--ip=0.0.0.0",
        f"--port={_PORT}",
        "--advertise=$(POD_IP)",  # the address to which the other masters redirect frameworks while this one leads
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
        {"name": "tls", "projected": {"sources": values.secret_sources(_TLS_SECRET)}},  # empty without a Secret
    ]
    return deployment


def service(values: Values) -> Json:
    """Return the Service through which frameworks reach any master; one that does not lead redirects them."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": values.namespace},
        "spec": {
            "selector": {"app": NAME},
            "ports": [{"name": "mesos", "port": _PORT, "protocol": "TCP", "targetPort": "mesos"}],
        },
    }
