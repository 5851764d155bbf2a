"""Reads manifests from files: multi-document YAML, JSON, Lists and directories; each object keeps its place in them.

Invalid contents never raise: each becomes a `Problem`, and reading goes on, so that all problems are listed at once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from strato.api import yamltext
from strato.api.meta import Json as Json
from strato.decoding import UNDECODABLE
from strato.errors import Problem, one_line

Located = tuple[str, Json]
"""Where an object was found (``file: document 2: items[3]``) and the object."""

SUFFIXES: Final = (".yaml", ".yml", ".json")
_MOST_VALUES: Final = 20_000_000
"""Most values in a file; values that YAML aliases repeat have a lower limit (`yamltext.MAX_REPEATED`)."""


@dataclass(slots=True)
class Manifests:
    """The contents of manifests.

    Attributes:
        objects: Every object, in the order of the files.
        problems: Everything that could not be read.
        headers: Headers of saved states (`strato.scheduler.dryrun.states`), about the run they were saved for.
    """

    objects: list[Located] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    headers: list[Located] = field(default_factory=list)


def read_paths(paths: Sequence[str]) -> Manifests:
    """Read files, directories (their manifest files, not deeper, by name) and ``-`` for standard input, in order."""
    found = Manifests()
    for path in paths:
        for name, text in _texts(path, found.problems):
            read_text(text, name, found)
    return found


def _texts(path: str, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield from _text("standard input", lambda: sys.stdin.buffer.read(), problems)
        return
    place = Path(path)
    try:
        files = [place]
        if place.is_dir():
            files = sorted(file for file in place.iterdir() if file.suffix in SUFFIXES and file.is_file())
            if not files:
                problems.append(Problem(path, f"the directory holds no manifests ({', '.join(SUFFIXES)})"))
    except (OSError, ValueError) as error:
        problems.append(Problem(path, f"cannot be read: {_reason(error)}"))
        return
    for file in files:
        yield from _text(str(file), file.read_bytes, problems)


def _text(name: str, read: Any, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    try:
        yield name, read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(Problem(name, f"is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"))
    except (OSError, ValueError) as error:
        problems.append(Problem(name, f"cannot be read: {_reason(error)}"))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def read_text(text: str, name: str, into: Manifests) -> None:
    """Read the objects of one text; ``name`` is its name in problems."""
    for number, document in _documents(text, name, into.problems):
        where = f"{name}: document {number}"
        if document is None:
            continue
        try:
            plain = _without_nulls(document)
        except RecursionError:  # from Python 3.12 on the decoder goes deeper than Python's own functions
            into.problems.append(Problem(where, "is nested too deeply"))
            continue
        _take(plain, where, into)


def _documents(text: str, name: str, problems: list[Problem]) -> Iterator[tuple[int, Any]]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            decoded = msgspec.json.decode(text)
        except (*UNDECODABLE, UnicodeError):
            several = _json_documents(text)  # or it is YAML in flow style
        else:
            several = [decoded]
        if several:
            yield from enumerate(several, 1)
            return
    number = 1
    try:
        for document in yamltext.load_all(text, max_values=_MOST_VALUES):
            yield number, document
            number += 1
    except yamltext.InvalidYaml as error:
        problems.append(Problem(f"{name}: document {number}", f"is neither YAML nor JSON: {one_line(error)}"))


def _json_documents(text: str) -> list[Any]:
    """Return several concatenated JSON documents, as ``jq`` writes them; none if the text is something else."""
    found, at = [], len(text) - len(text.lstrip())
    try:
        while at < len(text):
            document, at = _JSON.raw_decode(text, at)
            found.append(document)
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
    except (ValueError, RecursionError):
        return []
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)
_SPACE: Final = re.compile(r"\s*")


def _without_nulls(value: Any) -> Any:
    """Return a value without null fields, which Kubernetes treats as absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _take(document: Any, where: str, into: Manifests) -> None:
    problems = into.problems
    if isinstance(document, list):
        for i, item in enumerate(document):
            _take(item, f"{where}: [{i}]", into)
    elif not isinstance(document, dict):
        problems.append(Problem(where, f"is not an object but {describe(document)}"))
    elif not isinstance(kind := document.get("kind"), str) or not kind:
        problems.append(Problem(f"{where}: kind", "is missing" if kind is None else f"is not a name: {describe(kind)}"))
    elif kind.endswith("List") and "items" in document:
        if isinstance(document.get("strato"), dict):
            into.headers.append((where, document["strato"]))
        _take_list(document, kind.removesuffix("List"), where, into)
    else:
        version = document.get("apiVersion", "")
        if not isinstance(version, str) or not version:
            text = "is missing" if version == "" else f"is not a name: {describe(version)}"
            problems.append(Problem(f"{where}: apiVersion", text))
        into.objects.append((where, document if isinstance(version, str) else {**document, "apiVersion": ""}))


def _take_list(document: Json, single: str, where: str, into: Manifests) -> None:
    items = document["items"]
    if not isinstance(items, list):
        into.problems.append(Problem(f"{where}: items", f"is not a list but {describe(items)}"))
        return
    for i, item in enumerate(items):
        if single and isinstance(item, dict):  # items of a typed list may leave their type out
            item = {"apiVersion": document.get("apiVersion", ""), "kind": single, **item}
        _take(item, f"{where}: items[{i}]", into)


def describe(value: object) -> str:
    """Return a value in words, for messages: ``the text "5"``, ``the number 5``, ``a list``."""
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {str(value)[:60]}"
    return {dict: "an object", list: "a list", type(None): "null"}.get(type(value), type(value).__name__)
