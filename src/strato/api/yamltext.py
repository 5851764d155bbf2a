"""Read YAML of users as JSON values; depth, number of values and expansions are bounded before values are made.

PyYAML's composer recurses in C, and its resolver reads base-60 numbers and dates, so only its event parser is used.
Scalars are resolved as by ``sigs.k8s.io/yaml``: YAML 1.1 booleans, integers of 64 bits, no base 60; timestamps stay
text.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import yaml

MAX_DEPTH = 128
"""Deepest nesting of lists and maps; the deepest real objects, schemas of definitions, stay below 70."""
MAX_VALUES = 2_000_000
"""Most values of one stream, including those that aliases and merge keys repeat."""
MAX_REPEATED = 500_000
"""Most values that aliases and merge keys may repeat, which takes half a second. Without a bound a few lines could
expand to more than any memory holds."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times faster, where it was built
_TAG = "tag:yaml.org,2002:"
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([0-9]+))", re.ASCII)
_BASES = (16, 2, 8, 10)
_EVENTS_AT_ONCE = 256
"""Events composed between two yields: about a millisecond."""
_LONGEST_INTEGER = 70
"""Longest text of an integer; 64 bits in base 2 with a sign and a prefix are 67 characters."""
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_TYPES: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "null": (type(None),)}
_MERGE = object()
"""The key ``<<``."""
_NO_KEY = object()


class InvalidYaml(yaml.YAMLError, ValueError):
    """A text is no YAML, cannot be represented as JSON, or exceeds a limit."""


class Document(NamedTuple):
    """One document."""

    value: Any
    duplicates: list[str]
    """``line 3: key "a" already set in map`` for each key that a map has twice; the last one counts."""


def load(text: str | bytes, *, max_values: int = MAX_VALUES) -> Any:
    """Return the only document of a text; None for an empty text.

    Raises:
        InvalidYaml: The text is no YAML, has several documents, or exceeds a limit.
    """
    return load_document(text, max_values=max_values).value


def load_document(text: str | bytes, *, max_values: int = MAX_VALUES) -> Document:
    """Do the same as `load`, and report duplicate keys."""
    steps = load_in_steps(text, max_values=max_values)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            document: Document = end.value
            return document


def load_in_steps(text: str | bytes, *, max_values: int = MAX_VALUES) -> Generator[None, None, Document]:
    """Do the same as `load_document`, and yield every few milliseconds."""
    found: Document | None = None
    for document in _documents(text, max_values):
        if document is None:
            yield
        elif found is not None:
            raise InvalidYaml("expected a single document in the stream but found another document")
        else:
            found = document
    return found or Document(None, [])


def load_all(text: str | bytes, *, max_values: int = MAX_VALUES) -> Iterator[Any]:
    """Yield the documents of a text.

    Raises:
        InvalidYaml: The text is no YAML, or exceeds a limit.
    """
    return (document.value for document in load_documents(text, max_values=max_values))


def load_documents(text: str | bytes, *, max_values: int = MAX_VALUES) -> Iterator[Document]:
    """Yield the documents of a text, with their duplicate keys."""
    return (document for document in _documents(text, max_values) if document is not None)


def _documents(text: str | bytes, max_values: int) -> Iterator[Document | None]:
    """Yield the documents and, every `_EVENTS_AT_ONCE` events, None."""
    composer = _Composer(max_values)
    loader = None
    events = 0
    try:
        loader = _Loader(text)
        while loader.check_event():
            event = loader.get_event()
            events += 1
            if events % _EVENTS_AT_ONCE == 0:
                yield None
            if isinstance(event, yaml.DocumentEndEvent):
                yield Document(composer.root, composer.duplicates)
                composer = _Composer(composer.left, composer.repeats_left)
            else:
                composer.take(event)
    except InvalidYaml:
        raise
    except (yaml.YAMLError, UnicodeError, OverflowError, RecursionError) as error:
        raise InvalidYaml(_worded(error)) from error
    finally:
        if loader is not None:
            loader.dispose()


