"""Certificates, tokens, kubeconfigs and RBAC."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from strato.api import catalog
from strato.api.wire import User
from strato.clock import VirtualClock
from strato.errors import Unauthorized, UsageError
from strato.pki import KeyPair
from strato.server import bootstrap
from strato.server.auth import kubeconfig
from strato.server.auth.authorizer import RbacAuthorizer
from strato.server.auth.ca import CertificateAuthority
from strato.server.auth.identity import ANONYMOUS, Authenticator
from strato.server.auth.policy import RbacPolicy
from strato.server.auth.tokens import Tokens
from strato.server.path import Attributes


def test_files_are_private_and_reused(tmp_path: Path) -> None:
    clock = VirtualClock()
    first = CertificateAuthority(tmp_path, clock)
    certificate, _ = first.server_files()
    content = certificate.read_bytes()
    assert CertificateAuthority(tmp_path, clock).server_files()[0].read_bytes() == content
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_server_certificate_is_renewed_before_it_ends_or_when_names_change(tmp_path: Path) -> None:
    clock = VirtualClock()
    authority = CertificateAuthority(tmp_path, clock)
    first = authority.server_files()[0].read_bytes()
    named = authority.server_files(["10.0.0.1"])[0].read_bytes()
    assert first != named
    clock.advance(300 * 86400)
    assert authority.server_files(["10.0.0.1"])[0].read_bytes() != named


def test_broken_ca_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("x")
    (tmp_path / "ca.key").write_text("x")
    with pytest.raises(UsageError, match="remove both"):
        CertificateAuthority(tmp_path, VirtualClock())


def test_client_certificate_names_its_user(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "a", VirtualClock())
    other = CertificateAuthority(tmp_path / "b", VirtualClock())
    pem = authority.client(User("jane", ("dev",))).certificate
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    assert authority.user_of(der) == User("jane", ("dev", "system:authenticated"))
    assert other.user_of(der) is None


def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    first = Tokens(path)
    first.ensure(bootstrap.IDENTITIES)
    second = Tokens(path)
    second.ensure(bootstrap.IDENTITIES)
    assert second.find(first.token("strato:view")) == bootstrap.VIEWER
    assert second.find("nonsense") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_authenticator_knows_tokens_and_refuses_others() -> None:
    tokens = Tokens()
    tokens.ensure([bootstrap.ADMIN])
    authenticate = Authenticator(tokens)
    assert authenticate({"authorization": f"Bearer {tokens.token('strato:admin')}"}) == bootstrap.ADMIN
    assert authenticate({}, {}) == ANONYMOUS
    for credentials in ("Bearer wrong", "Basic abc", "Bearer"):
        with pytest.raises(Unauthorized):
            authenticate({"authorization": credentials}, {})


def test_kubeconfig_is_private_yaml(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "config"
    kubeconfig.write(path, "https://127.0.0.1:1", user="admin", token="t", ca=b"pem")
    document = yaml.safe_load(path.read_text())
    assert document["users"] == [{"name": "admin", "user": {"token": "t"}}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


RBAC = "rbac.authorization.k8s.io"
EDITOR = User("ed")
EDITING = {
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "ed"},
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "ed"}],
}
QUESTIONS = [
    ("a viewer reads pods", bootstrap.VIEWER, {"verb": "list", "resource": "pods"}, True),
    ("a viewer reads no secrets", bootstrap.VIEWER, {"verb": "get", "resource": "secrets"}, False),
    ("a viewer writes nothing", bootstrap.VIEWER, {"verb": "create", "resource": "pods"}, False),
    ("a master does anything", bootstrap.ADMIN, {"verb": "impersonate", "resource": "users"}, True),
    (
        "the scheduler binds",
        bootstrap.SCHEDULER,
        {"verb": "create", "resource": "pods", "subresource": "binding", "namespace": "d"},
        True,
    ),
    ("the scheduler makes no pods", bootstrap.SCHEDULER, {"verb": "create", "resource": "pods"}, False),
    ("the scheduler reads no secrets", bootstrap.SCHEDULER, {"verb": "get", "resource": "secrets"}, False),
    (
        "hollow nodes write pod status",
        bootstrap.HOLLOW_NODES,
        {"verb": "patch", "resource": "pods", "subresource": "status"},
        True,
    ),
    ("hollow nodes read no secrets", bootstrap.HOLLOW_NODES, {"verb": "get", "resource": "secrets"}, False),
    ("an editor writes deployments", EDITOR, {"verb": "patch", "group": "apps", "resource": "deployments"}, True),
    (
        "an editor writes no statuses",
        EDITOR,
        {"verb": "patch", "group": "apps", "resource": "deployments", "subresource": "status"},
        False,
    ),
    ("an editor writes no endpoints", EDITOR, {"verb": "update", "resource": "endpoints"}, False),
    ("an editor makes no roles", EDITOR, {"verb": "create", "group": RBAC, "resource": "roles"}, False),
    ("nobody knows the anonymous", ANONYMOUS, {"verb": "get", "resource": "pods"}, False),
    ("the anonymous see health", ANONYMOUS, {"verb": "get", "path": "/healthz"}, True),
    ("the anonymous see no metrics", ANONYMOUS, {"verb": "get", "path": "/metrics"}, False),
    ("everybody known discovers", bootstrap.HOLLOW_NODES, {"verb": "get", "path": "/apis/apps/v1"}, True),
]


@pytest.mark.parametrize(("user", "question", "want"), [q[1:] for q in QUESTIONS], ids=[q[0] for q in QUESTIONS])
def test_bootstrap_policy(user: User, question: dict[str, str], want: bool) -> None:
    assert RbacAuthorizer(RbacPolicy.of([*bootstrap.objects(), EDITING])).allows(user, Attributes(**question)) is want


def test_a_role_binding_holds_in_its_namespace_and_a_change_is_seen() -> None:
    role = {
        "kind": "Role",
        "metadata": {"name": "r", "namespace": "a"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/log"], "resourceNames": ["p"]}],
    }
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "a"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "a"}],
    }
    policy = RbacPolicy.of((role, binding))
    authorizer = RbacAuthorizer(policy)
    user = User("system:serviceaccount:a:s")
    assert authorizer.allows(user, Attributes("get", "", "pods", namespace="a", name="p"))
    assert authorizer.allows(user, Attributes("get", "", "pods", "log", namespace="a", name="p"))
    assert not authorizer.allows(user, Attributes("get", "", "pods", namespace="a", name="q"))
    assert not authorizer.allows(user, Attributes("get", "", "pods", namespace="b", name="p"))
    policy.put(catalog.ROLEBINDING, "a", "b", None)
    assert not authorizer.allows(user, Attributes("get", "", "pods", namespace="a", name="p"))


def test_aggregated_roles_that_name_each_other_end() -> None:
    def role(name: str, other: str) -> dict[str, Any]:
        selector = {"matchLabels": {"to": other}}
        return {
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"to": name}},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [name]}],
            "aggregationRule": {"clusterRoleSelectors": [selector]},
        }

    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "x"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    authorizer = RbacAuthorizer(RbacPolicy.of((role("x", "y"), role("y", "x"), binding)))
    assert authorizer.allows(User("u"), Attributes("get", "", "y"))


def der_of(pair: KeyPair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


def test_a_server_certificate_of_ours_is_nobody(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path, VirtualClock())
    authority.server_files()
    pair = KeyPair((tmp_path / "server.crt").read_bytes(), b"")
    assert authority.user_of(der_of(pair)) is None


def test_a_certificate_that_has_ended_is_nobody_also_when_it_was_known(tmp_path: Path) -> None:
    clock = VirtualClock()
    authority = CertificateAuthority(tmp_path, clock)
    peer = der_of(authority.client(User("jane", ("dev",))))
    authenticate = Authenticator(Tokens(), authority)
    assert authenticate({}, peer).name == "jane"
    clock.advance(366 * 86400)
    assert authenticate({}, peer) == ANONYMOUS


def test_aggregation_heeds_expressions() -> None:
    expression = {"key": "kind", "operator": "In", "values": ["safe"]}
    selector = {"matchLabels": {"gather": "yes"}, "matchExpressions": [expression]}

    def part(name: str, kind: str) -> dict[str, Any]:
        rule = {"verbs": ["get"], "apiGroups": [""], "resources": [name]}
        return {
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"gather": "yes", "kind": kind}},
            "rules": [rule],
        }

    whole = {"kind": "ClusterRole", "metadata": {"name": "w"}, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "w"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    authorizer = RbacAuthorizer(RbacPolicy.of((part("pods", "safe"), part("secrets", "unsafe"), whole, binding)))
    assert authorizer.allows(User("u"), Attributes("get", "", "pods"))
    assert not authorizer.allows(User("u"), Attributes("get", "", "secrets"))
