"""AdmissionReview v1: reads the request, runs the chain, writes the response. Pure; the objects it reads are given."""

from __future__ import annotations

import base64
import copy

import msgspec

from strato.admission.chain import Chain
from strato.admission.request import AdmissionReader, AdmissionRequest, Denied
from strato.admission.webhook.difference import json_patch
from strato.admission.webhook.services import WebhookService
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.api.wire import User
from strato.decoding import UNDECODABLE
from strato.errors import ApiError, BadRequest

API_VERSION = "admission.k8s.io/v1"


class _Resource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""


class ReviewRequest(msgspec.Struct, rename="camel"):
    """The request of an AdmissionReview."""

    uid: str
    resource: _Resource
    operation: str
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)
    object: Json | None = None
    old_object: Json | None = None
    dry_run: bool | None = None


class _Review(msgspec.Struct):
    request: ReviewRequest


_decoder = msgspec.json.Decoder(_Review)


def read_review(body: bytes) -> ReviewRequest:
    """Decode the body of a webhook call.

    Raises:
        BadRequest: It is no AdmissionReview with a request.
    """
    try:
        return _decoder.decode(body).request
    except UNDECODABLE as error:
        raise BadRequest(f"the body is not an AdmissionReview: {error}") from error


def answer(service: WebhookService, chain: Chain, review: ReviewRequest, reader: AdmissionReader) -> Json:
    """Run a chain with this service's rules alone, and return the AdmissionReview with the response."""
    asked = _misdirected(service, review)
    if asked:
        return denial(review.uid, asked)
    request = _question(service, review)
    before = copy.deepcopy(request.object) if service.mutates else None
    try:
        if service.mutates:
            chain.mutate(request, reader)
        else:
            chain.validate(request, reader)
    except Denied as error:
        return denial(review.uid, error.explanation)
    except ApiError as error:
        return denial(review.uid, error.message)
    operations = json_patch(before, request.object) if service.mutates else []
    response: Json = {"uid": review.uid, "allowed": True}
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode()
    return _review(response)


def denial(uid: str, message: str) -> Json:
    """Return the AdmissionReview that refuses a request."""
    return _review({"uid": uid, "allowed": False, "status": {"status": "Failure", "message": message}})


def _review(response: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def kind_of(service: WebhookService, review: ReviewRequest) -> Kind | None:
    """Return which of a service's kinds a request is about; None if it is none of them."""
    asked = review.resource
    found = catalog.find(asked.group, asked.version, asked.resource)
    return found if found in service.kinds else None


def _misdirected(service: WebhookService, review: ReviewRequest) -> str:
    """Return why a request was sent to the wrong service, by a wrong webhook configuration, or ""."""
    if kind_of(service, review) is None:
        asked = review.resource
        found = f"{asked.group}/{asked.version}/{asked.resource}".lstrip("/")
        wanted = " or ".join(f"{kind.api_version}/{kind.plural}" for kind in service.kinds)
        return f"expect resource to be {wanted}, got {found}"
    if review.operation not in service.operations:
        return f"expect operation to be {' or '.join(service.operations)}, got {review.operation}"
    if review.object is None and review.operation != "DELETE":
        return "the request has no object"
    return ""


def _question(service: WebhookService, review: ReviewRequest) -> AdmissionRequest:
    stored = review.object if review.object is not None else review.old_object
    metadata = (stored or {}).get("metadata") or {}
    user = review.user_info
    return AdmissionRequest(
        review.operation,
        kind_of(service, review) or service.kind,
        review.namespace,
        # with generateName, only the object has the name
        review.name or metadata.get("name") or "",
        review.object,
        review.old_object,
        User(user.username, user.groups, user.uid),
        bool(review.dry_run),
        review.sub_resource,
    )
