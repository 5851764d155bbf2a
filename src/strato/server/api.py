"""`ApiServer`: the embedded Kubernetes API, a plain function from request to response over the store.

HTTP and the in-process client both call `handle`. It authorises, finds the resource and hands over to the verbs in
`strato.server.rest`. Nothing here knows a transport.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from strato.api import catalog
from strato.api.status import method_not_supported, not_found, to_status
from strato.api.wire import Handler, Request, Response, User
from strato.clock import Clock
from strato.errors import ApiError, BadRequest, InternalError, MethodNotAllowed, NotFound
from strato.metrics import Registry as Metrics
from strato.metrics import Sample
from strato.server import podsubresources
from strato.server.conversion import Conversions
from strato.server.crd import CustomKinds
from strato.server.flowcontrol.control import FlowControl
from strato.server.logs import LogSource
from strato.server.path import Attributes, ResourcePath, parse_path, verb_of
from strato.server.preparation import encode
from strato.server.registry import Registry, Served
from strato.server.rest.binding import Binder
from strato.server.rest.delete import Deleter
from strato.server.rest.evict import Evictor
from strato.server.rest.logs import PodLogs
from strato.server.rest.proxy import Proxy
from strato.server.rest.read import Reader
from strato.server.rest.representations import wanted
from strato.server.rest.reviews import Reviews
from strato.server.rest.rights import ANONYMOUS, Authorizer, WriteRights, attributes_of, authorize
from strato.server.rest.scale import Scale
from strato.server.rest.state import Admission, AdmitAll, State
from strato.server.rest.streams import PodStreams
from strato.server.rest.tokens import TokenRequests, Tokens
from strato.server.rest.usage import MetricsReader, UsageSource
from strato.server.rest.write import Writer
from strato.server.routes import Action, Routes
from strato.server.store import Store
from strato.server.streams import StreamSource

_log = logging.getLogger(__name__)

_READING = frozenset(("GET", "HEAD"))
_NAMESPACED_VERBS = frozenset(("create", "deletecollection"))
"""What is done in one namespace only: a bulk delete never reaches over all of them."""
_OBJECT_VERBS = frozenset(("get", "update", "patch", "delete"))
"""What is done to one object, and needs its name; the other verbs must not have one."""
_TOGETHER = 64
"""Creations of one batch that wait for webhooks at the same time."""
_STREAMS = frozenset(("attach", "exec", "portforward"))
"""Subresources of pods that lead to their processes."""
_RAW = _STREAMS | {"log", "proxy", "scale"}
"""Subresources whose answers are not objects of the kind."""
_PARTS = podsubresources.ALL | {"approval"}
"""Subresources that are the whole object, of which a write takes a part."""
_NOT_ALLOWED = "the server does not allow this method on the requested resource"


class Pages(Protocol):
    """Something that answers some paths: discovery, OpenAPI."""

    def handle(self, request: Request) -> Response | Awaitable[Response] | None:
        """Answer, or None when the path is not its own."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what; by default everybody everything."""

    authorizer: Authorizer | None = None
    """None allows everything."""
    write_rights: Callable[[State], WriteRights] | None = None
    """What the rights of a user let it write; None allows every write."""
    tokens: Tokens | None = None
    """Reviews tokens and issues those of service accounts; None knows none."""


