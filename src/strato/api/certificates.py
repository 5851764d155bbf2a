"""Certificate signing requests: their validation, and the requirements of Kubernetes' signers.

Source: ``pkg/apis/certificates`` and ``pkg/controller/certificates`` of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from strato.api import names
from strato.api.meta import Condition, Json, Object, View
from strato.api.status import duplicate, forbidden_field, invalid_value, not_supported, required
from strato.errors import Cause

if TYPE_CHECKING:
    from cryptography import x509

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_FINAL: Final = (APPROVED, DENIED, FAILED)
_SHORTEST_SECONDS: Final = 600
_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----")


class CertificateSigningRequestSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    request: str = ""
    """Base64 of the PEM text."""
    signer_name: str = ""
    expiration_seconds: int | None = None
    usages: tuple[str, ...] = ()
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class CertificateSigningRequestStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[Condition, ...] = ()
    certificate: str = ""
    """Base64 of PEM text; empty until it is issued."""


class CertificateSigningRequest(Object, frozen=True, kw_only=True):
    """A request for a certificate."""

    spec: CertificateSigningRequestSpec = CertificateSigningRequestSpec()
    status: CertificateSigningRequestStatus = CertificateSigningRequestStatus()

    def has(self, condition: str) -> bool:
        """Return whether a condition holds."""
        return any(one.type == condition and one.status == "True" for one in self.status.conditions)


def parse_request(text: str) -> x509.CertificateSigningRequest:
    """Read a request (base64 of PEM).

    Raises:
        ValueError: The text is no request, or its signature was not made with its key.
    """
    import base64  # imported here, because few processes read requests

    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        pem = base64.b64decode(text, validate=True)
    except ValueError:
        pem = b""
    found = _BLOCK.search(pem.decode("ascii", "replace"))
    if found is None or found[1] != "CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(pem)
        _, _ = request.subject, request.extensions  # decodes them, so that later reads cannot fail
        if request.is_signature_valid:
            return request
    except (UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension, TypeError, ValueError) as error:
        raise ValueError(str(error)) from error
    raise ValueError("the signature is not that of the key in the request")


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Return the requested common name; the last one if there are several, as with certificates."""
    from cryptography.x509.oid import NameOID

    return "".join(str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[-1:])


def _certificate_problem(text: str) -> str:
    import base64

    from cryptography import x509

    try:
        pem = base64.b64decode(text, validate=True)
        for block in _BLOCK.findall(pem.decode("ascii", "replace")):
            if block != "CERTIFICATE":
                return f'only CERTIFICATE PEM blocks are allowed, found "{block}"'
        if not x509.load_pem_x509_certificates(pem):
            return "must contain at least one CERTIFICATE PEM block"
    except (ValueError, x509.InvalidVersion) as error:
        return str(error)
    return ""


