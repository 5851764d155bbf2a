"""When a request is worth another attempt, and after how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from strato.errors import ApiError, Unavailable

T = TypeVar("T")

ANSWER_SECONDS = 30.0
"""A request without an answer is given up after this long, and its worker is free for others."""
_NEVER = frozenset((400, 404, 405, 406, 410, 413, 415, 422))
"""Answers that the same request would get again: it is wrong, or its object is gone."""


async def in_time(call: Awaitable[T], seconds: float = ANSWER_SECONDS) -> T:
    """Wait for a call's answer, but not for ever.

    Raises:
        Unavailable: There was none in time; the request may have been carried out.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise Unavailable(f"no answer within {seconds:g} s") from None


def may_succeed_later(error: ApiError) -> bool:
    """Whether the same request may be accepted another time: the server was away, busy, or changes its rules."""
    return error.code not in _NEVER


def is_server_error(error: Exception) -> bool:
    """Whether an error says something of the server (away, busy, broken) and nothing of the request."""
    return isinstance(error, ApiError) and (error.code >= 500 or error.code == 429)


def is_outcome_unknown(error: ApiError) -> bool:
    """Whether the request may have been carried out although this is its answer: 5xx, or no answer at all."""
    return error.code >= 500


def delay_seconds(error: ApiError, failures: int, *, first: float = 0.1, longest: float = 30.0) -> float:
    """Return how long to wait after a number of failures in a row: what the server asks for, else twice as long."""
    if error.retry_after_seconds:
        return float(error.retry_after_seconds)
    return min(first * 2.0 ** min(failures - 1, 30), longest)
