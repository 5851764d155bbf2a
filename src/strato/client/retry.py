"""Whether to retry a request, and after how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from strato.errors import ApiError, Unavailable

T = TypeVar("T")

ANSWER_SECONDS = 30.0
"""How long a worker waits for the answer to a request, before it gives up and takes other work."""
_NEVER = frozenset((400, 404, 405, 406, 410, 413, 415, 422))
"""Status codes that a retry would get again: the request is invalid, or its object is gone."""


async def in_time(call: Awaitable[T], seconds: float = ANSWER_SECONDS) -> T:
    """Wait for a call's answer, up to ``seconds``.

    Raises:
        Unavailable: There was none in time; the request may have been carried out.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise Unavailable(f"no answer within {seconds:g} s") from None


def may_succeed_later(error: ApiError) -> bool:
    """Whether the server may accept the same request later: it was away or busy, or its rules or rights may change."""
    return error.code not in _NEVER


def is_server_error(error: Exception) -> bool:
    """Whether an error is about the server (away, busy, broken), not about the request."""
    return isinstance(error, ApiError) and (error.code >= 500 or error.code == 429)


def is_outcome_unknown(error: ApiError) -> bool:
    """Whether the request may have been carried out although this is its answer: 5xx, or no answer at all."""
    return error.code >= 500


def delay_seconds(error: ApiError, failures: int, *, first: float = 0.1, longest: float = 30.0) -> float:
    """Return the delay before the next attempt: what the server asks for, else ``first`` doubled with each failure."""
    if error.retry_after_seconds:
        return float(error.retry_after_seconds)
    return min(first * 2.0 ** min(failures - 1, 30), longest)
