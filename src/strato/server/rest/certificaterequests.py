"""CertificateSigningRequests: who asked is written by the server, and who may approve and sign is checked here."""

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
    """Whether the kind is theirs."""
    return served.kind is catalog.CERTIFICATESIGNINGREQUEST


def begin(_state: State, draft: Draft) -> None:
    """Write who asks into a new request.

    Raises:
        Forbidden: It asks for the certificate of a cluster's administrator.
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
    from cryptography.x509.oid import NameOID  # parsed before, by validation

    subject = certificates.parse_request(spec["request"]).subject
    if any(one.value == _MASTERS for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
        text = f"use of {certificates.CLIENT} signer with {_MASTERS} group is not allowed"
        raise forbidden(draft.served.kind, draft.obj["metadata"]["name"], text)


def change(state: State, draft: Draft) -> None:
    """Keep what a write may not change, and ask whether the user may approve or sign for the signer.

    Raises:
        Forbidden: It may not.
        Invalid: It changes what it may not.
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
    """Ask for the right to the signer, or to all of its domain."""
    user = draft.request.user or ANONYMOUS
    if state.authorizer is None:
        return
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        asked = Attributes(verb, catalog.CERTIFICATESIGNINGREQUEST.group, "signers", name=name)
        if state.authorizer.allows(user, asked):
            return
    text = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise forbidden(draft.served.kind, draft.target.name, text)
