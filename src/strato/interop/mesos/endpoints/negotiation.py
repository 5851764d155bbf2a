"""Content negotiation: the type of a request's body, and the types accepted for the answer."""

from __future__ import annotations

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.http.plain import text
from strato.interop.mesos.wire import JSON, PROTOBUF, MalformedMessage, MessageType, NotJson

WRONG_TYPE = "Expecting 'Content-Type' of application/json or application/x-protobuf"


class RequestRefused(Exception):
    """A request is refused; the exception holds the response to send."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def refused(status: int, message: str) -> RequestRefused:
    """Return a refusal with a text."""
    return RequestRefused(text(message, status))


def read(request: Request, kind: MessageType, name: str = "Call") -> tuple[Json, str]:
    """Return a request's message and its type.

    Raises:
        Refused: The content type is missing or unsupported, or the body is no such message.
    """
    content_type = request.headers.get("content-type")
    if content_type is None:
        raise refused(400, "Expecting 'Content-Type' to be present")
    if content_type not in (JSON, PROTOBUF):
        raise refused(415, WRONG_TYPE)
    try:
        return kind.decode(request.body, content_type), content_type
    except NotJson as error:
        raise refused(400, f"Failed to parse body into JSON: {error}") from error
    except MalformedMessage as error:
        if content_type == PROTOBUF:
            raise refused(400, f"Failed to parse body into {name} protobuf") from error
        raise refused(400, f"Failed to convert JSON into {name} protobuf: {error}") from error


def answer_type(request: Request) -> str | None:
    """Return the type of the answer: JSON if accepted, else protobuf; None if neither is accepted."""
    accept = request.headers.get("accept", "*/*") or "*/*"
    return next((wanted for wanted in (JSON, PROTOBUF) if _allows(accept, wanted)), None)


def _allows(accept: str, wanted: str) -> bool:
    for part in accept.split(","):
        media, *parameters = (item.strip() for item in part.split(";"))
        weight = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        if media in ("*/*", "application/*", wanted) and weight.strip("0.") != "":
            return True
    return False


def not_acceptable() -> RequestRefused:
    """Return the response to a request that accepts neither type."""
    return refused(406, f"Expecting 'Accept' to allow '{JSON}' or '{PROTOBUF}'")
