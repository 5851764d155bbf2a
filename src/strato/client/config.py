"""Address of a remote cluster and our credentials for it: plain values, which `kubeconfig` reads from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that does not change."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token in a file that is rewritten now and then (service accounts)."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A command that prints an ``ExecCredential`` (client.authentication.k8s.io)."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive: bool = False
    """Whether the command may read our standard input."""
    config: object = None
    """``extensions[client.authentication.k8s.io/exec]`` of the cluster; passed to a command that wants cluster info."""


Auth = Token | TokenFile | ExecPlugin | None
"""How requests are authenticated in addition to a client certificate."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate chain and its key, PEM."""

    chain: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Address, trust and credentials of one cluster."""

    server: str
    """URL of the server, with a path prefix if a proxy needs one."""
    ca: bytes | None = None
    """PEM certificates to trust; None trusts the system's."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    """Name to expect in the server's certificate instead of the URL's."""
    certificate: Certificate | None = None
    auth: Auth = None
    impersonate_user: str = ""
    impersonate_groups: tuple[str, ...] = ()
    namespace: str = "default"
    """The context's namespace, which commands use by default."""
    context: str = ""
    """Name of the kubeconfig context this was read from; empty if from none."""


def is_server_url(url: str) -> bool:
    """Whether a text is the URL of a server: http or https, with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number
        return False
