"""Where a remote cluster is and how we prove who we are there: plain values, read from files by `kubeconfig`."""

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
    """Whether the command may use our standard input."""
    config: object = None
    """``extensions[client.authentication.k8s.io/exec]`` of the cluster, handed through when cluster info is wanted."""


Auth = Token | TokenFile | ExecPlugin | None
"""How requests are authenticated beside a client certificate."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate chain and its key, PEM."""

    chain: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Everything a connection needs."""

    server: str
    """URL, with a path prefix where a proxy wants one."""
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
    """The context's namespace, for commands."""
    context: str = ""
    """Name of the context this came from; empty when it came from none."""


def is_server_url(url: str) -> bool:
    """Whether a text is a URL that a client can speak to: http or https, with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number
        return False
