"""`ApiServer`: the embedded Kubernetes API, a plain function from request to response over the store.

The HTTP service and the in-process client both call it. `ApiServer` authorises a request, finds the resource and calls
the verb in `strato.server.rest`. This module knows nothing of transports.
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
from strato.pki import KeyPair
from strato.server import podsubresources
from strato.server.conversion import Conversions
from strato.server.crd import CustomKinds
from strato.server.flowcontrol.control import FlowControl
from strato.server.logs import LogSource
from strato.server.path import Attributes, ResourcePath, parse_path, verb_of
from strato.server.preparation import encode
from strato.server.registry import Registry, Served
from strato.server.rest import storing
from strato.server.rest.binding import Binder
from strato.server.rest.delete import Deleter
from strato.server.rest.evict import Evictor
from strato.server.rest.logs import PodLogs
from strato.server.rest.proxy import Proxy
from strato.server.rest.read import Reader
from strato.server.rest.remotenodes import RemoteNodes
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
"""Verbs that need a namespace in the path; so a bulk delete never spans all namespaces."""
_OBJECT_VERBS = frozenset(("get", "update", "patch", "delete"))
"""Verbs whose path must name an object; the paths of the other verbs must not."""
_TOGETHER = 64
"""Most creations of one batch that wait for webhooks at the same time."""
_STREAMS = frozenset(("attach", "exec", "portforward"))
"""Subresources of pods that connect a client to a pod's processes."""
_RAW = _STREAMS | {"log", "proxy", "scale"}
"""Subresources that answer with something other than an object of the kind."""
_PARTS = podsubresources.ALL | {"approval"}
"""Subresources whose reads give the whole object and whose writes change a part of it."""
_NOT_ALLOWED = "the server does not allow this method on the requested resource"


class Pages(Protocol):
    """Answers paths that are not resources: discovery, OpenAPI."""

    def handle(self, request: Request) -> Response | Awaitable[Response] | None:
        """Answer the request; None if the path is not one of these pages."""


@dataclass(frozen=True, slots=True)
class Access:
    """The parts that decide on rights; by default every user may do everything."""

    authorizer: Authorizer | None = None
    """Decides on requests; None allows all."""
    write_rights: Callable[[State], WriteRights] | None = None
    """Makes the check of a write's content against its user's rights; None allows every write."""
    tokens: Tokens | None = None
    """Reviews tokens and issues those of service accounts; with None no token is valid."""


