"""Record requests: `AuditedService` wraps the HTTP service, `AuditedHandler` the core for the cluster's own parts."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from strato.api.wire import Handler, Pushed, Request, Response, User
from strato.clock import Clock
from strato.errors import ApiError
from strato.http.headers import Head
from strato.http.service import HttpService
from strato.http.streaming import NotifyingStream
from strato.server.audit.events import AuditRecord, Body, base_of
from strato.server.audit.log import AuditLog
from strato.server.audit.policy import AuditLevel, AuditPolicy
from strato.server.bodies import is_json, read_body
from strato.server.path import Attributes, parse_path, verb_of
from strato.server.rest.rights import Authorizer, attributes_of

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_SMALL_BYTES = 64 << 10
"""Bodies up to this size are decoded again for the event, which holds the interpreter lock for less than 1 ms."""
_WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))


class Auditor:
    """Records requests."""

    def __init__(self, policy: AuditPolicy, log: AuditLog, clock: Clock, authorizer: Authorizer | None) -> None:
        self._policy, self._log, self._clock, self._authorizer = policy, log, clock, authorizer

    def begin(
        self,
        request: Request,
        *,
        address: str = "",
        impersonator: User | None = None,
        authenticated: bool = True,
        decided: bool = True,
    ) -> AuditRecord | None:
        """Record that a request was received; None if the policy records nothing of it.

        Args:
            request: The request, with the impersonated user if there is one.
            address: The client's address.
            impersonator: The authenticated user who impersonates that user.
            authenticated: Whether authentication succeeded.
            decided: Whether the request reaches authorization; otherwise it was refused before.
        """
        asked, version = _asked(request)
        user = (impersonator or request.user) if authenticated else None
        decision = self._policy.decide(user, asked)
        if decision.level == AuditLevel.NONE:
            return None
        annotations: dict[str, str] = {}
        if decided and self._authorizer is not None and request.user is not None:
            allowed = self._authorizer.allows(request.user, asked)
            annotations["authorization.k8s.io/decision"] = "allow" if allowed else "forbid"
            annotations["authorization.k8s.io/reason"] = self._authorizer.reason(request.user, asked)
        acts_as = request.user if impersonator is not None and decided else None
        base = base_of(request.path, request.query, request.headers, address, user, acts_as, asked, version)
        audit_id = request.headers.get("audit-id", "")
        if not _ID.fullmatch(audit_id):
            audit_id = str(uuid.uuid4())
        record = AuditRecord(self._clock, audit_id, decision.level, decision.omitted, asked, base, annotations)
        has_body = request.body and request.method in _WRITES and "content-encoding" not in request.headers
        if decision.level == AuditLevel.REQUEST and has_body:
            record.body = Body(request.body, request.headers.get("content-type", ""))
        self._put(record.event("RequestReceived"))
        return record

    def finish(self, record: AuditRecord, response: Response) -> Response:
        """Record a request's outcome; return the answer with the Audit-Id header."""
        response.headers = {**response.headers, "Audit-Id": record.audit_id}
        if response.session is not None:
            self._put(record.event("ResponseStarted", response.status))
            response.session.when_ended(lambda: self._put(record.event("ResponseComplete", 101)))
            return response
        if response.stream is None:
            self._put(record.event("ResponseComplete", response.status, response.body))
            return response
        self._put(record.event("ResponseStarted", response.status))
        status = response.status

        def ended() -> None:
            self._put(record.event("ResponseComplete", status))

        stream = response.stream
        response.stream = _PushedStream(stream, ended) if isinstance(stream, Pushed) else NotifyingStream(stream, ended)
        return response

    def _put(self, event: dict[str, Any] | None) -> None:
        if event is not None:
            self._log.put(event)


def _asked(request: Request) -> tuple[Attributes, str]:
    """Return a request's attributes, and the API version in its path."""
    target = parse_path(request.path)
    if target is None:
        return Attributes(request.method.lower(), path=request.path), ""
    verb = verb_of(request.method, bool(target.name), not target.name and request.flag("watch"))
    return attributes_of(request, verb, target), target.version


