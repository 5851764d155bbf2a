"""The frames of a `Link`: MessagePack arrays whose first element is the frame's type."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.wire import Request


class LinkRequest(msgspec.Struct, tag=0, array_like=True, gc=False):
    """One request."""

    number: int
    request: Request


class AskAll(msgspec.Struct, tag=5, array_like=True, gc=False):
    """Several requests."""

    number: int
    requests: list[Request]
    uncommitted: bool
    """Whether all are uncommitted writes, which do not wait for the disk."""


class AnswerAll(msgspec.Struct, tag=6, array_like=True, gc=False):
    """The answers to an `AskAll`, in its order; a number is the status of a success whose body is not wanted."""

    number: int
    responses: list[int | Whole]


class Whole(msgspec.Struct, array_like=True, gc=False):
    """An answer with its body."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str]


class LinkResponse(msgspec.Struct, tag=1, array_like=True, gc=False):
    """The answer to an `LinkRequest`."""

    number: int
    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str]
    streams: bool


class Chunk(msgspec.Struct, tag=2, array_like=True, gc=False):
    """A part of a stream."""

    number: int
    data: bytes


class End(msgspec.Struct, tag=3, array_like=True, gc=False):
    """The end of a stream; ``error`` says what broke it, if anything."""

    number: int
    error: str = ""


class Cancel(msgspec.Struct, tag=4, array_like=True, gc=False):
    """The asking end no longer wants the answer, or the rest of its stream."""

    number: int


Frame = LinkRequest | LinkResponse | Chunk | End | Cancel | AskAll | AnswerAll
decode = msgspec.msgpack.Decoder(Frame).decode
encode_into = msgspec.msgpack.Encoder().encode_into
