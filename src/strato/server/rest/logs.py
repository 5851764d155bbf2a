"""``pods/log``."""

from __future__ import annotations

from strato.api.wire import Request, Response
from strato.clock import parse_time
from strato.errors import BadRequest, NotFound
from strato.server.logs import LogOptions, LogSource
from strato.server.objects import Json
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest.state import State


class PodLogs:
    """Answers logs from a `LogSource`."""

    def __init__(self, state: State, source: LogSource | None) -> None:
        self._state = state
        self.source = source

    async def read(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer the log of one container as plain text."""
        pod = self._state.require(served.kind, target.namespace, target.name)
        container = _container(pod, target.name, request.param("container"))
        if self.source is None or not pod["spec"].get("nodeName"):
            raise BadRequest(f'container "{container}" in pod "{target.name}" is waiting to start: not on a node yet')
        options = LogOptions(
            follow=request.flag("follow"),
            previous=request.flag("previous"),
            timestamps=request.flag("timestamps"),
            tail_lines=_integer(request, "tailLines"),
            since_seconds=_integer(request, "sinceSeconds"),
            since_time=_instant(request),
            limit_bytes=_integer(request, "limitBytes"),
        )
        chunks = self.source.read_log(target.namespace, target.name, pod["metadata"]["uid"], container, options)
        if options.follow:
            return Response(200, stream=chunks, content_type="text/plain")
        try:
            body = b"".join([chunk async for chunk in chunks])
        except NotFound as error:
            raise BadRequest(str(error)) from error
        return Response(200, body, content_type="text/plain")


def _container(pod: Json, name: str, asked: str) -> str:
    spec = pod["spec"]
    main = [container["name"] for container in spec["containers"]]
    init = [container["name"] for container in spec.get("initContainers") or ()]
    if asked:
        if asked not in main + init:
            raise BadRequest(f"container {asked} is not valid for pod {name}")
        return asked
    if len(main) == 1 and not init:
        return str(main[0])
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in main:
        return str(default)
    if len(main) == 1:
        return str(main[0])
    choices = f"[{' '.join(main)}]" + (f" or one of the init containers: [{' '.join(init)}]" if init else "")
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: {choices}")


def _integer(request: Request, name: str) -> int | None:
    text = request.param(name)
    if not text:
        return None
    if not text.isdigit():
        raise BadRequest(f"{name}: Invalid value: {text!r}: must be greater than or equal to 0")
    return int(text)


def _instant(request: Request) -> float | None:
    text = request.param("sinceTime")
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise BadRequest(f"sinceTime: Invalid value: {text!r}: must be an RFC 3339 time") from error
