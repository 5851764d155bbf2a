"""Kubeconfig files of mode 0600 for the identities of the embedded server."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import msgspec

from strato.pki import KeyPair
from strato.server.auth.files import write_secret


def write(
    path: Path,
    server: str,
    *,
    user: str,
    token: str = "",
    client: KeyPair | None = None,
    ca: bytes = b"",
    cluster: str = "strato",
    namespace: str = "default",
) -> None:
    """Write a kubeconfig with one context."""
    where: dict[str, str] = {"server": server}
    if ca:
        where["certificate-authority-data"] = b64encode(ca).decode()
    who: dict[str, str] = {"token": token} if token else {}
    if client is not None:
        who["client-certificate-data"] = b64encode(client.certificate).decode()
        who["client-key-data"] = b64encode(client.private_key).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": where}],
        "users": [{"name": user, "user": who}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user, "namespace": namespace}}],
    }
    write_secret(path, msgspec.yaml.encode(document))
