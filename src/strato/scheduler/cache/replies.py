"""Replies from outside that a cycle waits for: what was asked, what came, how long it took; and those of a log.

A cycle that depends on somebody's replies can be decided anew when they are known, though nobody is there to ask.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final, NamedTuple

_DIGEST_BYTES: Final = 8


class Reply(NamedTuple):
    """What came of a question.

    Attributes:
        text: JSON that was answered; empty where there is a problem.
        problem: Why there is no answer.
        seconds: How long it took.
    """

    text: str
    problem: str
    seconds: float


class Question(NamedTuple):
    """What was asked: where, and a digest of it."""

    where: str
    digest: bytes


def question_of(where: str, body: bytes) -> Question:
    """Return a question to an address."""
    return Question(where, blake2b(body, digest_size=_DIGEST_BYTES).digest())


class KnownReplies:
    """Those that were noted in one cycle; the same question asked again has its next reply.

    Attributes:
        missed: Questions that were asked and are not among them.
    """

    def __init__(self) -> None:
        self._known: dict[Question, deque[Reply]] = {}
        self.missed = 0

    def add(self, question: Question, reply: Reply) -> None:
        """Take a reply."""
        self._known.setdefault(question, deque()).append(reply)

    def take(self, where: str, body: bytes) -> Reply:
        """Return the reply to a question."""
        waiting = self._known.get(question_of(where, body))
        if waiting:
            return waiting.popleft()
        self.missed += 1
        return Reply("", f"{where}: the log has no answer to this question", 0.0)

    def forget(self) -> None:
        """Drop what was not asked for."""
        self._known.clear()
