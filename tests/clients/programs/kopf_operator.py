"""An operator of ``examples.strato.dev/Kiosk``, for ``kopf run``: handlers, a timer, a finalizer, admission."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kopf
from kubernetes import client, config


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    config.load_kube_config()
    certificates = Path(os.environ["CERTIFICATES"])
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="127.0.0.1",
        cafile=certificates / "ca.crt",
        certfile=certificates / "tls.crt",
        pkeyfile=certificates / "tls.key",
    )
    settings.admission.managed = "kiosks.examples.strato.dev"


@kopf.on.mutate("kiosks")
def fill_in(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    if "greeting" not in spec:
        patch.spec["greeting"] = "hello"


@kopf.on.validate("kiosks")
def check(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    if spec["size"] > 5:
        raise kopf.AdmissionError("a kiosk of more than 5 is a shop", code=422)
    if spec["size"] > 3:
        warnings.append("that is a large kiosk")


@kopf.on.create("kiosks")
@kopf.on.update("kiosks", field="spec.size")
def stock(
    name: str | None, namespace: str | None, spec: kopf.Spec, patch: kopf.Patch, body: kopf.Body, **_: Any
) -> None:
    core = client.CoreV1Api()
    shelf: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-shelf"}}
    shelf["data"] = {"books": str(spec["size"])}
    kopf.adopt(shelf)
    try:
        core.create_namespaced_config_map(namespace, shelf)
    except client.ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(f"{name}-shelf", namespace, shelf)
    kopf.info(body, reason="Stocked", message=f"{spec['size']} books")
    patch.status["books"] = spec["size"]


@kopf.on.timer("kiosks", interval=1)
def tick(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete("kiosks")
def close(name: str | None, namespace: str | None, **_: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-closed"}}
    client.CoreV1Api().create_namespaced_config_map(namespace, body)
