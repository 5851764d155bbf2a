"""Replies of HTTP extenders to a cycle, as the journal records them and a replay returns them.

With the recorded replies a cycle that has called extenders can be replayed without them.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final, NamedTuple

_DIGEST_BYTES: Final = 8


class Reply(NamedTuple):
    """The outcome of a request.

    Attributes:
        text: JSON of the answer; empty when there is a problem.
        problem: Why there is no answer; empty when there is one.
        seconds: How long the request took.
    """

    text: str
    problem: str
    seconds: float


class Question(NamedTuple):
    """A request: its address, and a digest of its body."""

    where: str
    digest: bytes


def question_of(where: str, body: bytes) -> Question:
    """Return the question that a request to an address is."""
    return Question(where, blake2b(body, digest_size=_DIGEST_BYTES).digest())


class KnownReplies:
    """The replies recorded in one cycle; a question that was asked several times gets its replies in order.

    Attributes:
        missed: How many questions had no recorded reply.
    """

    def __init__(self) -> None:
        self._known: dict[Question, deque[Reply]] = {}
        self.missed = 0

    def add(self, question: Question, reply: Reply) -> None:
        """Add a recorded reply."""
        self._known.setdefault(question, deque()).append(reply)

    def take(self, where: str, body: bytes) -> Reply:
        """Return the next reply to a question; one with a problem if there is none."""
        waiting = self._known.get(question_of(where, body))
        if waiting:
            return waiting.popleft()
        self.missed += 1
        return Reply("", f"{where}: the log has no answer to this question", 0.0)

    def forget(self) -> None:
        """Drop the replies that were not used."""
        self._known.clear()