def validate(obj: Json) -> list[Cause]:
    """Check a request, new or changed."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    try:
        parse_request(spec.get("request") or "")
    except ValueError as error:
        causes.append(invalid_value("spec.request", spec.get("request"), str(error)))
    usages = spec.get("usages") or ()
    if not usages:
        causes.append(required("spec.usages"))
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            causes.append(not_supported(f"spec.usages[{index}]", usage, _USAGES))
        if usage in usages[:index]:
            causes.append(duplicate(f"spec.usages[{index}]", usage))
    causes += _signer_problems(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST_SECONDS:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid_value("spec.expirationSeconds", seconds, text))
    return causes


def _signer_problems(name: str) -> list[Cause]:
    field = "spec.signerName"
    if not name:
        return [required(field)]
    if name == _LEGACY:
        return [invalid_value(field, name, "the legacy signerName is not allowed via this API version")]
    domain, slash, path = name.partition("/")
    if not slash or "/" in path:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid_value(field, name, text)]
    problems = [*names.check_subdomain(domain), *names.check_subdomain(path)]
    if "." not in domain:
        problems.append("should be a domain with at least two segments separated by dots")
    return [invalid_value(field, name, text) for text in problems]


def _condition_problems(conditions: Sequence[Json]) -> list[Cause]:
    causes: list[Cause] = []
    types = [one.get("type") or "" for one in conditions]
    for index, one in enumerate(conditions):
        field, type_ = f"status.conditions[{index}]", types[index]
        if not type_:
            causes.append(required(f"{field}.type"))
        allowed = ("True",) if type_ in _FINAL else ("False", "True", "Unknown")
        if not one.get("status"):
            causes.append(required(f"{field}.status"))
        elif one["status"] not in allowed:
            causes.append(not_supported(f"{field}.status", one["status"], allowed))
        if type_ in types[:index]:
            causes.append(duplicate(f"{field}.type", type_))
    if APPROVED in types and DENIED in types:
        last = max(APPROVED, DENIED, key=types.index)
        text = "Approved and Denied conditions are mutually exclusive"
        causes.append(invalid_value("status.conditions", last, text))
    return causes


def change(obj: Json, old: Json, subresource: str, now: str) -> list[Cause]:
    """Reset the members that a write may not change, in place, and return the causes for forbidden changes.

    The spec never changes. ``approval`` writes conditions; ``status`` writes conditions other than approval and denial,
    and the certificate, once.
    """
    obj["spec"], before = old["spec"], old.get("status") or {}
    if not subresource:
        obj["status"] = before
        return []
    status = dict(obj.get("status") or {})
    conditions = [dict(one) for one in status.get("conditions") or ()]
    known = {one.get("type"): one for one in before.get("conditions") or ()}
    for one in conditions:
        former = known.get(one.get("type"), {})
        if subresource == "status" and one.get("type") in (APPROVED, DENIED) and former:
            one.clear()
            one.update(former)
        if not one.get("lastUpdateTime"):
            one["lastUpdateTime"] = now
        if not one.get("lastTransitionTime"):
            same = former.get("status") == one.get("status") and former.get("lastTransitionTime")
            one["lastTransitionTime"] = same or now
    obj["status"] = {**(before if subresource == "approval" else status), "conditions": conditions}
    if not conditions:
        del obj["status"]["conditions"]
    types = {one.get("type") for one in conditions}
    field, causes = "status.conditions", _condition_problems(conditions)
    for type_ in _FINAL:
        if type_ in known and type_ not in types:
            causes.append(forbidden_field(field, f'updates may not remove a condition of type "{type_}"'))
        elif subresource == "status" and type_ != FAILED and type_ in types and type_ not in known:
            causes.append(forbidden_field(field, f'updates may not add a condition of type "{type_}"'))
    issued = before.get("certificate")
    if issued and obj["status"].get("certificate") != issued:
        text = "updates may not modify existing certificate content"
        causes.append(forbidden_field("status.certificate", text))
    elif not issued and obj["status"].get("certificate"):
        problem = _certificate_problem(obj["status"]["certificate"])
        causes += [invalid_value("status.certificate", "<certificate data>", problem)] if problem else []
    return causes


@cache
def _kubelet_usages(purpose: str) -> tuple[Collection[str], ...]:
    return {"digital signature", purpose}, {"digital signature", "key encipherment", purpose}


def signer_problem(request: x509.CertificateSigningRequest, signer: str, usages: Collection[str]) -> str:
    """Return why one of Kubernetes' signers does not sign a request; empty when it does."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    if signer == CLIENT:
        for usage in usages:
            if usage not in ("client auth", "digital signature", "key encipherment"):
                return f"invalid usage for client certificate: {usage}"
        return "" if "client auth" in usages else "missing required usage for client certificate: client auth"
    subject = request.subject
    if [one.value for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] != ["system:nodes"]:
        return "subject organization is not system:nodes"
    try:
        alternatives = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = x509.SubjectAlternativeName([])
    kinds = {type(one) for one in alternatives}
    serves = signer == KUBELET_SERVING
    if serves and not kinds & {x509.DNSName, x509.IPAddress}:
        return "DNS or IP subjectAltName is required"
    allowed = {x509.DNSName, x509.IPAddress} if serves else set()
    for kind, word in (
        (x509.DNSName, "DNS"),
        (x509.RFC822Name, "Email"),
        (x509.IPAddress, "IP"),
        (x509.UniformResourceIdentifier, "URI"),
    ):
        if kind in kinds - allowed:
            return f"{word} subjectAltNames are not allowed"
    if not common_name(request).startswith("system:node:"):
        return "subject common name does not begin with system:node:"
    accepted = _kubelet_usages("server auth" if serves else "client auth")
    return "" if set(usages) in accepted else f"usages did not match [{' '.join(sorted(accepted[1]))}]"
