"""The user and stop signal of an image's configuration, by the rules of container runtimes."""

from __future__ import annotations

import contextlib
import os
import signal

from strato.node import beneath
from strato.node.beneath import Scope
from strato.node.images.store import Image
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.security import ImageUser

_PASSWD_BYTES = 1 << 20
_MAX_ID = (1 << 32) - 2


def user_of(image: Image) -> ImageUser:
    """Return the user of an image's containers: ``user[:group]``, names in its own ``/etc/passwd`` or numbers.

    Raises:
        ConfigProblem: The image does not have that user.
    """
    user, _, group = image.config.user.partition(":")
    if not user or not image.root:
        return ImageUser()
    accounts = _lines(image.root, "etc/passwd", 4)
    entry = next((line for line in accounts if user in (line[2], line[0])), None)
    uid = _number(user, entry[2] if entry else "")
    gid = _number("", entry[3] if entry else "") or 0
    if group:
        named = next((line for line in _lines(image.root, "etc/group", 3) if line[0] == group), None)
        found = _number(group, named[2] if named else "")
        uid, gid = (None, 0) if found is None else (uid, found)
    if uid is None:
        raise ConfigProblem(f"image {image.name!r} is to run as {image.config.user!r}, whom it does not have")
    return ImageUser(uid, gid, "" if user.isdigit() else user)


def _number(text: str, otherwise: str) -> int | None:
    """Return the number of a user or group, given by number or by a name in the image's files."""
    for one in (text, otherwise):
        if one.isascii() and one.isdigit() and int(one) <= _MAX_ID:
            return int(one)
    return None


def _lines(root: str, path: str, fields: int) -> list[list[str]]:
    """Return the lines of a file of an image that have at least ``fields`` fields."""
    with contextlib.suppress(OSError), beneath.opened(root, os.O_PATH | os.O_DIRECTORY) as directory:
        found = beneath.open_at(directory, path, scope=Scope.IN_ROOT)
        try:
            with open(beneath.reopen_regular(found, path), "rb") as file:
                text = file.read(_PASSWD_BYTES).decode(errors="replace")
        finally:
            os.close(found)
        return [parts for line in text.splitlines() if len(parts := line.split(":")) >= fields]
    return []


def stop_signal(image: Image) -> int:
    """Return the signal that asks an image's containers to end; SIGTERM unless the image names another valid one."""
    text = image.config.stop_signal.upper().removeprefix("SIG")
    base, _, offset = text.partition("+")
    if text.isascii() and text.isdigit() and 0 < int(text) <= signal.NSIG:
        return int(text)
    with contextlib.suppress(KeyError, ValueError):
        number = signal.Signals[f"SIG{base}"] + int(offset or 0)
        if number < signal.NSIG:
            return number
    return signal.SIGTERM
