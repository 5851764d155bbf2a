"""CertificateSigningRequests: write the requester into them, and check who may approve and sign them."""

from __future__ import annotations

from strato.api import catalog, certificates
from strato.api.status import forbidden, invalid
from strato.clock import format_time
from strato.server.path import Attributes
from strato.server.registry import Served
from strato.server.rest.pipeline import Draft
from strato.server.rest.rights import ANONYMOUS
from strato.server.rest.state import State

_MASTERS = "system:masters"


def concerns(_state: State, served: Served) -> bool:
    """Whether these steps apply to the kind."""
    return served.kind is catalog.CERTIFICATESIGNINGREQUEST


def begin(_state: State, draft: Draft) -> None:
    """Write the requesting user into a new CertificateSigningRequest.

    Raises:
        Forbidden: It requests a certificate of a cluster administrator (system:masters).
    """
    user, spec = draft.request.user or ANONYMOUS, draft.obj["spec"]
    for member in ("username", "uid", "groups", "extra"):
        spec.pop(member, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {name: list(values) for name, values in user.extra}
    if spec.get("signerName") != certificates.CLIENT:
        return
    from cryptography.x509.oid import NameOID  # validation has parsed the request already

    subject = certificates.parse_request(spec["request"]).subject
    if any(one.value == _MASTERS for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
        text = f"use of {certificates.CLIENT} signer with {_MASTERS} group is not allowed"
        raise forbidden(draft.served.kind, draft.obj["metadata"]["name"], text)


def change(state: State, draft: Draft) -> None:
    """Restore what this write may not change, and check the user's right to approve or sign for the signer.

    Raises:
        Forbidden: The user has no such right.
        Invalid: The write changes immutable fields.
    """
    old, obj, subresource = draft.old, draft.obj, draft.target.subresource
    assert old is not None
    causes = certificates.change(obj, old, subresource, format_time(state.clock.now()))
    if causes:
        raise invalid(draft.served.kind, draft.target.name, causes)
    changed = obj.get("status") != old.get("status")
    if subresource == "approval" or (subresource == "status" and changed):
        _check_signer(state, draft, "approve" if subresource == "approval" else "sign", old["spec"]["signerName"])


def _check_signer(state: State, draft: Draft, verb: str, signer: str) -> None:
    """Check the user's right to the signer, or to all signers of its domain."""
    user = draft.request.user or ANONYMOUS
    if state.authorizer is None:
        return
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        asked = Attributes(verb, catalog.CERTIFICATESIGNINGREQUEST.group, "signers", name=name)
        if state.authorizer.allows(user, asked):
            return
    text = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise forbidden(draft.served.kind, draft.target.name, text)
