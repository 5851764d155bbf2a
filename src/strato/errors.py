"""The error tree of the whole system.

    StratoError                 everything we raise on purpose
    ├── UsageError              a person gave something unusable: command line, file, configuration
    │   └── InvalidInput        … with every problem listed, each with its place (file, document, path)
    ├── StateError              what was asked for cannot be done as things are: nothing of that name, a cluster runs
    ├── ApiError                what a Kubernetes API answers; carries reason, code and causes
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
    └── InvariantError          a broken assumption of ours: a bug, never caught to go on

Rooms subclass these. An error stores its facts as attributes; its message says what, where, which
value, what to do. `strato.api.status` maps an ApiError to a `Status` object and back.
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
    """What was asked for cannot be done as things are, however it is asked for."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input: where it is, and what to do about it."""

    where: str
    """File, document and path, as a reader finds it: ``job.yaml: document 2: spec.tasks[0].name``."""
    message: str


class InvalidInput(UsageError):
    """An input has problems; all of them are listed at once."""

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        self.what = what
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "".join(f"\n  {p.where}: {p.message}" if p.where else f"\n  {p.message}" for p in self.problems)
        super().__init__(f"{what} is invalid ({count} problem{'s' if count != 1 else ''}){lines}")


_LONGEST_LINE = 800


def shortened(message: str) -> str:
    """Leave out the middle of lines that quote thousands of characters; advice is at their ends."""
    half = _LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:half]} … {len(line) - 2 * half} characters … {line[-half:]}"
        for line in message.splitlines()
    )


def one_line(error: BaseException) -> str:
    """Return what an error of a library or of the system says in one line, without numbers that only programs know.

    Of a YAML parser's error these are problem and place, of the system's what its number means and the file.
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
"""Errors that libraries raise without a word."""
_OPENSSL = re.compile(r"^\[[\w: ]+\] |(?<=\S) \(_ssl\.c:\d+\)$")


def _of_the_system(error: OSError) -> str:
    text = _OPENSSL.sub("", error.strerror or str(error))
    if error.errno and text.startswith("Connect call failed"):  # asyncio's words, with the address as a tuple
        text = os.strerror(error.errno)
    numbers = _ERRNO.findall(text)
    if numbers and "Connect call failed" in text:  # of a name with several addresses
        text = ", ".join(dict.fromkeys(os.strerror(int(number)) for number in numbers))
    text = _ERRNO.sub("", text) or _BARE.get(type(error), "")
    return f"{error.filename}: {text}" if error.filename and str(error.filename) not in text else text


def called(value: object) -> str:
    """Return what people who write YAML or JSON call a value: ``an object``, ``a list``, ``text``, ``nothing``."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint naming the closest known name, or all of them when none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; there are none"


@dataclass(frozen=True, slots=True)
class Cause:
    """One field of an object and what is wrong with it, as in ``Status.details.causes``."""

    reason: str
    """``FieldValueRequired``, ``FieldValueInvalid``, ``FieldValueNotSupported``, … as Kubernetes words it."""
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
        retry_after_seconds: The server's wish, or None.
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
    """A revision too old to serve; list again."""

    default_reason, default_code = "Expired", 410

    continue_token = ""
    """Reads on from where a list was, though not consistently; ``Status.metadata.continue``."""


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
    """Return a text without commands to the terminal: users write messages, names and annotations that others read."""
    return text if text.isprintable() else text.translate(_SIGNS)
