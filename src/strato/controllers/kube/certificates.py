"""Certificate signing requests: approve those of kubelets for themselves, sign approved ones, delete old ones.

Source: ``pkg/controller/certificates`` of Kubernetes 1.36.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import ClassVar, Final

from strato.api import catalog, certificates
from strato.api.certificates import APPROVED, DENIED, FAILED, CertificateSigningRequest
from strato.api.meta import Key
from strato.client.cluster import Json
from strato.clock import format_time, parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.reconcile import KeyedController
from strato.errors import NotFound
from strato.pki import Authority

_SIGNERS: Final = frozenset((certificates.CLIENT, certificates.KUBELET_CLIENT, certificates.KUBELET_SERVING))
_DECIDED_SECONDS, _PENDING_SECONDS = 3600.0, 86400.0
"""How long requests are kept that were approved or denied, and those that are pending."""
_MOST_SECONDS: Final = 365 * 86400
_LEAST_SECONDS: Final = 600
_KIND = catalog.CERTIFICATESIGNINGREQUEST


class CertificateController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-certificate-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._folder = context.settings.signing_folder
        self._requests = context.informers.informer(CertificateSigningRequest)
        self._requests.add_handler(lambda change: self.queue.add(change.key))

    async def reconcile(self, key: Key) -> float | None:
        """Approve, sign or delete one request; returns the seconds until it is to be deleted."""
        request = self._requests.get(key)
        if request is None or request.metadata.deletion_timestamp is not None:
            return None
        try:
            left = ends_at(request) - self.clock.now()
            if left <= 0:
                await self._cluster.delete(_KIND.view, key.name, uid=request.metadata.uid)
                return None
            if not request.status.certificate and request.spec.signer_name in _SIGNERS:
                if not (request.has(APPROVED) or request.has(DENIED)):
                    await self._approve(request)
                elif request.has(APPROVED) and not request.has(FAILED) and self._folder is not None:
                    await self._sign(request, self._folder)
        except NotFound:
            return None
        return left

    async def _approve(self, request: CertificateSigningRequest) -> None:
        """Approve a kubelet's request for its own certificate if its user has the right to it."""
        spec = request.spec
        if spec.signer_name != certificates.KUBELET_CLIENT:
            return
        parsed = certificates.parse_request(spec.request)
        if certificates.signer_problem(parsed, spec.signer_name, spec.usages):
            return
        is_own = certificates.common_name(parsed) == spec.username
        tried = (("selfnodeclient", "self kubelet"),) if is_own else ()
        for subresource, words in (*tried, ("nodeclient", "kubelet")):
            if await self._may(request, subresource):
                condition = self._condition(
                    APPROVED, "AutoApproved", f"Auto approving {words} client certificate after SubjectAccessReview."
                )
                await self._write(request, "approval", {"conditions": [condition]})
                return

    async def _may(self, request: CertificateSigningRequest, subresource: str) -> bool:
        spec = request.spec
        wanted = {"group": _KIND.group, "resource": _KIND.plural, "verb": "create", "subresource": subresource}
        review = {
            "apiVersion": catalog.SUBJECTACCESSREVIEW.api_version,
            "kind": catalog.SUBJECTACCESSREVIEW.name,
            "spec": {"user": spec.username, "groups": list(spec.groups), "resourceAttributes": wanted},
        }
        answer: Json = await self._cluster.create(catalog.SUBJECTACCESSREVIEW, review)
        return bool(answer["status"]["allowed"])

    async def _sign(self, request: CertificateSigningRequest, folder: Path) -> None:
        spec = request.spec
        parsed = certificates.parse_request(spec.request)
        problem = certificates.signer_problem(parsed, spec.signer_name, spec.usages)
        if problem:
            kept = [self._condition(one.type, one.reason, one.message) for one in request.status.conditions]
            failed = self._condition(FAILED, "SignerValidationFailure", problem)
            await self._write(request, "status", {"conditions": [*kept, failed]})
            return
        authority = Authority.from_pem((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
        asked = spec.expiration_seconds if spec.expiration_seconds is not None else _MOST_SECONDS
        seconds = min(max(asked, _LEAST_SECONDS), _MOST_SECONDS)
        issued = authority.sign(parsed, spec.usages, now_seconds=self.clock.now(), seconds=seconds)
        await self._write(request, "status", {"certificate": base64.b64encode(issued).decode()})

    def _condition(self, type_: str, reason: str, message: str) -> Json:
        now = format_time(self.clock.now())
        return {"type": type_, "status": "True", "reason": reason, "message": message, "lastUpdateTime": now}

    async def _write(self, request: CertificateSigningRequest, subresource: str, status: Json) -> None:
        await self._cluster.patch(_KIND, request.metadata.name, "", {"status": status}, subresource=subresource)


def ends_at(request: CertificateSigningRequest) -> float:
    """Return when a request is to be deleted, in seconds since 1970: an hour after its decision, else after a day."""
    created = parse_time(request.metadata.creation_timestamp or format_time(0))
    decided = [
        parse_time(one.last_transition_time or request.metadata.creation_timestamp or format_time(0))
        for one in request.status.conditions
        if one.type in (APPROVED, DENIED, FAILED)
    ]
    waits = not decided or (request.has(APPROVED) and not request.status.certificate and not request.has(FAILED))
    return created + _PENDING_SECONDS if waits else max(decided) + _DECIDED_SECONDS
