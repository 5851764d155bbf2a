"""Continue tokens: after which key a page of a list begins, of which revision it is, and when the list was begun."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from strato.decoding import UNDECODABLE
from strato.errors import BadRequest, Gone
from strato.server.preparation import encode

TTL_SECONDS = 300.0
"""How long after its first page a list can be continued at its revision; etcd keeps revisions as long by default."""
_VERSION = "meta.k8s.io/v1"
_LATEST = -1
"""The revision of a token that continues with the current state."""
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class Page(NamedTuple):
    """A page of a list."""

    start: str
    """The key after which the page begins."""
    revision: int
    """The first page's revision; negative for the current state."""
    begun: float
    """When the first page was requested."""
    prefix: str


FIRST = Page("", 0, 0.0, "")


def token(last_key: str, prefix: str, revision: int, begun: float) -> str:
    """Return the token for the objects after a key."""
    start = last_key.removeprefix(prefix)
    fields = {"v": _VERSION, "rv": revision, "start": start, "at": int(begun)}
    return base64.urlsafe_b64encode(encode(fields)).decode().rstrip("=")


def read_token(text: str, prefix: str) -> Page:
    """Return the page that a token asks for, among the objects whose keys have a prefix.

    Raises:
        BadRequest: The token is not one of this server's.
    """
    try:
        read = _decode(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        version, revision, start, begun = read["v"], read["rv"], read["start"], read.get("at", 0)
    except (*UNDECODABLE, binascii.Error, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _wrong("continue key is not valid: take it unchanged from the previous page") from error
    if version != _VERSION:
        raise _wrong(f"continue key is not valid: server does not recognize this encoded version {version!r}")
    if type(revision) is not int or type(begun) is not int or revision == 0 or revision < _LATEST:
        raise _wrong("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if type(start) is not str or not start:
        raise _wrong("empty start key (version meta.k8s.io/v1)")
    if any(part in ("", ".", "..") for part in start.split("/")):
        raise _wrong(f"continue key is not valid: {start}")
    return Page(prefix + start, revision, float(begun), prefix)


def check_age(page: Page, now: float, published: int) -> None:
    """Check that a list may still be continued.

    Raises:
        Gone: It was begun too long ago, or its revision was lost when the server was restored.
    """
    if now - page.begun > TTL_SECONDS or page.begun > now + TTL_SECONDS or page.revision > published:
        raise Gone("the list was begun too long ago")


def expired(page: Page) -> Gone:
    """Return the error for a revision that is no longer kept; it has a token to continue with the current state."""
    if not page.start:
        return Gone("The resourceVersion for the provided list is too old.")
    error = Gone(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    error.continue_token = token(page.start, page.prefix, _LATEST, page.begun)
    return error


def _wrong(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: {why}")
