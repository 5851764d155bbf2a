"""get, list and watch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from strato.api.kinds import Kind
from strato.api.status import aggregate, forbidden_field, not_found, not_supported
from strato.api.wire import Request, Response
from strato.errors import ApiError, BadRequest, Cause, Gone, Invalid
from strato.server.fields import SHORT_SELECTOR, Filter
from strato.server.flowcontrol.dispatch import Flow, Steps
from strato.server.jsonbodies import UNCOUNTED_BYTES
from strato.server.negotiation import METADATA, PROTOBUF
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest import continuetokens, reframing, representations
from strato.server.rest.collections import Selection, answered, completed
from strato.server.rest.state import State, object_key
from strato.server.rest.watching import Asked, Watch, ended_with
from strato.server.versions import Unconverted, VersionedBucket

_MIN_WATCH_SECONDS = 1800


class Reader:
    """The reading verbs."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Answer with one object."""
        kind = served.kind
        if request.query:
            self._revision_asked(request)
        row = self._state.bucket(kind).durable(object_key(kind, target.namespace, target.name))
        if row is None:
            raise not_found(kind, target.name)
        if len(row.body) > UNCOUNTED_BYTES:
            convert = representations.conversion(request, served, self._state.clock)
            if convert is not None:
                return self._converted(request, representations.converted_steps(row.body, convert))
        return representations.shown(request, served, row.body, now=self._state.clock.now())

    async def _converted(self, request: Request, steps: Steps[bytes]) -> Response:
        flows = self._state.flows
        return Response(200, await flows.dispatcher.finish_seated(flows.flow_of(request), steps))

    def list(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Answer with a collection or a page of it; a large one is selected and encoded in slices."""
        list_limit(request)
        labels = request.param("labelSelector")
        if "resourceVersionMatch" in request.query and len(labels) <= SHORT_SELECTOR:
            Filter(served.asked, labels, "")  # label errors precede those of options, field errors follow
        check_list_options(request)
        return filtered(self._state, request, served.asked, partial(self._list, request, target, served))

    def _list(
        self, request: Request, target: ResourcePath, served: Served, wanted: Filter
    ) -> Response | Awaitable[Response]:
        kind, bucket, now = served.kind, self._state.bucket(served.kind), self._state.clock.now()
        limit, asked = list_limit(request), request.param("continue")
        prefix = f"{target.namespace}/" if target.namespace else ""
        page = continuetokens.read_token(asked, prefix) if asked else continuetokens.FIRST
        if asked and request.param("resourceVersion") not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        published = self._state.store.published
        revision = page.revision or self._revision_asked(request)
        if revision < 0:
            revision = published  # the client continues an expired list with the current state
        try:
            if page.revision > 0:
                continuetokens.check_age(page, now, published)
            snapshot = bucket.snapshot(published, revision)
        except Gone as error:
            raise continuetokens.expired(page) from error
        if wanted.name is not None and (target.namespace or not kind.namespaced) and not page.start:
            key = object_key(kind, target.namespace, wanted.name)
            items: Iterator[tuple[str, bytes]] = (item for item in islice(snapshot.items(key), 1) if item[0] == key)
        else:
            items = snapshot.items(prefix, page.start)
        flow = self._state.flows.flow_of(request)
        if wanted.everything and not limit and not isinstance(bucket, VersionedBucket):
            return self._answered(request, served, (body for _, body in items), revision, "", flow)
        selection = Selection(items, wanted, limit)
        begun = page.begun if page.revision > 0 else now  # a list continued with the current state counts as begun now

        def selected() -> Response:
            remaining = snapshot.count(prefix, selection.last) if selection.last else 0
            token = continuetokens.token(selection.last, prefix, revision, begun) if remaining else ""
            count = remaining if wanted.everything else 0
            return self._answered(request, served, selection.found, revision, token, flow, count)

        if selection.step():
            return selected()
        return completed(self._state.flows.dispatcher, flow, selection.step, selected)

    def _answered(
        self,
        request: Request,
        served: Served,
        bodies: Iterable[bytes],
        revision: int,
        token: str,
        flow: Flow,
        remaining: int = 0,
    ) -> Response:
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if token and remaining:
            metadata["remainingItemCount"] = remaining
        text = representations.list_text(request, served, bodies, metadata, token, self._state.clock.now())
        return answered(self._state.flows.dispatcher, flow, text)

    def listed(self, request: Request, served: Served, bodies: Iterable[bytes], revision: int) -> Response:
        """Return objects as a list in the form that the client accepts."""
        return self._answered(request, served, bodies, revision, "", self._state.flows.flow_of(request))

    def _revision_asked(self, request: Request) -> int:
        """Return the revision at which to read a list.

        Raises:
            ApiError: The requested revision is in the future.
        """
        current = self._state.store.published
        asked = request.param("resourceVersion")
        if not asked or asked == "0":
            return current
        revision = _revision(asked)
        if revision > current:
            raise ApiError(
                f"Timeout: Too large resource version: {revision}, current: {current}",
                reason="Timeout",
                code=504,
                causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
                retry_after_seconds=1,
            )
        match = request.param("resourceVersionMatch")
        # with a limit and no resourceVersionMatch, a revision means Exact: clients older than that option rely on it
        return revision if match == "Exact" or (not match and request.param("limit") not in ("", "0")) else current

    def watch(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Answer with a stream of changes."""
        check_list_options(request)
        return filtered(self._state, request, served.asked, partial(self._watch, request, target, served))

    def _watch(self, request: Request, target: ResourcePath, served: Served, wanted: Filter) -> Response:
        kind, store = served.kind, self._state.store
        asked = request.param("resourceVersion")
        send_initial = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else asked in ("", "0")
        prefix = f"{target.namespace}/" if target.namespace else ""
        revision = store.published
        initial: Iterator[bytes] = iter(())
        if send_initial:
            initial = (body for _, body in self._state.bucket(kind).snapshot(revision).items(prefix))
        elif asked not in ("", "0"):
            revision = _revision(asked)
        flows, bucket = self._state.flows, self._state.bucket(kind)
        flow, form = flows.flow_of(request), representations.wanted(request, served)
        convert = representations.conversion(request, served, self._state.clock)
        reframed = partial(
            reframing.reframed,
            dispatcher=flows.dispatcher,
            flow=flow,
            convert=convert,
            in_protobuf=form.media == PROTOBUF,
        )
        try:
            watcher, missed = store.watch(kind.resource, revision, uncommitted=request.uncommitted)
        except Gone as error:  # as kube-apiserver: the watch is accepted, and its only event is the error
            return reframed(ended_with(error))
        if isinstance(bucket, VersionedBucket) and bucket.is_converted:
            try:
                initial = iter(list(initial))
                missed = [bucket.changed(event) for event in missed]
            except Unconverted:
                watcher.close()
                raise
        watch = Watch(
            store,
            served.asked,
            watcher,
            Asked(
                wanted=wanted,
                prefix=prefix,
                mark_initial_end=send_initial and "sendInitialEvents" in request.query,
                bookmarks=request.flag("allowWatchBookmarks"),
                timeout_seconds=_integer(request, "timeoutSeconds") or self._default_timeout(request),
                render=representations.rendering(request, served),
                render_bookmarks=form.target == METADATA,
                version=bucket.changed if isinstance(bucket, VersionedBucket) else None,
                convert=self._state.convert,
            ),
            missed=missed,
            initial=initial,
            dispatcher=flows.dispatcher,
            flow=flow,
        )
        return reframed(watch)

    def _default_timeout(self, request: Request) -> float:
        """Return a remote watch's timeout: a random time from 30 to 60 minutes, so that watches spread over servers."""
        if not request.flag("allowWatchBookmarks"):
            return 0.0
        return _MIN_WATCH_SECONDS * (1 + self._state.rng.random())


def filtered(
    state: State, request: Request, kind: Kind, then: Callable[[Filter], Response | Awaitable[Response]]
) -> Response | Awaitable[Response]:
    """Call ``then`` with the filter of a request's selectors; long selectors are parsed in a slice first.

    Raises:
        BadRequest: A selector cannot be parsed.
    """
    labels, fields = request.param("labelSelector"), request.param("fieldSelector")
    if len(labels) + len(fields) <= SHORT_SELECTOR:
        return then(Filter(kind, labels, fields))

    def reading() -> Steps[Filter]:
        wanted: Filter = yield lambda: Filter(kind, labels, fields)
        return wanted

    async def sliced() -> Response:
        answer = then(await state.flows.dispatcher.finish_seated(state.flows.flow_of(request), reading()))
        return answer if isinstance(answer, Response) else await answer

    return sliced()


def check_list_options(request: Request) -> None:
    """Check the options of a list or watch that concern revisions.

    Raises:
        Invalid: Options contradict each other.
    """
    match, revision = request.param("resourceVersionMatch"), request.param("resourceVersion")
    has_initial = "sendInitialEvents" in request.query
    if not match and not has_initial:
        return
    field, causes = "resourceVersionMatch", []
    if request.flag("watch"):
        if match and not has_initial:
            causes.append(
                forbidden_field(field, f"{field} is forbidden for watch unless sendInitialEvents is provided")
            )
        elif has_initial:
            if match != "NotOlderThan":
                causes.append(forbidden_field(field, f"sendInitialEvents requires setting {field} to NotOlderThan"))
                if match:
                    causes.append(not_supported(field, match, ["NotOlderThan"]))
            if request.flag("sendInitialEvents") and not request.flag("allowWatchBookmarks"):
                text = "sendInitialEvents is forbidden for watch unless allowWatchBookmarks is set"
                causes += [] if causes else [forbidden_field("sendInitialEvents", text)]
    else:
        if match and not revision:
            causes.append(forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided"))
        if match and request.param("continue"):
            causes.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
        if match not in ("", "Exact", "NotOlderThan"):
            causes.append(not_supported(field, match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and revision == "0":
            causes.append(forbidden_field(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
        if has_initial:
            causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid_options("ListOptions", causes)


def invalid_options(kind: str, causes: Sequence[Cause]) -> Invalid:
    """Return the error for options: ``ListOptions.meta.k8s.io "" is invalid: …``."""
    details = {"group": "meta.k8s.io", "kind": kind}
    return Invalid(f'{kind}.meta.k8s.io "" is invalid: {aggregate(causes)}', causes=causes, details=details)


def list_limit(request: Request) -> int:
    """Return the limit of a list; 0 is no limit.

    Raises:
        BadRequest: The limit is not a number.
    """
    return _integer(request, "limit")


def _integer(request: Request, name: str) -> int:
    text = request.param(name)
    if not text:
        return 0
    try:
        return max(0, int(text))
    except ValueError as error:
        raise BadRequest(f"{name} must be an integer, not {text!r}") from error


def _revision(text: str) -> int:
    try:
        revision = int(text)
    except ValueError as error:
        text = f'resourceVersion: Invalid value: "{text}": must be an unsigned integer'
        raise BadRequest(f"invalid resource version: {text}") from error
    if revision < 0:
        raise BadRequest(f'resourceVersion: Invalid value: "{text}": must not be negative')
    return revision
