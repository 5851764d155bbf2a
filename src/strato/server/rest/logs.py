"""``pods/log``."""

from __future__ import annotations

from collections.abc import AsyncIterator

from strato.api.status import aggregate, forbidden_field, invalid_value
from strato.api.wire import Request, Response
from strato.clock import parse_time
from strato.errors import BadRequest, Invalid, NotFound
from strato.server.logs import LogOptions, LogSource
from strato.server.path import ResourcePath
from strato.server.preparation import Json
from strato.server.registry import Served
from strato.server.rest.remotenodes import RemoteNodes
from strato.server.rest.state import State

_PLAIN = "text/plain"


class PodLogs:
    """Answers logs from a `LogSource`."""

    def __init__(self, state: State, source: LogSource | None) -> None:
        self._state = state
        self.source = source
        self.remote: RemoteNodes | None = None
        """Nodes on other machines."""

    async def read(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer the log of one container as plain text."""
        options = log_options(request, target.name)
        pod = self._state.require(served.kind, target.namespace, target.name)
        container = container_of(pod, target.name, request.param("container"))
        if not pod["spec"].get("nodeName"):
            return Response(204, content_type=_PLAIN)  # the pod has no node yet, so no log
        source = (self.remote.of(pod) if self.remote is not None else None) or self.source
        if source is None:
            why = "this cluster has hollow nodes only, where nothing is written"
            raise BadRequest(f'container "{container}" in pod "{target.name}" has no log: {why}')
        return await answer_log(source, pod, container, options)


async def answer_log(source: LogSource, pod: Json, container: str, options: LogOptions) -> Response:
    """Answer with a log as plain text.

    Raises:
        BadRequest: There is no log; if the container has not run yet, with the kubelet's message.
    """
    meta = pod["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    waiting = "" if options.previous else why_waiting(pod, container)
    why = f'container "{container}" in pod "{name}" is waiting to start: {waiting}' if waiting else ""
    if why and options.follow:
        raise BadRequest(why)
    chunks = source.read_log(namespace, name, meta["uid"], container, options)
    if options.follow:
        return Response(200, stream=_with_errors(chunks), content_type=_PLAIN)
    try:
        body = b"".join([chunk async for chunk in chunks])  # reads the log first, as the pod's status may be late
    except NotFound as error:
        raise BadRequest(why or str(error)) from error
    return Response(200, body, content_type=_PLAIN)


def why_waiting(pod: Json, container: str) -> str:
    """Return the kubelet's text for why a container has not run yet; empty if it has run or never will."""
    status = pod.get("status") or {}
    members = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    known = {one["name"]: one for member in members for one in status.get(member) or ()}
    found = known.get(container)
    if found is None:
        if status.get("phase") in ("Succeeded", "Failed"):
            return ""
        inits = [one["name"] for one in pod["spec"].get("initContainers") or ()]
        return "PodInitializing" if inits and container not in inits else "ContainerCreating"
    state, last = found.get("state") or {}, found.get("lastState") or {}
    if any(one is not None for one in (state.get("running"), state.get("terminated"), last.get("terminated"))):
        return ""
    reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
    return _PULLING.get(reason, reason)


_PULLING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


async def _with_errors(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a followed log; an error becomes its last line, because the response's head has been sent."""
    try:
        async for chunk in chunks:
            yield chunk
    except NotFound as error:
        yield f"{error}\n".encode()


def container_of(pod: Json, name: str, asked: str) -> str:
    """Return the container of a pod that a request is for.

    Raises:
        BadRequest: The pod has no such container, or several and the request names none.
    """
    spec = pod["spec"]
    main = [container["name"] for container in spec["containers"]]
    init = [container["name"] for container in spec.get("initContainers") or ()]
    debuggers = [container["name"] for container in spec.get("ephemeralContainers") or ()]
    if asked:
        if asked not in main + init + debuggers:
            raise BadRequest(f"container {asked} is not valid for pod {name}")
        return asked
    if len(main) == 1 and not init:
        return str(main[0])
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in main:
        return str(default)
    if len(main) == 1:
        return str(main[0])
    choices = " ".join([*init, *main, *debuggers])
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{choices}]")


def log_options(request: Request, pod: str) -> LogOptions:
    """Parse the options for which part of a log to read.

    Raises:
        Invalid: Options contradict each other or are out of range.
        BadRequest: A number or a time cannot be parsed.
    """
    tail, since, limit = (_integer(request, name) for name in ("tailLines", "sinceSeconds", "limitBytes"))
    instant = _instant(request)
    causes = []
    if tail is not None and tail < 0:
        causes.append(invalid_value("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(invalid_value("limitBytes", limit, "must be greater than 0"))
    if since is not None and instant is not None:
        causes.append(forbidden_field("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        causes.append(invalid_value("sinceSeconds", since, "must be greater than 0"))
    if causes:
        text = f'PodLogOptions "{pod}" is invalid: {aggregate(causes)}'
        raise Invalid(text, causes=causes, details={"name": pod, "kind": "PodLogOptions"})
    return LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        tail_lines=tail,
        since_seconds=since,
        since_time=instant,
        limit_bytes=limit,
    )


def _integer(request: Request, name: str) -> int | None:
    text = request.param(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise BadRequest(f"{name}: Invalid value: {text!r}: must be an integer") from error


def _instant(request: Request) -> float | None:
    text = request.param("sinceTime")
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise BadRequest(f"sinceTime: Invalid value: {text!r}: must be an RFC 3339 time") from error
