"""`KeptParts`: keeps the results of a reproduction's parts in a folder, so that a kill loses only those in progress."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import msgspec

from strato import __version__
from strato.decoding import UNDECODABLE
from strato.errors import StateError
from strato.sim.results.storing import replace_file

R = TypeVar("R")

_FORMAT: Final = 1
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class KeptParts:
    """A folder with a file for each part that has ended.

    Attributes:
        folder: The folder.
        inputs: Digest of the inputs that all parts share: version, paper and data.
        resume: Whether results in the folder are used instead of computing them again.
    """

    folder: Path
    inputs: str
    resume: bool

    def of(self, function: Callable[[Any], R], part: Any) -> R:
        """Return the result of a function for a part: computed and kept now, or kept before.

        Args:
            function: Its return annotation must be numbers, texts, tuples, or dataclasses of these; it decodes files.
            part: A dataclass. Its values name the result, except paths: the files there are part of ``inputs``.

        Raises:
            StateError: The result cannot be written, for example because the disk is full.
        """
        values = [getattr(part, field.name) for field in fields(part)]
        plain = [value for value in values if not isinstance(value, Path)]
        key = _digest(_FORMAT, self.inputs, function.__qualname__, plain)
        path = self.folder / f"{key.hex()}.part"
        kind: type[R] = get_type_hints(function)["return"]
        found = _read(path, key, kind) if self.resume else None
        if found is None:
            found = function(part)
            replace_file(path, key + zlib.compress(msgspec.msgpack.encode(found)))
        return found


def kept_parts(folder: Path, name: str, data: Path | None, *, resume: bool) -> KeptParts:
    """Return the kept parts of a paper's table; the folder is made.

    Args:
        folder: The folder for the results.
        name: The paper's name.
        data: The folder of its data set; the content of all its files is an input of the parts.
        resume: Whether results in the folder are used instead of computing them again.

    Raises:
        StateError: The folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{folder} cannot be made: {error.strerror}") from error
    files = sorted(path for path in data.rglob("*") if path.is_file()) if data is not None else []
    contents = [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in files]
    return KeptParts(folder, _digest(__version__, name, contents).hex(), resume)


def _digest(*parts: Any) -> bytes:
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def _read(path: Path, key: bytes, kind: type[R]) -> R | None:
    """Return a kept result; None if there is none, or its file is damaged."""
    try:
        data = path.read_bytes()
        if data[:_DIGEST_BYTES] != key:
            return None
        return msgspec.msgpack.decode(zlib.decompress(data[_DIGEST_BYTES:]), type=kind)
    except (*UNDECODABLE, OSError, zlib.error):
        return None
