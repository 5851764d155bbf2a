"""Make the ``AdmissionReview`` for a webhook, and read its answer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api.kinds import Kind
from strato.errors import ApiError, Cause
from strato.server.dynamicadmission.conditions import described
from strato.server.dynamicadmission.matching import Json

V1 = "admission.k8s.io/v1"
_VERSIONS = {"v1": V1, "v1beta1": "admission.k8s.io/v1beta1"}
_WARNINGS_MAX, _WARNING_CHARACTERS = 64, 1024
_ANNOTATIONS_MAX, _ANNOTATION_CHARACTERS = 64, 10 * 1024


class BadReview(Exception):
    """An answer is not an AdmissionReview for the question."""


class WebhookVerdict(NamedTuple):
    """A webhook's decision about a write."""

    allowed: bool
    patch: bytes = b""
    """A JSON patch; empty if it changes nothing."""
    result: Mapping[str, Any] = {}
    """The ``Status`` of a refusal; empty if the webhook gave none."""
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}


def question(
    version: str,
    uid: str,
    request: AdmissionRequest,
    matched: Kind,
    shown: tuple[Json | None, Json | None],
    options: Json | None,
) -> Json:
    """Return the AdmissionReview to send.

    Args:
        version: Version of the review, such as ``admission.k8s.io/v1``.
        uid: Id that the answer must repeat.
        request: The write.
        matched: The kind as which it matched.
        shown: The new and the old object in that kind's version.
        options: The operation's options.
    """
    asked = {"uid": uid, **described(request, matched)}
    asked["object"], asked["oldObject"] = shown
    asked["options"] = options
    return {"kind": "AdmissionReview", "apiVersion": version, "request": asked}


def version_for(accepted: Any) -> str:
    """Return the version of reviews for a webhook: the first in its list that we know.

    Raises:
        BadReview: We know none of them.
    """
    for one in accepted or ():
        if one in _VERSIONS:
            return _VERSIONS[one]
    raise BadReview("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def verdict(version: str, uid: str, answer: Any, *, mutates: bool) -> WebhookVerdict:
    """Return the decision in a decoded answer.

    Raises:
        BadReview: It is not an answer to this question.
    """
    response = answer.get("response") if isinstance(answer, dict) else None
    if not isinstance(response, dict):
        raise BadReview("webhook response was absent")
    if version == V1:
        if response.get("uid") != uid:
            raise BadReview(f'expected response.uid="{uid}", got "{_short(response.get("uid"))}"')
        found = answer.get("apiVersion"), answer.get("kind")
        if found != (V1, "AdmissionReview"):
            named = f"{_short(found[0])}, Kind={_short(found[1])}"
            raise BadReview(f"expected webhook response of {V1}, Kind=AdmissionReview, got {named}")
    allowed, result = response.get("allowed", False), response.get("status") or {}
    if not isinstance(allowed, bool):
        raise BadReview("response.allowed is not true or false")
    if not isinstance(result, dict):
        raise BadReview("response.status is not an object")
    patch = _patch(version, response, mutates=mutates)
    warnings, annotations = response.get("warnings") or [], response.get("auditAnnotations") or {}
    if not isinstance(warnings, list) or not all(isinstance(one, str) for one in warnings):
        raise BadReview("response.warnings is not a list of texts")
    if not isinstance(annotations, dict) or not all(isinstance(one, str) for one in annotations.values()):
        raise BadReview("response.auditAnnotations is not an object of texts")
    return WebhookVerdict(
        allowed,
        patch,
        result,
        tuple(" ".join(one[:_WARNING_CHARACTERS].split()) for one in warnings[:_WARNINGS_MAX]),
        {key: value[:_ANNOTATION_CHARACTERS] for key, value in list(annotations.items())[:_ANNOTATIONS_MAX]},
    )


def _patch(version: str, response: Json, *, mutates: bool) -> bytes:
    text, kind = response.get("patch") or "", response.get("patchType")
    if version == V1 and not mutates and (text or kind is not None):
        raise BadReview(f"validating webhook may not return response.{'patch' if text else 'patchType'}")
    if not text or not mutates:
        if version == V1 and kind is not None:
            raise BadReview("webhook returned response.patchType but not response.patch")
        return b""
    if version == V1 and kind is None:
        raise BadReview("webhook returned response.patch but not response.patchType")
    if kind not in (None, "JSONPatch"):
        raise BadReview(f'unsupported patch type "{_short(kind)}"')
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadReview(f"response.patch is not base64: {error}") from error


def refusal(webhook: str, result: Mapping[str, Any]) -> ApiError:
    """Return the error for a write that a webhook refuses."""
    denied = f'admission webhook "{webhook}" denied the request'
    message, reason, code = result.get("message"), result.get("reason"), result.get("code")
    if isinstance(message, str) and message:
        denied += f": {message}"
    elif isinstance(reason, str) and reason:
        denied += f": {reason}"
    else:
        denied += " without explanation"
    is_code = isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600
    details = result.get("details")
    details = details if isinstance(details, dict) else {}
    return ApiError(
        denied,
        reason=reason if isinstance(reason, str) else "",
        code=code if is_code else 400,
        causes=_causes(details.get("causes")),
        details={key: value for key in ("name", "group", "kind", "uid") if isinstance(value := details.get(key), str)},
    )


def _causes(written: Any) -> list[Cause]:
    try:
        found = msgspec.convert(written or [], list[dict[str, str]])
    except msgspec.ValidationError:
        return []
    return [Cause(one.get("reason", ""), one.get("message", ""), one.get("field", "")) for one in found[:64]]


def _short(value: Any) -> str:
    return str(value if value is not None else "")[:100]