class ApiServer(Handler):
    """The server's core.

    Args:
        registry: What is served; custom kinds found in the store are added.
        admission: Mutates and validates what users submit; None admits everything.
        flows: Shares the loop among those who ask; None counts slices instead of measuring them.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: random.Random,
        *,
        registry: Registry | None = None,
        admission: Admission | None = None,
        access: Access | None = None,
        flows: FlowControl | None = None,
        memoises: bool = True,
    ) -> None:
        self.store = store
        self.registry = registry if registry is not None else Registry()
        access = access if access is not None else Access()
        self.authorizer = authorizer = access.authorizer
        self.pages: tuple[Pages, ...] = ()
        """Discovery, OpenAPI and what else has paths of its own."""
        self.state = State(store, clock, rng, self.registry, admission or AdmitAll(), flows, memoises=memoises)
        self.state.authorizer = authorizer
        if access.write_rights is not None:
            self.state.rights = access.write_rights(self.state)
        self._reader = Reader(self.state)
        self._writer = Writer(self.state)
        self._deleter = Deleter(self.state, self._reader)
        self._evictor = Evictor(self.state, self._deleter)
        self._binder = Binder(self.state)
        self._scale = Scale(self.state, self._writer)
        self._logs = PodLogs(self.state, None)
        self._streams = PodStreams(self.state)
        self._proxy = Proxy(self.state, self._streams)
        self._conversions = Conversions(self.state)
        self._custom = CustomKinds(self.state, self._deleter)
        self._metrics = MetricsReader(self.state)
        self._reviews = Reviews(authorizer, access.tokens)
        self._tokens = TokenRequests(self.state, access.tokens)
        if access.tokens is not None:
            access.tokens.use_objects(self.state.latest)
        self._pods = Served(catalog.POD)
        self._verbs: Mapping[str, Action] = {
            "get": self._reader.get,
            "list": self._reader.list,
            "watch": self._reader.watch,
            "create": self._writer.create,
            "update": self._writer.update,
            "patch": self._writer.patch,
            "delete": self._deleter.delete,
            "deletecollection": self._deleter.delete_collection,
        }
        self._pod_verbs: Mapping[tuple[str, str], Action] = {
            ("create", "binding"): self._binder.bind,
            ("get", "log"): self._logs.read,
            ("create", "eviction"): self._evictor.evict,
            **{(verb, sub): self._streams.connect for verb in ("get", "create") for sub in _STREAMS},
        }
        self._routes = Routes()
        self._counts: dict[tuple[str, str, str, int], int] = {}

    def report_to(self, metrics: Metrics) -> None:
        """Count requests, and what they wait for, in ``metrics``."""
        metrics.collect(self._collect)
        metrics.collect(self.state.flows.collect)

    def use_logs(self, source: LogSource) -> None:
        """Serve pod logs from ``source`` from now on."""
        self._logs.source = source

    def use_streams(self, source: StreamSource) -> None:
        """Serve the streams of pods from ``source`` from now on."""
        self._streams.source = source

    def use_metrics(self, source: UsageSource) -> None:
        """Serve what the pods of this machine use, as measured by ``source``, from now on."""
        self._metrics.source = source

    def add_pages(self, *pages: Pages) -> None:
        """Serve further paths from now on."""
        self.pages = (*self.pages, *pages)

    async def handle(self, request: Request) -> Response:
        """Answer one request; every error becomes a ``Status``.

        A crash could roll back a write until it is durable: here, and only here, answers wait for the disk. An
        uncommitted read waits before it reads instead, to find every write that was acknowledged.
        """
        if request.uncommitted and request.method in _READING:
            failure = await self.store.wait_durable()
            if failure is not None:
                return error_response(failure)
        return await self._after_commit(request, self._answer(request))

    async def _after_commit(self, request: Request, answer: Response | Awaitable[Response]) -> Response:
        response = answer if isinstance(answer, Response) else await self._awaited(request, answer)
        if _holds(request, response):
            return response
        return _held(response, await self.store.wait_durable())

    def start(self, request: Request, answered: Callable[[Response], None]) -> Awaitable[Response] | None:
        """Answer one request as `handle` does, by calling ``answered``; return what has to be awaited instead."""
        if request.uncommitted:
            return self.handle(request)
        response = self._answer(request)
        if not isinstance(response, Response):
            return self._after_commit(request, response)
        if _holds(request, response):
            answered(response)
        else:
            self.store.when_durable(lambda failure: answered(_held(response, failure)))
        return None

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Answer writes in order; those that wait for the disk wait for it once.

        Creations that take long, since webhooks are asked, are begun in order and waited for together.
        """
        answers: list[Response | asyncio.Task[Response]] = []
        begun = 0
        try:
            for request in requests:
                # one that does not create may be about what one before it creates
                if begun and (request.method != "POST" or begun == _TOGETHER):
                    await _all_ended(answers)
                    begun = 0
                answer = self._answer(request)
                if not isinstance(answer, Response):
                    answer = asyncio.ensure_future(self._whole(request, answer))
                    begun += 1
                answers.append(answer)
            await _all_ended(answers)
        finally:
            for answer in answers:
                if not isinstance(answer, Response):
                    answer.cancel()
        responses = [answer if isinstance(answer, Response) else answer.result() for answer in answers]
        if all(request.uncommitted for request in requests):
            return responses
        failure = await self.store.wait_durable()
        if failure is None:
            return responses
        return [_held(response, failure) for response in responses]

    async def _whole(self, request: Request, answer: Awaitable[Response]) -> Response:
        """Return the answer to a write that takes long, in one piece."""
        response = await self._awaited(request, answer)
        if response.stream is None:
            return response
        body = b"".join([chunk async for chunk in response.stream])
        return Response(response.status, body, response.content_type, response.headers)

    def write(self, request: Request) -> Response:
        """Carry out a request that may write; its response is valid once the write is durable."""
        answer = self._answer(request)
        assert isinstance(answer, Response), "only what is read from elsewhere is waited for"
        return answer

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request, and count it; a log that lies elsewhere is still to be waited for."""
        verb = resource = subresource = ""
        answer: Response | Awaitable[Response]
        try:
            found = None if request.method in _READING else self._known_routes().find(request)
            if found is not None:
                route, name = found
                verb, served = route.verb, route.served
                resource, subresource = served.kind.plural, route.subresource
                target = ResourcePath(route.group, route.version, route.plural, route.namespace, name, subresource)
                answer = route.action(request, target, served)
            else:
                path = parse_path(request.path)
                if path is None:
                    answer = self._page(request)
                else:
                    # a single object is read, whatever it is asked for; selectors watch one
                    is_watch = not path.name and request.flag("watch")
                    verb = verb_of(request.method, bool(path.name), is_watch)
                    if self.authorizer is not None:
                        authorize(self.authorizer, request.user or ANONYMOUS, attributes_of(request, verb, path))
                    served_there = self.registry.find(path.group, path.version, path.plural)
                    if served_there is None or (path.namespace and not served_there.kind.namespaced):
                        verb = ""
                        raise NotFound("the server could not find the requested resource")
                    resource = served_there.kind.plural
                    if request.method == "HEAD" and path.subresource != "proxy":  # Kubernetes has routes for GET alone
                        raise MethodNotAllowed(_NOT_ALLOWED)
                    action = self._action(path, served_there, verb)
                    if served_there.versions is not None and served_there.versions.webhook is not None:
                        action = self._conversions.around(action)
                    subresource = path.subresource  # one that there is
                    if subresource not in _RAW and "accept" in request.headers:
                        wanted(request, served_there, has_table=not self._reviews.answers(served_there.kind))
                    self._note(request, path, served_there, verb, action)
                    answer = action(request, path, served_there)
        except Exception as error:
            answer = _failure(request, error)
        key = (verb, resource, subresource, answer.status if isinstance(answer, Response) else 200)
        self._counts[key] = self._counts.get(key, 0) + 1
        return answer

    def _known_routes(self) -> Routes:
        """Return the routes that hold now."""
        routes = self._routes
        roles = 0 if self.authorizer is None else self.authorizer.revision
        if routes.revision != (self.registry.revision, roles):
            routes.forget((self.registry.revision, roles))
        return routes

    def _note(self, request: Request, target: ResourcePath, served: Served, verb: str, action: Action) -> None:
        """Remember the route of a write that was allowed, whatever the name of its object."""
        if request.method in _READING:
            return
        if target.plural == "namespaces" and target.name:
            return  # each is asked for in itself
        if self.authorizer is None or not self.authorizer.depends_on_names(request.user or ANONYMOUS):
            self._routes.note(request, target, served, verb, action)

    async def _awaited(self, request: Request, answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except Exception as error:
            return _failure(request, error)

    def _collect(self) -> Iterable[Sample]:
        """Tell the metrics how many requests there were; counting itself is one dict entry per request."""
        for (verb, resource, subresource, code), count in list(self._counts.items()):
            labels = {"verb": verb, "resource": resource, "subresource": subresource, "code": str(code)}
            yield Sample("apiserver_request_total", labels, count)

    def _page(self, request: Request) -> Response | Awaitable[Response]:
        self.authorize_path(request.user or ANONYMOUS, request.method.lower(), request.path)
        for pages in self.pages:
            response = pages.handle(request)
            if response is not None:
                return response
        raise NotFound("the server could not find the requested resource")

    def authorize_path(self, user: User, verb: str, path: str) -> None:
        """Return when the user may do something (a lower-case HTTP method) on a path that is no resource.

        Raises:
            Forbidden: It may not.
        """
        if self.authorizer is not None:
            authorize(self.authorizer, user, Attributes(verb, path=path))

    def _action(self, target: ResourcePath, served: Served, verb: str) -> Action:
        """Return what answers a request; depends on whether the target has a name, and on none that it has.

        Raises:
            ApiError: There is no such thing to be done.
        """
        kind = served.kind
        if target.subresource:
            return self._subresource_action(target, served, verb)
        if verb not in self._verbs or verb not in kind.verbs or (verb in _OBJECT_VERBS) is not bool(target.name):
            raise _not_allowed(served, verb)
        if verb == "create" and served.is_terminating:
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating")
        if verb in _NAMESPACED_VERBS and kind.namespaced and not target.namespace:
            raise MethodNotAllowed(_NOT_ALLOWED)
        if kind is catalog.BINDING:
            return lambda request, target, _served: self._binder.create(request, target, self._pods)
        if self._metrics.answers(kind):
            return self._metrics.answer
        if verb == "create" and self._reviews.answers(kind):
            return self._reviews.answer
        return self._verbs[verb]

    def _subresource_action(self, target: ResourcePath, served: Served, verb: str) -> Action:
        kind, sub = served.kind, target.subresource
        if sub == "proxy" and kind in (catalog.POD, catalog.SERVICE):
            return self._proxy.handle
        if (sub == "status" and kind.has_status) or (sub in _PARTS and sub in kind.subresources):
            if verb in ("get", "update", "patch"):
                return self._verbs[verb]
        elif sub == "scale" and kind.scale_paths is not None:
            return lambda request, target, served: self._scale.handle(request, target, served, verb)
        elif kind is catalog.POD and (action := self._pod_verbs.get((verb, sub))) is not None:
            return action
        elif sub == "token" and verb == "create" and kind is catalog.SERVICEACCOUNT:
            return self._tokens.create
        elif kind.group == "" and kind.plural == "namespaces" and sub == "finalize" and verb == "update":
            return self._writer.update
        if sub in kind.subresources or (sub == "status" and kind.has_status):
            raise _not_allowed(served, verb)
        if sub == "scale" and served.is_custom:
            raise not_found(kind, target.name)
        raise NotFound("the server could not find the requested resource")


async def _all_ended(answers: Sequence[Response | asyncio.Task[Response]]) -> None:
    """Wait for those answers that are still to come."""
    waiting = [answer for answer in answers if not isinstance(answer, Response) and not answer.done()]
    if waiting:
        await asyncio.wait(waiting)


def _holds(request: Request, response: Response) -> bool:
    """Tell whether an answer need not wait for the disk: the request only reads, or is uncommitted.

    A refusal waits too: what already exists or is gone must be so after a crash.
    """
    return request.uncommitted or request.method in _READING


def _held(response: Response, failure: ApiError | None) -> Response:
    """Return the response to a write once it is durable, else why it is not.

    A refusal (exists already, not found) may rest on a write that never becomes durable.
    """
    decided_on_objects = response.status < 400 or response.status in (404, 409)
    return error_response(failure) if failure is not None and decided_on_objects else response


def _not_allowed(served: Served, verb: str) -> MethodNotAllowed:
    return method_not_supported(served.kind, verb) if served.is_custom else MethodNotAllowed(_NOT_ALLOWED)


def _failure(request: Request, error: Exception) -> Response:
    """Return what a request is answered that went wrong; a bug of ours is logged."""
    if isinstance(error, ApiError):
        return error_response(error)
    if isinstance(error, RecursionError):
        return error_response(BadRequest("the object provided is nested too deeply"))
    _log.error("a request failed: method=%s path=%s", request.method, request.path, exc_info=error)
    return error_response(InternalError(f"internal error on {request.method} {request.path}"))


def error_response(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that carries an error as a ``Status``."""
    extra = dict(headers or {})
    if error.retry_after_seconds is not None:
        extra["retry-after"] = str(error.retry_after_seconds)
    return Response(error.code, encode(to_status(error)), headers=extra)
