"""The frames of a link between two processes: MessagePack arrays whose first element names the kind."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.wire import Request


class Ask(msgspec.Struct, tag=0, array_like=True, gc=False):
    """One request."""

    number: int
    request: Request


class AskAll(msgspec.Struct, tag=5, array_like=True, gc=False):
    """Several."""

    number: int
    requests: list[Request]
    uncommitted: bool
    """Whether none of them waits for the disk."""


class AnswerAll(msgspec.Struct, tag=6, array_like=True, gc=False):
    """Only the status of a success is sent if its body is not wanted."""

    number: int
    responses: list[int | Whole]


class Whole(msgspec.Struct, array_like=True, gc=False):
    """An answer that is no stream."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str]


class Answer(msgspec.Struct, tag=1, array_like=True, gc=False):
    """The answer to a single request."""

    number: int
    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str]
    streams: bool


class Chunk(msgspec.Struct, tag=2, array_like=True, gc=False):
    """Some of a stream."""

    number: int
    data: bytes


class End(msgspec.Struct, tag=3, array_like=True, gc=False):
    """Nothing more comes on a stream, for a reason unless it is empty."""

    number: int
    error: str = ""


class Cancel(msgspec.Struct, tag=4, array_like=True, gc=False):
    """Who asked no longer wants the answer, or the rest of it."""

    number: int


Frame = Ask | Answer | Chunk | End | Cancel | AskAll | AnswerAll
decode = msgspec.msgpack.Decoder(Frame).decode
encode_into = msgspec.msgpack.Encoder().encode_into