class ApiServer(Handler):
    """The server's core.

    Args:
        registry: The kinds served; those of CustomResourceDefinitions in the store are added.
        admission: Mutates and validates users' writes; None admits everything.
        flows: Shares the loop's time among flows; with None slices of work are counted instead of measured.
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
        """Answerers of paths that are not resources, asked in order."""
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
        """Add the counts of requests and the figures of flow control to ``metrics``."""
        metrics.collect(self._collect)
        metrics.collect(self.state.flows.collect)

    def use_logs(self, source: LogSource) -> None:
        """Serve pod logs from ``source`` from now on."""
        self._logs.source = source

    def use_streams(self, source: StreamSource) -> None:
        """Serve the streams of pods from ``source`` from now on."""
        self._streams.source = source

    def use_nodes(self, issue: Callable[[User], KeyPair]) -> None:
        """Ask nodes on other machines for logs and streams from now on, with certificates that ``issue`` makes."""
        self._logs.remote = self._streams.remote = RemoteNodes(self.state, issue)

    def use_metrics(self, source: UsageSource) -> None:
        """Serve the resource usage of this machine's pods, as measured by ``source``, from now on."""
        self._metrics.source = source

    def add_pages(self, *pages: Pages) -> None:
        """Serve further paths that are not resources from now on."""
        self.pages = (*self.pages, *pages)

    async def handle(self, request: Request) -> Response:
        """Answer one request; every error becomes a ``Status``.

        A crash can roll back a write that is not durable yet. Therefore the answer waits for the commit, here and in
        `start` and `handle_all`, and nowhere else. An uncommitted read waits before it reads instead, so that it finds
        every write that was acknowledged.
        """
        if request.uncommitted and request.method in _READING:
            failure = await self.store.wait_durable()
            if failure is not None:
                return error_response(failure)
        return await self._after_commit(request, self._answer(request))

    async def _after_commit(self, request: Request, answer: Response | Awaitable[Response]) -> Response:
        response = answer if isinstance(answer, Response) else await self._awaited(request, answer)
        if _needs_no_commit(request):
            return response
        return _once_committed(response, await self.store.wait_durable())

    def start(self, request: Request, answered: Callable[[Response], None]) -> Awaitable[Response] | None:
        """Answer one request as `handle` does: call ``answered``, or return an awaitable that gives the answer."""
        if request.uncommitted:
            return self.handle(request)
        response = self._answer(request)
        if not isinstance(response, Response):
            return self._after_commit(request, response)
        if _needs_no_commit(request):
            answered(response)
        else:
            self.store.when_durable(lambda failure: answered(_once_committed(response, failure)))
        return None

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Answer writes in order, and wait for their commit once.

        Creations that call webhooks are begun in order and awaited together.
        """
        answers: list[Response | asyncio.Task[Response]] = []
        begun = 0
        try:
            for request in requests:
                # a write that is not a creation may concern an object that a creation before it makes
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
        return [_once_committed(response, failure) for response in responses]

    async def _whole(self, request: Request, answer: Awaitable[Response]) -> Response:
        """Await the answer to a write, and read its stream, if it has one, into one body."""
        response = await self._awaited(request, answer)
        if response.stream is None:
            return response
        body = b"".join([chunk async for chunk in response.stream])
        return Response(response.status, body, response.content_type, response.headers)

    def write(self, request: Request) -> Response:
        """Carry out a write; the caller must wait for `Store.wait_durable` before it relies on the response."""
        answer = self._answer(request)
        assert isinstance(answer, Response), "only what is read from elsewhere is waited for"
        return answer

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        """Authorise, route and count a request; return its answer, or an awaitable if the verb has to wait."""
        verb = resource = subresource = deprecation = ""
        answer: Response | Awaitable[Response]
        try:
            found = None if request.method in _READING else self._known_routes().find(request)
            if found is not None:
                route, name = found
                verb, served = route.verb, route.served
                resource, subresource, deprecation = served.kind.plural, route.subresource, served.deprecation
                target = ResourcePath(route.group, route.version, route.plural, route.namespace, name, subresource)
                answer = route.action(request, target, served)
            else:
                path = parse_path(request.path)
                if path is None:
                    answer = self._page(request)
                else:
                    # a path with a name is read even with ?watch; to watch one object, clients use a field selector
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
                    deprecation = served_there.deprecation
                    subresource = path.subresource  # counted by name only now, when it is known to exist
                    if subresource not in _RAW and "accept" in request.headers:
                        wanted(request, served_there, has_table=not self._reviews.answers(served_there.kind))
                    self._note(request, path, served_there, verb, action)
                    answer = action(request, path, served_there)
        except Exception as error:
            answer = _failure(request, error)
        if deprecation:
            answer = storing.warned(answer, deprecation)
        key = (verb, resource, subresource, answer.status if isinstance(answer, Response) else 200)
        self._counts[key] = self._counts.get(key, 0) + 1
        return answer

    def _known_routes(self) -> Routes:
        """Return the cached routes, emptied if the served kinds or the roles have changed."""
        routes = self._routes
        roles = 0 if self.authorizer is None else self.authorizer.revision
        if routes.revision != (self.registry.revision, roles):
            routes.forget((self.registry.revision, roles))
        return routes

    def _note(self, request: Request, target: ResourcePath, served: Served, verb: str, action: Action) -> None:
        """Cache the route of an allowed write, unless the right to it may depend on the object's name."""
        if request.method in _READING:
            return
        if target.plural == "namespaces" and target.name:
            return  # here the name is also the namespace, which rights do depend on
        if self.authorizer is None or not self.authorizer.depends_on_names(request.user or ANONYMOUS):
            self._routes.note(request, target, served, verb, action)

    async def _awaited(self, request: Request, answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except Exception as error:
            return _failure(request, error)

    def _collect(self) -> Iterable[Sample]:
        """Yield the counts of requests. Counting by dict entry is cheaper for a request than a metric with labels."""
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
        """Check that a user may use a verb (a lower-case HTTP method) on a path that is not a resource.

        Raises:
            Forbidden: The user may not.
        """
        if self.authorizer is not None:
            authorize(self.authorizer, user, Attributes(verb, path=path))

    def _action(self, target: ResourcePath, served: Served, verb: str) -> Action:
        """Return the action that answers a request.

        It may depend on whether the target has a name but not on which, because `Routes` caches it for all names.

        Raises:
            ApiError: The resource does not support the verb or subresource.
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
    """Wait for the tasks among the answers."""
    waiting = [answer for answer in answers if not isinstance(answer, Response) and not answer.done()]
    if waiting:
        await asyncio.wait(waiting)


def _needs_no_commit(request: Request) -> bool:
    """Tell whether an answer need not wait for the commit: the request only reads, or is uncommitted.

    Even a refused write waits, because the refusal may rest on the existence or absence of an object that a crash
    could roll back.
    """
    return request.uncommitted or request.method in _READING


def _once_committed(response: Response, failure: ApiError | None) -> Response:
    """Return the response to a write after the wait for its commit: the response itself, or the failure of the commit.

    A refusal of 404 or 409 is replaced too: the write it rests on may never become durable.
    """
    decided_on_objects = response.status < 400 or response.status in (404, 409)
    return error_response(failure) if failure is not None and decided_on_objects else response


def _not_allowed(served: Served, verb: str) -> MethodNotAllowed:
    return method_not_supported(served.kind, verb) if served.is_custom else MethodNotAllowed(_NOT_ALLOWED)


def _failure(request: Request, error: Exception) -> Response:
    """Return the answer to a request that raised an error; log the error if it is a bug of ours."""
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
