"""Parse Hadoop's XML files: elements with their line numbers, and configuration files as settings.

Files are untrusted: entities and document types are refused (defusedxml), sizes, depth and counts are bounded, and
every error names file and line. `fair` and `capacity` interpret the elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from strato.errors import InvalidInput, Problem, one_line

MOST_BYTES = 16 << 20
"""Largest file that is read; allocation files of the largest clusters have some 100 KB."""
MOST_DEPTH = 64
MOST_ELEMENTS = 200_000
MOST_NAME = 1024
"""Longest name of a property; bounded because readers examine its parts one by one."""
MOST_SUBSTITUTIONS = 20
"""Most passes that replace `${name}` in the result of the pass before; the bound is Hadoop's."""
MOST_SUBSTITUTED = 1 << 16
"""Longest result of replacing `${name}`: thousands of values could each refer to a long one twenty times."""

_REFERENCE = re.compile(r"\$\{([^{}$]{1,256})\}")
HEARTBEAT: Final = "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"
"""Property of ``yarn-site.xml``: interval of a node's heartbeats, in response to which it gets containers."""


@dataclass(slots=True)
class Element:
    """One element of a file. Not modified after the file has been read."""

    name: str
    line: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    """Text before the first child, unstripped; None without any."""
    children: list[Element] = field(default_factory=list)

    def all_named(self, *names: str) -> Iterator[Element]:
        """Yield the children of these names, in order."""
        return (child for child in self.children if child.name in names)


@dataclass(frozen=True, slots=True)
class Setting:
    """One property of a Hadoop configuration file."""

    name: str
    value: str
    line: int


class HadoopSettings:
    """The properties of a configuration file by name; `${other}` in values is replaced as Hadoop does."""

    def __init__(self, file: str = "", settings: Mapping[str, Setting] | None = None) -> None:
        self.file = file
        self.by_name: dict[str, Setting] = dict(settings or {})

    @classmethod
    def from_mapping(cls, values: Mapping[str, str], file: str = "") -> HadoopSettings:
        """Return settings that do not come from a file."""
        return cls(file, {name: Setting(name, value, 0) for name, value in values.items()})

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.by_name.values())

    def raw(self, name: str) -> str | None:
        """Return a value as written, blanks included (a blank access list means nobody); None when it is not set."""
        found = self.by_name.get(name)
        return None if found is None else self._substituted(found.value)

    def get(self, name: str, default: str = "") -> str:
        """Return a value without blanks around it, or the default when it is not set or blank."""
        return (self.raw(name) or "").strip() or default

    def where(self, name: str) -> str:
        """Return the place of a value, for messages: ``yarn-site.xml, line 12: name``."""
        found = self.by_name.get(name)
        return f"{place(self.file, found.line)}: {name}" if found and found.line else name

    def _substituted(self, value: str) -> str:
        for _ in range(MOST_SUBSTITUTIONS):
            found = next((ref for ref in _REFERENCE.finditer(value) if ref.group(1) in self.by_name), None)
            if found is None:
                break
            value = value[: found.start()] + self.by_name[found.group(1)].value + value[found.end() :]
            if len(value) > MOST_SUBSTITUTED:
                raise InvalidInput(self.file or "configuration", [Problem("", "${…} in it makes values without end")])
        return value


def place(file: str, line: int) -> str:
    """Return the text by which messages name a place in a file."""
    return f"{file}, line {line}" if file else f"line {line}"


def read_file(path: Path) -> Element:
    """Return the root element of a file.

    Raises:
        InvalidInput: The file cannot be read, is too large or is no XML.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(str(path), [Problem("", f"cannot be read: {one_line(error)}")]) from error
    return parse(content, str(path))


def parse(content: bytes | str, file: str = "") -> Element:
    """Return the root element of a text.

    Args:
        content: The text; bytes are decoded as their XML declaration says.
        file: The file's name, for messages.

    Raises:
        InvalidInput: It is too large, too deep, no XML, or declares a document type or entities.
    """
    if len(content) > MOST_BYTES:
        raise _unusable(file, 0, f"has more than {MOST_BYTES >> 20} MiB; no configuration file of Hadoop is that large")
    builder = _Builder(file)
    parser = DefusedXMLParser(target=builder, forbid_dtd=True)
    builder.expat = parser.parser
    try:
        parser.feed(content)
        parser.close()
    except ParseError as error:
        raise _unusable(file, error.position[0], f"no XML: {str(error).partition(': line')[0]}") from error
    except DefusedXmlException as error:
        line = parser.parser.CurrentLineNumber
        message = "declares a document type or entities; leave the declaration out, files are read without them"
        raise _unusable(file, line, message) from error
    except (LookupError, UnicodeError, ValueError) as error:
        raise _unusable(file, 0, f"no XML: {one_line(error)}") from error
    if builder.root is None:
        raise _unusable(file, 0, "no XML: there is no element")
    return builder.root


def _unusable(file: str, line: int, message: str) -> InvalidInput:
    return InvalidInput(file or "XML", [Problem(f"line {line}" if line else "", message)])


class _Builder:
    """Builds elements from the parser's events."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.expat: object = None
        self.root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        """Text of each open element in the pieces in which the parser delivers it: one per line and reference."""
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = int(getattr(self.expat, "CurrentLineNumber", 0))
        self._count += 1
        if self._count > MOST_ELEMENTS:
            raise _unusable(self.file, line, f"has more than {MOST_ELEMENTS} elements")
        if len(self._open) >= MOST_DEPTH:
            raise _unusable(self.file, line, f"elements lie in more than {MOST_DEPTH} others")
        element = Element(tag, line, dict(attributes))
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def end(self, tag: str) -> None:
        element, texts = self._open.pop(), self._texts.pop()
        element.text = "".join(texts) if texts else None

    def data(self, text: str) -> None:
        if self._open and not self._open[-1].children:
            self._texts[-1].append(text)

    def close(self) -> None:
        """Do nothing; the parser requires this method."""


def settings_of(root: Element, file: str = "") -> HadoopSettings:
    """Return the properties of a ``<configuration>``; a later one of a name wins, unless the earlier is final.

    Raises:
        InvalidInput: The root is another element, or properties have no name or no value.
    """
    if root.name != "configuration":
        raise _unusable(file, root.line, f"the root element is <{root.name}>, expected <configuration>")
    problems: list[Problem] = []
    found: dict[str, Setting] = {}
    final: set[str] = set()
    for element in root.children:
        if element.name != "property":
            if element.name.rpartition("}")[2] == "include":
                problems.append(Problem(f"line {element.line}", "<include> is not followed; write the properties here"))
            continue
        name, value, is_final = _property(element)
        if name is None or not name.strip():
            problems.append(Problem(f"line {element.line}", "a <property> without <name>"))
        elif len(name) > MOST_NAME:
            problems.append(Problem(f"line {element.line}", f"a <name> of more than {MOST_NAME} characters"))
        elif value is not None and name.strip() not in final:
            found[name.strip()] = Setting(name.strip(), value, element.line)
            final |= {name.strip()} if is_final else set()
    if problems:
        raise InvalidInput(file or "configuration", problems)
    return HadoopSettings(file, found)


def _property(element: Element) -> tuple[str | None, str | None, bool]:
    parts: dict[str, str | None] = dict(element.attributes)
    for child in element.children:
        parts[child.name] = child.text or ""
    return parts.get("name"), parts.get("value"), (parts.get("final") or "").strip() == "true"