class AuditedService(HttpService):
    """Records HTTP requests, also those that are refused before they reach the core."""

    def __init__(self, service: HttpService, auditor: Auditor) -> None:
        self._service, self._auditor = service, auditor

    def admit(self, head: Head) -> User:
        """Return the user, and record the request if that fails."""
        try:
            return self._service.admit(head)
        except ApiError as error:
            known = head.impersonator is not None
            request = Request(head.method, head.path, head.query, head.headers, b"", head.impersonator)
            record = self._auditor.begin(request, address=head.address, authenticated=known, decided=False)
            if record is not None:
                self._auditor.finish(record, self._service.refusal(error))
            raise

    def answer(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        """Answer a request, and record it."""
        auditor = self._auditor
        request = Request(head.method, head.path, head.query, head.headers, body, user)
        record = auditor.begin(request, address=head.address, impersonator=head.impersonator)
        if record is None:
            return self._service.answer(head, user, body, answered)
        head.annotations = record.annotations
        later = self._service.answer(head, user, body, lambda response: answered(auditor.finish(record, response)))
        return None if later is None else _finished(auditor, record, later)

    def refusal(self, error: ApiError) -> Response:
        """Return an answer with the error as a ``Status``."""
        return self._service.refusal(error)

    def refused(self, head: Head, user: User, response: Response) -> Response:
        """Record a request that does not reach `answer`."""
        request = Request(head.method, head.path, head.query, head.headers, b"", user)
        record = self._auditor.begin(request, address=head.address, impersonator=head.impersonator)
        return response if record is None else self._auditor.finish(record, response)


class AuditedHandler(Handler):
    """Records requests of the cluster's own parts, which do not use HTTP."""

    def __init__(self, handler: Handler, auditor: Auditor) -> None:
        self._handler, self._auditor = handler, auditor

    async def handle(self, request: Request) -> Response:
        """Answer one request, and record it."""
        record = self._begin(request)
        later = self._handler.handle(request)
        return await later if record is None else await _finished(self._auditor, record, later)

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Answer writes, which are begun in order, and record each."""
        records = [self._begin(request) for request in requests]
        responses = await self._handler.handle_all(requests)
        for record, response in zip(records, responses, strict=True):
            if record is not None:
                self._auditor.finish(record, response)
        return responses

    def _begin(self, request: Request) -> AuditRecord | None:
        record = self._auditor.begin(request)
        if record is not None:
            request.annotations = record.annotations
        return record


async def _finished(auditor: Auditor, record: AuditRecord, later: Awaitable[Response]) -> Response:
    return auditor.finish(record, await later)


class _PushedStream(NotifyingStream):
    """A `NotifyingStream` of a stream that is `Pushed` too."""

    _stream: Any

    @property
    def ended(self) -> bool:
        """Whether the stream has ended."""
        return bool(self._stream.ended)

    def listen(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` when there is a chunk to take."""
        self._stream.listen(ready)

    def take(self) -> bytes:
        """Return the next chunk."""
        return bytes(self._stream.take())

    def close(self) -> None:
        """Close the stream, and record its end."""
        self._notify()
        self._stream.close()


def decode(body: Body) -> Any:
    """Return a request's body as an object; None if it cannot be decoded, or that would take too long.

    The text of large JSON that the server has decoded without an error goes into the event unchanged.
    """
    if len(body.data) > _SMALL_BYTES:
        if not (body.is_accepted and is_json(body.content_type)):
            return None
        return msgspec.Raw(body.data.replace(b"\n", b" ").replace(b"\r", b" "))
    try:
        return read_body(body.data, body.content_type)
    except (ApiError, msgspec.MsgspecError, RecursionError):
        return None


__all__ = ["AuditedHandler", "AuditedService", "Auditor", "decode"]
