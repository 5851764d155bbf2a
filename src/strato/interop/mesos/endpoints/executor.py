"""``POST /api/v1/executor``: the API that custom executors expect of their agent."""

from __future__ import annotations

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.interop.mesos.endpoints.negotiation import answer_type, not_acceptable, read, refused
from strato.interop.mesos.endpoints.serving import Serving
from strato.interop.mesos.master.executors import ExecutorRefused
from strato.interop.mesos.wire import message

_OWNER = "executors"
"""Owner of executors' streams for the limit on unread bytes, as executors have no credentials."""


async def handle(serving: Serving, request: Request, principal: str) -> Response:
    """Answer a request of an executor.

    Raises:
        Refused: Holds the response to send.
    """
    del principal
    call, _ = read(request, message("executor.Call"))
    executors, now = serving.master.executors, serving.now()
    try:
        executor = executors.find(call)
        kind = call["type"]
        body: Json = call.get(kind.lower(), {})
        if kind == "SUBSCRIBE":
            content_type = answer_type(request)
            if content_type is None:
                raise not_acceptable()
            stream = serving.stream("executor.Event", content_type, _OWNER)
            executors.subscribe(executor, body, stream, now)
            await serving.flush()
            return Response(200, content_type=content_type, stream=stream)
        if executor.stream is None:
            raise refused(403, "Executor is not subscribed")
        if kind == "UPDATE":
            executors.update(executor, body, now)
        elif kind == "MESSAGE":
            executors.forward(executor, body["data"])
    except ExecutorRefused as error:
        raise refused(error.status, str(error)) from error
    await serving.flush()
    return Response(202, content_type="text/plain")
