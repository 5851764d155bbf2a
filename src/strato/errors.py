"""The error tree of the whole system.

    StratoError                 everything we raise on purpose
    ├── UsageError              a person gave something unusable: command line, file, configuration
    │   └── InvalidInput        … with every problem listed, each with its place (file, document, path)
    ├── StateError              the present state forbids a request: nothing of that name, a cluster already runs
    ├── ApiError                an error answer of a Kubernetes API; has reason, code and causes
    │   ├── BadRequest          400 BadRequest
    │   ├── Unauthorized        401 Unauthorized
    │   ├── Forbidden           403 Forbidden
    │   ├── NotFound            404 NotFound
    │   ├── MethodNotAllowed    405 MethodNotAllowed
    │   ├── NotAcceptable       406 NotAcceptable
    │   ├── AlreadyExists       409 AlreadyExists
    │   ├── Conflict            409 Conflict
    │   ├── Gone                410 Expired (or Gone)
    │   ├── TooLarge            413 RequestEntityTooLarge
    │   ├── UnsupportedMedia    415 UnsupportedMediaType
    │   ├── Invalid             422 Invalid, with one cause per field
    │   ├── TooManyRequests     429 TooManyRequests
    │   ├── InternalError       500 InternalError
    │   └── Unavailable         503 ServiceUnavailable; also a connection that could not be made
    └── InvariantError          a broken assumption of ours: a bug; no code catches it to continue

Rooms subclass these. An error stores its facts as attributes; its message says what is wrong, where, which value, and
what to do about it. `strato.api.status` maps an ApiError to a `Status` object and back.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar


class StratoError(Exception):
    """Base of every error this system raises on purpose."""

    exit_code: ClassVar[int] = 1
    """Exit status of the command line when this error ends it."""


class InvariantError(StratoError):
    """An assumption of our own is broken."""


class UsageError(StratoError):
    """A person gave something we cannot use."""

    exit_code = 2


class StateError(StratoError):
    """The present state forbids what a person asked for; another way of asking would not help."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input: where it is, and what to do about it."""

    where: str
    """File, document and path of the problem: ``job.yaml: document 2: spec.tasks[0].name``."""
    message: str


class InvalidInput(UsageError):
    """An input has problems; all of them are listed at once."""

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        self.what = what
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "".join(f"\n  {_of_a_problem(p)}" for p in self.problems[:_MOST_LISTED])
        lines += f"\n  and {count - _MOST_LISTED} more" if count > _MOST_LISTED else ""
        super().__init__(f"{what} is invalid ({count} problem{'s' if count != 1 else ''}){lines}")


_LONGEST_LINE = 800
_MOST_NAMES = 200
"""Most names that a hint lists: a file may have thousands of names, and thousands of wrong ones."""
_LONGEST_PLACE = _LONGEST_LINE
_MOST_LISTED = 1000
"""Problems in a message; `InvalidInput.problems` has all of them."""


def _of_a_problem(problem: Problem) -> str:
    """Return a problem as a line; the place is cut, which of a long text would be quoted once for each problem."""
    if not problem.where:
        return problem.message
    cut = len(problem.where) > _LONGEST_PLACE
    return f"{problem.where[:_LONGEST_PLACE]}{'…' if cut else ''}: {problem.message}"


def shortened(message: str) -> str:
    """Leave out the middle of lines that quote thousands of characters; advice is at their ends."""
    half = _LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:half]} … {len(line) - 2 * half} characters … {line[-half:]}"
        for line in message.splitlines()
    )


def one_line(error: BaseException) -> str:
    """Return the message of an error of a library or of the system in one line, without error numbers.

    For an error of a YAML parser that is the problem and its place; for a system error, its meaning and the file.
    """
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is not None and problem:
        return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"
    text = _of_the_system(error) if isinstance(error, OSError) else str(error)
    return " ".join((text or type(error).__name__).split())


_ERRNO = re.compile(r"\[Errno (-?\d+)\] ?")
_BARE = {
    ConnectionResetError: "the other side broke the connection off",
    ConnectionAbortedError: "the connection was broken off",
    BrokenPipeError: "the other side hung up",
    TimeoutError: "it took too long",
}
"""Texts for errors that libraries raise without a message."""
_OPENSSL = re.compile(r"^\[[\w: ]+\] |(?<=\S) \(_ssl\.c:\d+\)$")


