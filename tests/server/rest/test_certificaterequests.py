"""CertificateSigningRequests: what is taken, who decides, and what is signed."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from strato.api.wire import User
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.controllers import ControllerManager, ControllerSettings
from strato.controllers.kube.certificates import CertificateController
from strato.server import bootstrap
from strato.server.auth.ca import CertificateAuthority
from strato.server.embedded import in_memory_server, open_server
from tests.server.asking import ADMIN, MERGE, Client

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT, KUBELET = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
APPROVED = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}


def pem(name: str = "jane", *groups: str, hosts: tuple[str, ...] = ()) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder()
    builder = builder.subject_name(x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)]))
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return base64.b64encode(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)).decode()


REQUEST = pem()


def csr(name: str = "c", request: str = REQUEST, signer: str = CLIENT, **spec: Any) -> dict[str, Any]:
    spec = {"request": request, "signerName": signer, "usages": ["client auth"], **spec}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def client() -> Client:
    return Client(in_memory_server(VirtualClock(), Random(1)))


async def test_the_server_says_who_asks(client: Client) -> None:
    asked = csr(username="somebody", groups=["else"])
    asked["status"] = {"conditions": [APPROVED]}
    made = await client.ask("POST", PATH, asked)
    assert (made["spec"]["username"], made["spec"]["groups"]) == (ADMIN.name, list(ADMIN.groups))
    assert not made["status"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"request": "eA=="}, "spec.request"),
        ({"request": "not base64"}, "spec.request"),
        ({"usages": []}, "spec.usages"),
        ({"usages": ["client auth", "odd"]}, "spec.usages[1]"),
        ({"usages": ["client auth", "client auth"]}, "spec.usages[1]"),
        ({"signer": "nobody"}, "spec.signerName"),
        ({"signer": "nodots/x"}, "spec.signerName"),
        ({"signer": "kubernetes.io/legacy-unknown"}, "spec.signerName"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
    ],
)
async def test_a_request_is_checked(client: Client, spec: dict[str, Any], field: str) -> None:
    answer = await client.send("POST", PATH, csr(**spec))
    assert answer.status in (400, 422)
    assert field.encode() in answer.body


def odd_version() -> str:
    """Return a request that says it is of a version that there is not."""
    der = bytearray(x509.load_pem_x509_csr(base64.b64decode(REQUEST)).public_bytes(Encoding.DER))
    der[der.index(b"\x02\x01\x00") + 2] = 7
    text = base64.encodebytes(bytes(der)).decode()
    return base64.b64encode(
        f"-----BEGIN CERTIFICATE REQUEST-----\n{text}-----END CERTIFICATE REQUEST-----".encode()
    ).decode()


async def test_a_request_of_a_version_that_there_is_not_is_refused(client: Client) -> None:
    refused = await client.ask("POST", PATH, csr(request=odd_version()), code=422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec.request"]


async def test_nobody_gets_the_certificate_of_an_administrator(client: Client) -> None:
    refused = await client.ask("POST", PATH, csr(request=pem("x", "system:masters")), code=403)
    assert "system:masters group is not allowed" in refused["message"]


async def test_each_subresource_writes_its_own_part(client: Client) -> None:
    await client.ask("POST", PATH, csr())
    bare = {"status": {"conditions": [APPROVED]}}
    await client.ask("PATCH", f"{PATH}/c/status", bare, MERGE, code=422)
    body = {"status": {"conditions": [APPROVED]}, "spec": {"usages": ["any"]}, "metadata": {"labels": {"a": "b"}}}
    assert not (await client.ask("PATCH", f"{PATH}/c", {"status": body["status"]}, MERGE))["status"]
    refused = await client.ask("PATCH", f"{PATH}/c/status", body, MERGE, code=422)
    assert 'updates may not add a condition of type "Approved"' in refused["message"]
    done = await client.ask("PATCH", f"{PATH}/c/approval", body, MERGE)
    assert done["spec"]["usages"] == ["client auth"]
    assert done["metadata"]["labels"] == {"a": "b"}
    (condition,) = done["status"]["conditions"]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"]
    for conditions, says in (
        ([], "updates may not remove a condition"),
        ([APPROVED, {**APPROVED, "type": "Denied"}], "mutually exclusive"),
        ([{**APPROVED, "status": "False"}], "supported values"),
    ):
        refused = await client.ask(
            "PATCH", f"{PATH}/c/approval", {"status": {"conditions": conditions}}, MERGE, code=422
        )
        assert says in refused["message"]
    refused = await client.ask("PATCH", f"{PATH}/c/status", {"status": {"certificate": "eA=="}}, MERGE, code=422)
    assert "status.certificate" in refused["message"]


async def test_requests_are_selected_by_signer(client: Client) -> None:
    await client.ask("POST", PATH, csr())
    for signer, found in ((CLIENT, 1), (SERVING, 0)):
        listed = await client.ask("GET", PATH, fieldSelector=f"spec.signerName={signer}")
        assert len(listed["items"]) == found


async def test_who_approves_needs_the_right_to_the_signer() -> None:
    server, _ = open_server(VirtualClock(), Random(1), None, rbac=True, bootstrap=bootstrap.objects())
    admin, robot = Client(server), Client(server, User("robot", ("system:authenticated",)))
    await admin.ask("POST", PATH, csr())
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    approve = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"]}
    await admin.ask(
        "POST", f"{rbac}/clusterroles", {"metadata": {"name": "r"}, "rules": [{**approve, "verbs": ["patch"]}]}
    )
    for name, role in (("a", "r"), ("b", "system:certificates.k8s.io:kube-apiserver-client-approver")):
        body = {"status": {"conditions": [APPROVED]}}
        refused = await robot.ask("PATCH", f"{PATH}/c/approval", body, MERGE, code=403)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "robot"}],
        }
        await admin.ask("POST", f"{rbac}/clusterrolebindings", binding)
    assert f'user not permitted to approve requests with signerName "{CLIENT}"' in refused["message"]
    await robot.ask("PATCH", f"{PATH}/c/approval", body, MERGE)


def play(tmp_path: Path, story: Any) -> None:
    clock = VirtualClock()

    async def main() -> None:
        authority = CertificateAuthority(tmp_path, clock)
        server, _ = open_server(clock, Random(1), None, rbac=True, bootstrap=bootstrap.objects())
        cluster = LocalCluster(server, bootstrap.CONTROLLERS)
        manager = ControllerManager(
            cluster,
            Informers(cluster, clock, Random(2)),
            clock,
            Random(3),
            enabled=(CertificateController.name,),
            settings=ControllerSettings(signing_folder=tmp_path),
        )
        running = asyncio.ensure_future(manager.run())
        await asyncio.sleep(1)
        await story(Client(server), authority, clock)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(clock, main())


def issued(obj: Any) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(obj["status"]["certificate"]))


def test_what_is_approved_is_signed_and_names_the_user(tmp_path: Path) -> None:
    async def story(client: Client, authority: CertificateAuthority, clock: VirtualClock) -> None:
        await client.ask("POST", PATH, csr(request=pem("jane", "devs"), expirationSeconds=3600))
        await asyncio.sleep(5)
        assert "certificate" not in (await client.ask("GET", f"{PATH}/c"))["status"]
        await client.ask("PATCH", f"{PATH}/c/approval", {"status": {"conditions": [APPROVED]}}, MERGE)
        await asyncio.sleep(5)
        certificate = issued(await client.ask("GET", f"{PATH}/c"))
        with pytest.raises(x509.ExtensionNotFound):  # one that says nothing is refused by OpenSSL
            certificate.extensions.get_extension_for_class(x509.KeyUsage)
        user = authority.user_of(certificate.public_bytes(Encoding.DER))
        assert user == User("jane", ("devs", "system:authenticated"))
        left = certificate.not_valid_after_utc.timestamp() - clock.now()
        assert 3590 <= left <= 3600
        await asyncio.sleep(3700)  # decided an hour ago
        await client.ask("GET", f"{PATH}/c", code=404)

    play(tmp_path, story)


def test_what_waits_is_kept_for_a_day(tmp_path: Path) -> None:
    async def story(client: Client, _authority: CertificateAuthority, _clock: VirtualClock) -> None:
        await client.ask("POST", PATH, csr())
        await client.ask("POST", PATH, csr("other", signer="example.com/mine"))
        await asyncio.sleep(86000)
        assert len((await client.ask("GET", PATH))["items"]) == 2
        await asyncio.sleep(500)
        assert not (await client.ask("GET", PATH))["items"]

    play(tmp_path, story)


NODE_USAGES = ["digital signature", "client auth"]


@pytest.mark.parametrize(
    ("request_", "signer", "usages", "says"),
    [
        (pem(), CLIENT, ["server auth"], "invalid usage for client certificate: server auth"),
        (pem(), CLIENT, ["digital signature"], "missing required usage"),
        (pem("system:node:n"), KUBELET, NODE_USAGES, "subject organization is not system:nodes"),
        (pem("n", "system:nodes"), KUBELET, NODE_USAGES, "common name does not begin with system:node:"),
        (pem("system:node:n", "system:nodes", hosts=("a",)), KUBELET, NODE_USAGES, "DNS subjectAltNames"),
        (pem("system:node:n", "system:nodes"), SERVING, NODE_USAGES, "DNS or IP subjectAltName is required"),
        (pem("system:node:n", "system:nodes", hosts=("a",)), SERVING, NODE_USAGES, "usages did not match"),
        (pem("system:node:n", "system:nodes", hosts=("a",)), SERVING, ["digital signature", "server auth"], ""),
        (pem("system:node:n", "system:nodes"), KUBELET, NODE_USAGES, ""),
    ],
)
def test_each_signer_has_its_rules(tmp_path: Path, request_: str, signer: str, usages: list[str], says: str) -> None:
    async def story(client: Client, _authority: CertificateAuthority, _clock: VirtualClock) -> None:
        await client.ask("POST", PATH, csr(request=request_, signer=signer, usages=usages))
        conditions = {"status": {"conditions": [APPROVED]}}
        await client.ask("PATCH", f"{PATH}/c/approval", conditions, MERGE)
        await asyncio.sleep(5)
        status = (await client.ask("GET", f"{PATH}/c"))["status"]
        failed = [one["message"] for one in status["conditions"] if one["type"] == "Failed"]
        assert bool(failed) is bool(says)
        assert says in "".join(failed)
        assert ("certificate" in status) is (not says)
        if not says:
            purposes = issued({"status": status}).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            wanted = ExtendedKeyUsageOID.SERVER_AUTH if signer == SERVING else ExtendedKeyUsageOID.CLIENT_AUTH
            assert list(purposes) == [wanted]

    play(tmp_path, story)


def test_a_kubelets_request_is_approved_when_it_may_ask(tmp_path: Path) -> None:
    async def story(client: Client, _authority: CertificateAuthority, _clock: VirtualClock) -> None:
        request = pem("system:node:n", "system:nodes")
        await client.ask("POST", PATH, csr(request=request, signer=KUBELET, usages=NODE_USAGES))
        await asyncio.sleep(5)
        status = (await client.ask("GET", f"{PATH}/c"))["status"]
        assert [one["reason"] for one in status["conditions"]] == ["AutoApproved"]
        assert status["certificate"]

    play(tmp_path, story)
