from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from strato.client import kubeconfig
from strato.client.config import Certificate, ExecPlugin, Token, TokenFile
from strato.errors import InvalidInput, UsageError

V1 = "client.authentication.k8s.io/v1"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def write(path: Path, *, user: dict | None = None, cluster: dict | None = None, **more: object) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def test_context_names_cluster_user_and_namespace(tmp_path: Path) -> None:
    cluster = {"certificate-authority-data": b64("CA"), "tls-server-name": "api.local"}
    config = kubeconfig.load([write(tmp_path / "k", user={"token": "secret"}, cluster=cluster)])
    assert config.server == "https://one:6443"
    assert config.ca == b"CA"
    assert config.tls_server_name == "api.local"
    assert config.namespace == "team"
    assert config.auth == Token("secret")
    assert "secret" not in repr(config)


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    path = write(
        tmp_path / "dir" / "k",
        user={"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": "tok"},
        cluster={"certificate-authority": "ca.crt"},
    )
    for name in ("me.crt", "me.key", "ca.crt"):
        (path.parent / name).write_text(name)
    config = kubeconfig.load([path])
    assert config.certificate == Certificate(b"me.crt", b"me.key")
    assert config.ca == b"ca.crt"
    assert config.auth == TokenFile(path.parent / "tok")


def test_first_file_wins_when_several_are_merged(tmp_path: Path) -> None:
    one = write(tmp_path / "1", user={"token": "first"})
    two = write(
        tmp_path / "2",
        user={"token": "second"},
        contexts=[
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "other"}},
            {"name": "extra", "context": {"cluster": "c", "user": "u"}},
        ],
    )
    files = [tmp_path / "missing", one, two]
    assert kubeconfig.load(files).namespace == "team"
    extra = kubeconfig.load(files, context="extra")
    assert extra.auth == Token("first")
    assert extra.namespace == "default"


def test_exec_plugin_is_read_in_full(tmp_path: Path) -> None:
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "args": ["--now", 1],
        "env": [{"name": "A", "value": "b"}],
        "installHint": "install it",
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    config = kubeconfig.load([write(tmp_path / "k", user={"exec": spec}, cluster={"extensions": [extension]})])
    assert config.auth == ExecPlugin(
        command=str(tmp_path / "login"),
        args=("--now", "1"),
        env={"A": "b"},
        install_hint="install it",
        provide_cluster_info=True,
        config={"audience": "x"},
    )


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        pytest.param({"cluster": {"server": "ftp://x"}}, "clusters[0].cluster.server", "not the URL", id="bad URL"),
        pytest.param({"cluster": {"server": 5}}, "clusters[0].cluster.server", "must be text", id="number for text"),
        pytest.param({"cluster": {"certificate-authority": "no"}}, "certificate-authority", "No such file", id="no CA"),
        pytest.param({"cluster": {"certificate-authority-data": "a"}}, "-data", "base64", id="CA is not base64"),
        pytest.param(
            {"cluster": {"certificate-authority-data": b64("x"), "insecure-skip-tls-verify": True}},
            "insecure-skip-tls-verify",
            "exclude",
            id="CA and no verification",
        ),
        pytest.param({"user": {"client-certificate-data": b64("x")}}, "client-key", "missing", id="certificate alone"),
        pytest.param({"user": {"exec": {"command": "x"}}}, "exec.apiVersion", "known", id="exec without version"),
        pytest.param({"user": {"exec": {"apiVersion": V1}}}, "exec.command", "missing", id="exec without command"),
        pytest.param({"user": {"auth-provider": {}}}, "auth-provider", "removed", id="auth provider"),
        pytest.param({"user": {"username": "a", "password": "b"}}, "username", "removed", id="a password"),
        pytest.param({"contexts": {}}, "contexts", "must be a list", id="contexts are no list"),
        pytest.param({"users": [5]}, "users[0]", "mapping", id="user is a number"),
        pytest.param({"current-context": "none"}, "contexts", "known contexts: main", id="unknown context"),
        pytest.param({"current-context": ""}, "current-context", "--context", id="no context"),
        pytest.param(
            {"contexts": [{"name": "main", "context": {"cluster": "x", "user": "u"}}]},
            "contexts[0].context.cluster",
            "known: c",
            id="unknown cluster",
        ),
    ],
)  # fmt: skip -- one case a line
def test_problem_names_file_and_field(tmp_path: Path, change: dict, where: str, what: str) -> None:
    path = write(tmp_path / "k", **change)
    with pytest.raises(InvalidInput) as raised:
        kubeconfig.load([path])
    (problem,) = raised.value.problems
    assert problem.where.startswith(str(path))
    assert where in problem.where
    assert what in problem.message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("a: [", "is not YAML", id="broken YAML"),
        pytest.param("- 1", "must be a mapping", id="a list"),
        pytest.param("", "current-context", id="empty"),
    ],
)
def test_unusable_file_is_named(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=what):
        kubeconfig.load([path])


def test_missing_file_is_an_error_when_it_is_the_only_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        kubeconfig.load([tmp_path / "none"])
    with pytest.raises(UsageError, match="none of the kubeconfig files exists"):
        kubeconfig.load([tmp_path / "none", tmp_path / "nor this"])


def test_server_argument_replaces_the_clusters(tmp_path: Path) -> None:
    path = write(tmp_path / "k", user={"token": "t"})
    assert kubeconfig.load([path], server="localhost:8080").server == "http://localhost:8080"
    assert kubeconfig.load([], server="https://x").auth is None


def test_pod_finds_its_service_account(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "team\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = kubeconfig.in_cluster(environ, tmp_path)
    assert config.server == "https://[fd00::1]:443"
    assert config.namespace == "team"
    assert config.auth == TokenFile(tmp_path / "token")
    with pytest.raises(UsageError, match="not a pod"):
        kubeconfig.load([], environ={})
