"""ssh: let the pods of a job log into each other without a password.

A Secret holds one key pair for the whole job and a client configuration that knows every host; it is mounted
where ssh looks for it.

Source: volcano-controllers Part B, ssh.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric import rsa

from strato.api.core import Secret
from strato.api.meta import Object
from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import (
    JobPlugin,
    RequiredObject,
    every_container,
    host_names,
    owned_metadata,
    subdomain_of,
)
from strato.controllers.sshkeys import key_pair

ROOT_PATH = "/root/.ssh"
DEFAULT_PORT = 22
PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
_RELATIVE_PATH = ".ssh"
_KEY_BITS = 2048
_PUBLIC_EXPONENT = 65537
_ROOT_MODE, _OTHER_MODE = 0o600, 0o644


class SshPlugin(JobPlugin):
    """See the module."""

    name: ClassVar[str] = "ssh"
    computes_long: ClassVar[bool] = True  # a key pair takes about 60 ms
    defaults: ClassVar[Mapping[str, Value]] = {
        "ssh-key-file-path": ROOT_PATH,
        "ssh-private-key": "",
        "ssh-public-key": "",
        "ssh-port": DEFAULT_PORT,
    }

    def shape(self, job: Job, task: TaskSpec, pod: dict[str, Any]) -> None:
        """Mount the Secret in every container."""
        secret, spec, path = _secret_name(job), pod["spec"], self.text("ssh-key-file-path")
        items = [
            {"key": key, "path": f"{_RELATIVE_PATH}/{key}"}
            for key in (PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, CONFIG)
        ]
        mode = _ROOT_MODE if path == ROOT_PATH else _OTHER_MODE
        volume = {"name": secret, "secret": {"secretName": secret, "items": items, "defaultMode": mode}}
        spec["volumes"] = [*(spec.get("volumes") or ()), volume]
        for container in every_container(pod):
            mount = {"name": secret, "mountPath": path, "subPath": _RELATIVE_PATH}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]

    def objects(self, job: Job) -> Sequence[RequiredObject]:
        """Return the Secret. An existing one with the same hosts is kept, because running pods use its keys."""
        private, public = self._keys()
        values = {
            PRIVATE_KEY: private,
            PUBLIC_KEY: public,
            AUTHORIZED_KEYS: public,
            CONFIG: client_config(job, self._port()),
        }
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": owned_metadata(job, _secret_name(job)),
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
        }
        return (RequiredObject(Secret, body, "data", CONFIG),)

    def removed(self, job: Job) -> Sequence[tuple[type[Object], str]]:
        """Return the Secret."""
        return ((Secret, _secret_name(job)),)

    def _keys(self) -> tuple[str, str]:
        if private := self.text("ssh-private-key"):
            return private, self.text("ssh-public-key")
        return key_pair(rsa.generate_private_key(public_exponent=_PUBLIC_EXPONENT, key_size=_KEY_BITS))

    def _port(self) -> int:
        port = self.number("ssh-port")
        return port if 1 <= port <= 65535 else DEFAULT_PORT


def client_config(job: Job, port: int) -> str:
    """Return the client configuration with every host that the job's present spec has."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.spec.tasks:
        subdomain = subdomain_of(job, task)
        for host in host_names(job, task):
            lines += [f"Host {host}", f"  HostName {host}.{subdomain}", f"  Port {port}"]
    return "\n".join(lines) + "\n"


def _secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
