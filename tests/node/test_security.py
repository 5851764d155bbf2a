"""What a pod's ``securityContext`` means at each level, decided without a machine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.node.sandbox import capabilities
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.security import IsolationLevel, decide, refusal

ROOT = IsolationLevel("root", 0, 0)
USER = IsolationLevel("user", 1000, 1000)
PLAIN = IsolationLevel("plain", 1000, 100)
PLAIN_ROOT = IsolationLevel("plain", 0, 0)


def pod(container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    containers = [{"name": "main", "image": "x", "securityContext": container or {}}]
    body = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": containers, **spec}}
    return msgspec.convert(body, Pod)


def fields(found: Pod, level: IsolationLevel) -> set[str]:
    why = refusal(found, level)
    return set() if why is None else set(why.message.split(":")[0].split(", "))


MAIN = "spec.containers[0].securityContext."
UNSUPPORTED = [
    pytest.param({}, {}, USER, set(), id="nothing asked for"),
    pytest.param({"runAsUser": 7, "runAsGroup": 8}, {}, USER, set(), id="one user can be any inside"),
    pytest.param({"runAsUser": 7}, {}, PLAIN, {f"{MAIN}runAsUser"}, id="but not without namespaces"),
    pytest.param({"runAsUser": 1000, "runAsGroup": 100}, {}, PLAIN, set(), id="who one is already"),
    pytest.param({"runAsUser": 7}, {}, PLAIN_ROOT, set(), id="root can be anybody"),
    pytest.param({"runAsGroup": 7}, {}, PLAIN, {f"{MAIN}runAsGroup"}, id="group"),
    pytest.param({"privileged": True}, {}, USER, {f"{MAIN}privileged"}, id="privileged by a user"),
    pytest.param({"privileged": True}, {}, ROOT, set(), id="privileged by root"),
    pytest.param({"readOnlyRootFilesystem": True}, {}, PLAIN_ROOT, {f"{MAIN}readOnlyRootFilesystem"}, id="root fs"),
    pytest.param({"capabilities": {"add": ["CHOWN"]}}, {}, USER, set(), id="a capability that means something"),
    pytest.param(
        {"capabilities": {"add": ["NET_RAW"]}}, {}, USER, {f"{MAIN}capabilities.add"}, id="and one that does not"
    ),
    pytest.param({"capabilities": {"drop": ["ALL"]}}, {}, PLAIN, set(), id="dropping is always possible"),
    pytest.param({}, {"securityContext": {"fsGroup": 1}}, PLAIN, {"spec.securityContext.fsGroup"}, id="fsGroup"),
    pytest.param({}, {"hostUsers": False}, PLAIN_ROOT, {"spec.hostUsers"}, id="users of its own"),
    pytest.param(
        {}, {"hostPID": True, "hostIPC": True, "hostNetwork": True}, PLAIN, set(), id="the machine's, as always"
    ),
    pytest.param({}, {"hostPID": True}, USER, {"spec.hostPID"}, id="the machine's processes"),
    pytest.param(
        {"capabilities": {"add": ["SYS_MODULE"]}},
        {},
        IsolationLevel("root", 0, 0, held=capabilities.ALL - {"SYS_MODULE"}),
        {f"{MAIN}capabilities.add"},
        id="what the node itself lacks",
    ),
]


@pytest.mark.parametrize(("container", "spec", "level", "want"), UNSUPPORTED)
def test_what_a_level_cannot_honour_is_named(
    container: dict[str, Any], spec: dict[str, Any], level: IsolationLevel, want: set[str]
) -> None:
    assert fields(pod(container, **spec), level) == want


@pytest.mark.parametrize(
    ("sysctl", "spec", "message"),
    [
        ("kernel.hostname", {}, '"kernel.hostname" not allowlisted'),
        ("net.ipv4.tcp_syncookies", {"hostNetwork": True}, "not allowed with host net enabled"),
        ("net/ipv4/tcp_syncookies", {"hostNetwork": True}, "not allowed with host net enabled"),
        ("kernel.shm_rmid_forced", {"hostIPC": True}, "not allowed with host ipc enabled"),
        ("../../etc/passwd", {}, "not allowlisted"),
    ],
)
def test_sysctls_are_forbidden_in_a_kubelets_words(sysctl: str, spec: dict[str, Any], message: str) -> None:
    found = refusal(pod(securityContext={"sysctls": [{"name": sysctl, "value": "1"}]}, **spec), ROOT)
    assert found is not None
    assert (found.reason, message in found.message) == ("SysctlForbidden", True)


def test_a_safe_sysctl_needs_a_network_of_the_pods() -> None:
    asks = pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]})
    assert refusal(asks, ROOT) is None
    assert fields(asks, IsolationLevel("root", 0, 0, own_network=False)) == {"spec.securityContext.sysctls"}


def test_the_container_speaks_before_the_pod() -> None:
    asks = pod(
        {"runAsUser": 5, "runAsNonRoot": False}, securityContext={"runAsUser": 6, "runAsGroup": 7, "runAsNonRoot": True}
    )
    found = decide(asks, asks.spec.containers[0], ROOT, "/nowhere")
    assert (found.uid, found.gid) == (5, 7)


@pytest.mark.parametrize("level", [ROOT, USER, PLAIN, PLAIN_ROOT], ids=["root", "user", "plain", "plain as root"])
def test_every_level_filters_calls_and_gains_no_privileges(level: IsolationLevel) -> None:
    asks = pod()
    found = decide(asks, asks.spec.containers[0], level, "/nowhere")
    assert (found.no_new_privileges, found.seccomp) == (True, "RuntimeDefault")


def test_an_unprivileged_user_is_no_root() -> None:
    asks = pod({"runAsNonRoot": True})
    assert decide(asks, asks.spec.containers[0], PLAIN, "/nowhere").uid is None
    with pytest.raises(ConfigProblem, match="image will run as root"):
        decide(asks, asks.spec.containers[0], USER, "/nowhere")


APP_ARMOR = [
    pytest.param({}, {}, False, id="nothing asked for"),
    pytest.param({"appArmorProfile": {}}, {"appArmorProfile": {"type": ""}}, False, id="no type"),
    pytest.param({"appArmorProfile": {"type": "Unconfined"}}, {}, False, id="explicitly none"),
    pytest.param({"appArmorProfile": {"type": "RuntimeDefault"}}, {}, True, id="of a container"),
    pytest.param({}, {"appArmorProfile": {"type": "Localhost"}}, True, id="of the pod"),
    pytest.param(
        {"appArmorProfile": {"type": "Unconfined"}}, {"appArmorProfile": {"type": "RuntimeDefault"}}, True, id="of both"
    ),
]


@pytest.mark.parametrize(("container", "security", "is_refused"), APP_ARMOR)
@pytest.mark.parametrize("is_init", [False, True])
def test_profiles_of_app_armor_are_refused(
    container: dict[str, Any], security: dict[str, Any], is_refused: bool, is_init: bool
) -> None:
    inits = [{"name": "init", "image": "x", "securityContext": container}] if is_init else []
    made = pod({} if is_init else container, securityContext=security, initContainers=inits)
    found = refusal(made, ROOT)
    assert (found.reason if found is not None else "") == ("AppArmor" if is_refused else "")