def _worded(error: Exception) -> str:
    """Return ``line 2: did not find expected node content``."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return str(error)


class _Anchored(NamedTuple):
    value: Any
    size: int
    height: int


class _Open:
    """A list or map whose end event has not been read yet."""

    __slots__ = ("anchor", "before", "height", "items", "key", "merged")

    def __init__(self, items: Any, anchor: str | None, before: int) -> None:
        self.items, self.anchor, self.before = items, anchor, before
        self.key: Any = _NO_KEY
        self.merged: list[dict[str, Any]] = []
        self.height = 1


class _Composer:
    """Makes values from events, one after the other, without recursion."""

    def __init__(self, left: int, repeats_left: int = MAX_REPEATED) -> None:
        self.left = left
        """Number of values that may still follow."""
        self.repeats_left = repeats_left
        """Number of values that aliases may still repeat."""
        self.root: Any = None
        self.duplicates: list[str] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}

    def take(self, event: Any) -> None:
        """Handle the next event of the document."""
        if isinstance(event, yaml.ScalarEvent):
            self._spend(1)
            is_key = bool(self._open) and isinstance(self._open[-1].items, dict) and self._open[-1].key is _NO_KEY
            value = _scalar(event, is_key=is_key)
            if event.anchor is not None and value is not _MERGE:
                self._anchors[event.anchor] = _Anchored(value, 1, 0)
            self._put(value, 0, event)
        elif isinstance(event, yaml.AliasEvent):
            self._repeat(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end(event)

    def _spend(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise InvalidYaml("document contains excessive aliasing or too many values")

    def _begin(self, event: Any) -> None:
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _TAG + ("map" if is_map else "seq")):
            raise InvalidYaml(f"{_line(event)}: could not determine a constructor for the tag {event.tag!r}")
        if self._open and self._open[-1].key is _NO_KEY and isinstance(self._open[-1].items, dict):
            raise InvalidYaml(f"{_line(event)}: a key of a map must be text, not a list or a map")
        if len(self._open) >= MAX_DEPTH:
            raise InvalidYaml(f"exceeded max depth of {MAX_DEPTH}")
        self._spend(1)
        self._open.append(_Open({} if is_map else [], event.anchor, self.left))

    def _end(self, event: Any) -> None:
        ended = self._open.pop()
        items = ended.items
        for merged in ended.merged:
            for key, value in merged.items():
                items.setdefault(key, value)
        if ended.anchor is not None:
            self._anchors[ended.anchor] = _Anchored(items, ended.before - self.left + 1, ended.height)
        self._put(items, ended.height, event)

    def _repeat(self, event: Any) -> None:
        """Add a copy of an anchored value; counts its size against the bounds before the copy is made."""
        known = self._anchors.get(event.anchor)
        if known is None:
            raise InvalidYaml(f"{_line(event)}: unknown anchor '{event.anchor}' referenced")
        self._spend(known.size)
        self.repeats_left -= known.size
        if self.repeats_left < 0:
            text = f"excessive aliasing: more than {MAX_REPEATED:,} values are repeated; write out what is meant"
            raise InvalidYaml(f"{_line(event)}: {text}")
        if len(self._open) + known.height > MAX_DEPTH:
            raise InvalidYaml(f"exceeded max depth of {MAX_DEPTH}")
        self._put(_copied(known.value), known.height, event)

    def _put(self, value: Any, height: int, event: Any) -> None:
        """Add a value to the open list or map."""
        if not self._open:
            self.root = value
            return
        place = self._open[-1]
        place.height = max(place.height, height + 1)
        if isinstance(place.items, list):
            place.items.append(value)
        elif place.key is _NO_KEY:
            place.key = value if value is _MERGE else self._key(place.items, value, event)
        else:
            if place.key is _MERGE:
                self._merge(place, value, event)
            else:
                place.items[place.key] = value
            place.key = _NO_KEY

    def _key(self, items: dict[str, Any], value: Any, event: Any) -> str:
        key = _key_text(value)
        if key is None:
            raise InvalidYaml(f"{_line(event)}: a key of a map must be text, not {value!r}")
        if key in items:
            self.duplicates.append(f'{_line(event)}: key "{key}" already set in map')
        return key

    @staticmethod
    def _merge(place: _Open, value: Any, event: Any) -> None:
        """Store the maps that ``<<`` names; the map's own keys override theirs, earlier maps override later ones."""
        maps = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in maps):
            raise InvalidYaml(f"{_line(event)}: map merge requires map or sequence of maps as the value")
        place.merged.extend(maps)


def _copied(value: Any) -> Any:
    if value.__class__ is dict:
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if value.__class__ is list else value


def _scalar(event: Any, *, is_key: bool) -> Any:
    text, tag = event.value, event.tag
    is_plain = event.implicit[0]
    if (tag is None and not is_plain) or tag in ("!", _TAG + "str", _TAG + "timestamp"):
        return text
    if tag is None:
        return _MERGE if is_key and text == "<<" else _number_or_text(event, text)
    if tag == _TAG + "merge" and is_key:
        return _MERGE
    if tag == _TAG + "binary":
        try:
            return base64.b64decode(text).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            raise InvalidYaml(f"{_line(event)}: !!binary value contains invalid base64 data") from error
    kind = tag.removeprefix(_TAG)
    if kind not in _TYPES:
        raise InvalidYaml(f"{_line(event)}: could not determine a constructor for the tag {tag!r}")
    value: Any = _number_or_text(event, text)
    if not isinstance(value, _TYPES[kind]) or (kind != "bool" and isinstance(value, bool)):
        raise InvalidYaml(f"{_line(event)}: cannot decode {text[:40]!r} as a !!{kind}")
    return float(value) if kind == "float" and isinstance(value, int) else value


def _number_or_text(event: Any, text: str) -> Any:
    value = _resolved(text)
    if value.__class__ is float and not math.isfinite(value):
        raise InvalidYaml(f"{_line(event)}: {text} is not a JSON number")
    return value


def _resolved(text: str) -> Any:
    """Return the value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    number = _INTEGER.fullmatch(plain) if len(plain) <= _LONGEST_INTEGER else None
    if number is not None:
        digits = next((at for at in range(4) if number[at + 2] is not None), 3)
        if digits == 3 and len(number[5]) > 1 and number[5][0] == "0":
            return float(plain)  # a number such as 089, which is no valid octal number
        whole = int(number[1] + number[digits + 2], _BASES[digits])
        if -(1 << 63) <= whole < 1 << 64:
            return whole
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        if math.isfinite(value):
            return value
    return text


def _key_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return None


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"
