"""Read kubeconfig files, or the service account of the pod we run in.

Several files are merged as kubectl does it: of two entries with one name the first file's counts. Relative paths
are relative to the file that has them. All problems of the entries used are reported together, with file and field.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strato.api import yamltext
from strato.client.config import Auth, Certificate, ClusterConfig, ExecPlugin, Token, TokenFile, is_server_url
from strato.errors import InvalidInput, Problem, UsageError, called, one_line
from strato.http.headers import host_port

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, CA and namespace."""

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def load(
    paths: Sequence[Path],
    *,
    context: str | None = None,
    server: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> ClusterConfig:
    """Read the configuration of one context.

    Args:
        paths: Kubeconfig files to merge; if there are several, missing ones are ignored. Without paths this pod's
            service account is used, or with ``server`` an anonymous connection.
        context: The context to use instead of ``current-context``.
        server: A URL that replaces the cluster's.
        environ: Environment for the in-cluster case; the process's by default.

    Raises:
        InvalidInput: The files have problems, which it lists.
        UsageError: There is nothing to read.
    """
    if not paths:
        if server:
            return ClusterConfig(server=_checked_server(server))
        return in_cluster(environ if environ is not None else os.environ)
    merged = _merge([path for path in paths if len(paths) == 1 or path.exists()], paths)
    config = _Reader(merged).read(context)
    return replace(config, server=_checked_server(server)) if server else config


def in_cluster(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """Return the configuration of the service account mounted into this pod.

    Raises:
        UsageError: This process does not run in a pod.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    token = directory / "token"
    if not host or not port or not token.exists():
        raise UsageError(
            f"this is not a pod with a service account: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not "
            f"both set or {token} is missing; name a kubeconfig"
        )
    ca, namespace = directory / "ca.crt", directory / "namespace"
    return ClusterConfig(
        server=f"https://{host_port(host, port)}",
        ca=ca.read_bytes() if ca.exists() else None,
        auth=TokenFile(token),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


@dataclass(slots=True)
class _Entry:
    """One named entry and the file it came from."""

    file: Path
    where: str
    body: dict[str, Any]


@dataclass(slots=True)
class _Merged:
    files: list[Path]
    current_context: str = ""
    clusters: dict[str, _Entry] = field(default_factory=dict)
    users: dict[str, _Entry] = field(default_factory=dict)
    contexts: dict[str, _Entry] = field(default_factory=dict)


def _merge(paths: Sequence[Path], asked: Sequence[Path]) -> _Merged:
    if not paths:
        raise UsageError(f"none of the kubeconfig files exists: {', '.join(str(path) for path in asked)}")
    merged = _Merged(list(paths))
    problems: list[Problem] = []
    for path in paths:
        document = _parse(path, problems)
        merged.current_context = merged.current_context or str(document.get("current-context") or "")
        for section, inner, target in (
            ("clusters", "cluster", merged.clusters),
            ("users", "user", merged.users),
            ("contexts", "context", merged.contexts),
        ):
            _merge_section(path, document.get(section), section, inner, target, problems)
    if problems:
        raise InvalidInput("kubeconfig", problems)
    return merged


def _parse(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        document = yamltext.load(path.read_text())
    except OSError as error:
        problems.append(Problem(str(path), f"cannot be read: {error.strerror}"))
    except (yamltext.InvalidYaml, UnicodeDecodeError) as error:
        problems.append(Problem(str(path), f"is not YAML: {one_line(error)}"))
    else:
        if document is None:
            return {}
        if isinstance(document, dict):
            return document
        problems.append(Problem(str(path), f"must be a mapping, not {called(document)}"))
    return {}


def _merge_section(
    path: Path, entries: object, section: str, inner: str, target: dict[str, _Entry], problems: list[Problem]
) -> None:
    if entries is None:
        return
    if not isinstance(entries, list):
        problems.append(Problem(f"{path}: {section}", "must be a list"))
        return
    for number, entry in enumerate(entries):
        where = f"{section}[{number}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            problems.append(Problem(f"{path}: {where}", "must be a mapping with a name"))
            continue
        body = entry.get(inner)
        if body is not None and not isinstance(body, dict):
            problems.append(Problem(f"{path}: {where}.{inner}", "must be a mapping"))
            continue
        target.setdefault(entry["name"], _Entry(path, f"{where}.{inner}", body or {}))


class _Reader:
    """Turns the merged entries into a `ClusterConfig` and collects every problem on the way."""

    def __init__(self, merged: _Merged) -> None:
        self._merged = merged
        self._problems: list[Problem] = []

    def read(self, context_name: str | None) -> ClusterConfig:
        name = context_name or self._merged.current_context
        files = ", ".join(str(path) for path in self._merged.files)
        if not name:
            raise InvalidInput(
                "kubeconfig", [Problem(f"{files}: current-context", "is not set; name one with --context")]
            )
        context = self._merged.contexts.get(name)
        if context is None:
            known = ", ".join(sorted(self._merged.contexts)) or "none"
            raise InvalidInput(
                "kubeconfig", [Problem(f"{files}: contexts", f"has no {name!r}; known contexts: {known}")]
            )
        cluster = self._referenced(context, "cluster", self._merged.clusters)
        user = self._referenced(context, "user", self._merged.users) if context.body.get("user") else None
        config = ClusterConfig(server="", context=name, namespace=self._text(context, "namespace") or "default")
        if cluster is not None:
            config = self._with_cluster(config, cluster)
        if user is not None:
            config = self._with_user(config, user, cluster)
        if self._problems:
            raise InvalidInput("kubeconfig", self._problems)
        return config

    def _with_cluster(self, config: ClusterConfig, cluster: _Entry) -> ClusterConfig:
        known = len(self._problems)
        server = self._text(cluster, "server")
        try:
            server = _checked_server(server)
        except UsageError as error:
            if len(self._problems) == known:  # otherwise the field is not a string, which has been reported
                self._problem(cluster, "server", str(error))
        insecure = cluster.body.get("insecure-skip-tls-verify") is True
        ca = self._data_or_file(cluster, "certificate-authority")
        if insecure and ca is not None:
            self._problem(cluster, "insecure-skip-tls-verify", "and a certificate authority exclude each other")
        return replace(
            config,
            server=server,
            ca=ca,
            insecure_skip_tls_verify=insecure,
            tls_server_name=self._text(cluster, "tls-server-name"),
        )

    def _with_user(self, config: ClusterConfig, user: _Entry, cluster: _Entry | None) -> ClusterConfig:
        chain = self._data_or_file(user, "client-certificate")
        key = self._data_or_file(user, "client-key")
        if (chain is None) != (key is None):
            missing = "client-key" if key is None else "client-certificate"
            if not any(problem.where.endswith((missing, f"{missing}-data")) for problem in self._problems):
                self._problem(user, missing, "is missing; a client certificate needs both")
        groups = user.body.get("as-groups") or []
        return replace(
            config,
            certificate=Certificate(chain, key) if chain is not None and key is not None else None,
            auth=self._auth(user, cluster),
            impersonate_user=self._text(user, "as"),
            impersonate_groups=tuple(str(group) for group in groups) if isinstance(groups, list) else (),
        )

    def _auth(self, user: _Entry, cluster: _Entry | None) -> Auth:
        if "auth-provider" in user.body:
            self._problem(user, "auth-provider", "was removed from Kubernetes; use an exec plugin")
        if "username" in user.body or "password" in user.body:
            self._problem(user, "username", "and password were removed from Kubernetes; use a token or a certificate")
        token_file = self._text(user, "tokenFile")
        if token_file:  # takes precedence, as in kubectl
            return TokenFile(user.file.parent / token_file)
        token = self._text(user, "token")
        if token:
            return Token(token)
        if user.body.get("exec") is None:
            return None
        return self._exec(user, cluster)

    def _exec(self, user: _Entry, cluster: _Entry | None) -> Auth:
        spec = user.body["exec"]
        if not isinstance(spec, dict):
            self._problem(user, "exec", "must be a mapping")
            return None
        entry = _Entry(user.file, f"{user.where}.exec", spec)
        command = self._text(entry, "command")
        if not command:
            self._problem(entry, "command", "is missing")
        elif os.sep in command and not Path(command).is_absolute():
            command = str(user.file.parent / command)
        version = self._text(entry, "apiVersion")
        if version not in _EXEC_VERSIONS:
            self._problem(entry, "apiVersion", f"is {version!r}; known: {', '.join(_EXEC_VERSIONS)}")
        args, env = spec.get("args") or [], spec.get("env") or []
        if not isinstance(args, list):
            self._problem(entry, "args", "must be a list")
            args = []
        if not isinstance(env, list) or not all(isinstance(pair, dict) and "name" in pair for pair in env):
            self._problem(entry, "env", "must be a list of name and value")
            env = []
        return ExecPlugin(
            command=command,
            args=tuple(str(argument) for argument in args),
            env={str(pair["name"]): str(pair.get("value", "")) for pair in env},
            api_version=version,
            install_hint=self._text(entry, "installHint"),
            provide_cluster_info=spec.get("provideClusterInfo") is True,
            interactive=spec.get("interactiveMode") in ("IfAvailable", "Always"),
            config=_exec_extension(cluster),
        )

    def _referenced(self, context: _Entry, kind: str, entries: Mapping[str, _Entry]) -> _Entry | None:
        name = self._text(context, kind)
        if not name:
            self._problem(context, kind, "is not set")
            return None
        if name not in entries:
            known = ", ".join(sorted(entries)) or "none"
            self._problem(context, kind, f"names {name!r}, which is not there; known: {known}")
        return entries.get(name)

    def _text(self, entry: _Entry, name: str) -> str:
        value = entry.body.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self._problem(entry, name, f"must be text, not {value!r}")
            return ""
        return value

    def _data_or_file(self, entry: _Entry, name: str) -> bytes | None:
        data = self._text(entry, f"{name}-data")
        if data:
            try:
                return base64.b64decode(data, validate=False)
            except (binascii.Error, ValueError) as error:
                self._problem(entry, f"{name}-data", f"is not base64: {error}")
                return None
        file = self._text(entry, name)
        if not file:
            return None
        path = entry.file.parent / file
        try:
            return path.read_bytes()
        except OSError as error:
            self._problem(entry, name, f"names {path}, which cannot be read: {error.strerror}")
            return None

    def _problem(self, entry: _Entry, name: str, message: str) -> None:
        self._problems.append(Problem(f"{entry.file}: {entry.where}.{name}", message))


def _checked_server(server: str) -> str:
    """Return a server's complete URL; a bare ``host:port`` means http, as for kubectl."""
    if not server:
        raise UsageError("is not set")
    url = server if "://" in server else f"http://{server}"
    if not is_server_url(url):
        raise UsageError(f"{server!r} is not the URL of a server; write for example https://127.0.0.1:6443")
    return url.rstrip("/")


def _exec_extension(cluster: _Entry | None) -> object:
    extensions = cluster.body.get("extensions") if cluster is not None else None
    if not isinstance(extensions, list):
        return None
    for extension in extensions:
        if isinstance(extension, dict) and extension.get("name") == _EXEC_EXTENSION:
            return extension.get("extension")
    return None