def _of_the_system(error: OSError) -> str:
    text = _OPENSSL.sub("", error.strerror or str(error))
    if error.errno and text.startswith("Connect call failed"):  # asyncio's text, which has the address as a tuple
        text = os.strerror(error.errno)
    numbers = _ERRNO.findall(text)
    if numbers and "Connect call failed" in text:  # for a name with several addresses asyncio joins their errors
        text = ", ".join(dict.fromkeys(os.strerror(int(number)) for number in numbers))
    text = _ERRNO.sub("", text) or _BARE.get(type(error), "")
    return f"{error.filename}: {text}" if error.filename and str(error.filename) not in text else text


def called(value: object) -> str:
    """Return the name of a value's type in YAML or JSON: ``an object``, ``a list``, ``text``, ``nothing``."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint naming the closest known name, or all of them when none is close; of very many the first."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; known: {', '.join(names[:_MOST_NAMES])}{more}" if names else "; there are none"


@dataclass(frozen=True, slots=True)
class Cause:
    """One field of an object and what is wrong with it, as in ``Status.details.causes``."""

    reason: str
    """Kubernetes' cause type: ``FieldValueRequired``, ``FieldValueInvalid``, ``FieldValueNotSupported``, …"""
    message: str
    field: str = ""


class ApiError(StratoError):
    """An error answer of a Kubernetes API, ours or a remote one.

    Attributes:
        message: The text a person reads.
        reason: Kubernetes' machine-readable reason (``NotFound``, …).
        code: HTTP status.
        causes: One entry per offending field.
        details: Further members of ``Status.details`` (``name``, ``group``, ``kind``, ``uid``).
        retry_after_seconds: How long the server asks the client to wait before a retry, or None.
    """

    default_reason: ClassVar[str] = "InternalError"
    default_code: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        code: int | None = None,
        causes: Sequence[Cause] = (),
        details: dict[str, str] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason if reason is not None else self.default_reason
        self.code = code if code is not None else self.default_code
        self.causes = tuple(causes)
        self.details = details or {}
        self.retry_after_seconds = retry_after_seconds


class BadRequest(ApiError):
    """The request itself cannot be understood."""

    default_reason, default_code = "BadRequest", 400


class Unauthorized(ApiError):
    """No or unknown credentials."""

    default_reason, default_code = "Unauthorized", 401


class Forbidden(ApiError):
    """The user may not do this, or admission refused it."""

    default_reason, default_code = "Forbidden", 403


class NotFound(ApiError):
    """No such object, or no such resource."""

    default_reason, default_code = "NotFound", 404


class MethodNotAllowed(ApiError):
    """The resource exists but not with this verb."""

    default_reason, default_code = "MethodNotAllowed", 405


class NotAcceptable(ApiError):
    """No representation the client accepts."""

    default_reason, default_code = "NotAcceptable", 406


class AlreadyExists(ApiError):
    """An object of that name is there already."""

    default_reason, default_code = "AlreadyExists", 409


class Conflict(ApiError):
    """The object changed since it was read, or a precondition failed."""

    default_reason, default_code = "Conflict", 409


class Gone(ApiError):
    """The requested revision is too old to be served; the client has to list again."""

    default_reason, default_code = "Expired", 410

    continue_token = ""
    """Token that continues the list where it was, at a newer revision; ``Status.metadata.continue``."""


class TooLarge(ApiError):
    """The body is over the limit."""

    default_reason, default_code = "RequestEntityTooLarge", 413


class UnsupportedMedia(ApiError):
    """A content type that cannot be read here."""

    default_reason, default_code = "UnsupportedMediaType", 415


class Invalid(ApiError):
    """The object breaks its rules; ``causes`` lists every field."""

    default_reason, default_code = "Invalid", 422


class TooManyRequests(ApiError):
    """Try again later."""

    default_reason, default_code = "TooManyRequests", 429


class InternalError(ApiError):
    """The server failed."""

    default_reason, default_code = "InternalError", 500


class Unavailable(ApiError):
    """The server cannot be reached or is not ready."""

    default_reason, default_code = "ServiceUnavailable", 503


_SIGNS = {code: f"^{chr(code ^ 0x40)}" for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n"}
_SIGNS |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
"""Control characters as terminals show them."""


def harmless(text: str) -> str:
    """Return a text without terminal control sequences: users write messages and annotations that other users read."""
    return text if text.isprintable() else text.translate(_SIGNS)
