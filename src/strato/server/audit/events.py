"""The audit events of one request. Of its headers only User-Agent is recorded; tokens in the query are masked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from strato.api.meta import Json
from strato.api.wire import User
from strato.clock import Clock, format_micro_time
from strato.server.audit.policy import AuditLevel
from strato.server.path import Attributes

_AGENT_CHARS = 1024
_MASKED = re.compile("token|secret|password|authorization|bearer", re.IGNORECASE)
"""Names of query parameters whose values are not recorded."""


class Body(NamedTuple):
    """A request's body, which the log's thread decodes for the event."""

    data: bytes
    content_type: str
    is_accepted: bool = False
    """Whether the server has decoded it without an error."""


class AuditRecord:
    """The events of one request, while it is being answered.

    Args:
        clock: Gives the events' times.
        audit_id: The request's id in its events.
        level: How much is recorded.
        asked: The request's attributes.
        annotations: Added by authorization and admission, until the answer.
    """

    __slots__ = ("_base", "_clock", "_received", "annotations", "asked", "audit_id", "body", "level", "omitted")

    def __init__(
        self,
        clock: Clock,
        audit_id: str,
        level: AuditLevel,
        omitted: frozenset[str],
        asked: Attributes,
        base: Json,
        annotations: dict[str, str],
    ) -> None:
        self._clock, self.audit_id, self.level, self.omitted, self.asked = clock, audit_id, level, omitted, asked
        self._base, self.annotations = base, annotations
        self._received = format_micro_time(clock.now())
        self.body: Body | None = None

    def event(self, stage: str, status: int = 0, answer: bytes = b"") -> Json | None:
        """Return the event of a stage; None if the policy omits that stage.

        Args:
            stage: Its name.
            status: The answer's code, once there is one.
            answer: The body of the answer: of an error, or the created object.
        """
        if stage in self.omitted:
            return None
        event: Json = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Request" if self.level == AuditLevel.REQUEST else "Metadata",
            "auditID": self.audit_id,
            "stage": stage,
            **self._base,
        }
        if status:
            event["responseStatus"] = {"metadata": {}, "code": status}
            if answer:
                self._add_answer(event, status, answer)
            if self.body is not None:
                event["requestObject"] = self.body._replace(is_accepted=status < 400)
        event["requestReceivedTimestamp"] = self._received
        event["stageTimestamp"] = format_micro_time(self._clock.now())
        if self.annotations and status:
            event["annotations"] = dict(self.annotations)
        return event

    def _add_answer(self, event: Json, status: int, answer: bytes) -> None:
        """Add the reason of a refusal, or the name of the created object."""
        try:
            if status >= 400:
                refused = _read_status(answer)
                event["responseStatus"] |= {"status": "Failure", "reason": refused.reason}
                # an error's message may quote the secret
                if self.asked.resource not in ("secrets", "configmaps", "tokenreviews"):
                    event["responseStatus"]["message"] = refused.message
            elif self.asked.verb == "create" and "objectRef" in event:
                made = _read_made(answer).metadata
                if made.name and not self.asked.name:
                    event["objectRef"] = {**event["objectRef"], "name": made.name, "uid": made.uid}
        except msgspec.MsgspecError:
            return


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Made(msgspec.Struct):
    class Metadata(msgspec.Struct):
        name: str = ""
        uid: str = ""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


_read_status = msgspec.json.Decoder(_Status).decode
_read_made = msgspec.json.Decoder(_Made).decode


def base_of(
    path: str,
    query: Mapping[str, Sequence[str]],
    headers: Mapping[str, str],
    address: str,
    user: User | None,
    acts_as: User | None,
    asked: Attributes,
    version: str,
) -> Json:
    """Return the members that all events of a request have in common.

    Args:
        path: The request's path.
        query: Its parameters.
        headers: By name in lower case.
        address: The client's address; empty for a part of the cluster itself.
        user: The authenticated user; None if authentication failed.
        acts_as: The impersonated user, if there is one.
        asked: The request's attributes.
        version: The API version in the path; empty for a non-resource path.
    """
    agent = headers.get("user-agent", "")
    base: Json = {
        "requestURI": _uri(path, query),
        "verb": asked.verb,
        "user": _user(user) if user is not None else {},
        **({"impersonatedUser": _user(acts_as)} if acts_as is not None else {}),
        "sourceIPs": _addresses(headers, address),
        "userAgent": agent if len(agent) <= _AGENT_CHARS else f"{agent[:_AGENT_CHARS]}...TRUNCATED",
    }
    if not asked.path:
        reference = {
            "resource": asked.resource,
            "namespace": asked.namespace,
            "name": asked.name,
            "apiGroup": asked.group,
            "apiVersion": version,
            "subresource": asked.subresource,
        }
        base["objectRef"] = {member: value for member, value in reference.items() if value}
    return base


def _uri(path: str, query: Mapping[str, Sequence[str]]) -> str:
    pairs = [(key, "MASKED" if _MASKED.search(key) else value) for key, values in query.items() for value in values]
    return quote(path) + (f"?{urlencode(pairs)}" if pairs else "")


def _user(user: User) -> Json:
    return {
        "username": user.name,
        **({"uid": user.uid} if user.uid else {}),
        "groups": list(user.groups),
        **({"extra": {key: list(values) for key, values in user.extra}} if user.extra else {}),
    }


def _addresses(headers: Mapping[str, str], address: str) -> list[str]:
    """Return a request's source addresses: those in headers of proxies, then that of the connection."""
    forwarded = [*headers.get("x-forwarded-for", "").split(","), headers.get("x-real-ip", "")]
    found = []
    for text in (*forwarded, address or "127.0.0.1"):
        try:
            one = str(ipaddress.ip_address(text.strip()))
        except ValueError:
            continue
        if one not in found:
            found.append(one)
    return found
