"""Format output of Volcano's programs as Go does: padded columns, times, lists, JSON and YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import yaml

from strato.client.cluster import Json
from strato.clock import SystemClock, parse_time
from strato.units import human_duration

NOTHING_FOUND = "No resources found\n"
_NO_TIME = "0001-01-01 00:00:00 +0000 UTC"
_OTHER_THAN_TEXT = re.compile(
    r"|[yn]|[+-]?(\d[\d_]*+(?:\.[\d_]*+)?|\.\d+)([eE][+-]?\d+)?|\d+(:[0-5]?\d)+(\.\d*)?", re.IGNORECASE
)
"""Strings that Go's YAML library reads as another type and PyYAML does not."""


def columns(widths: Sequence[int], rows: Sequence[Sequence[object]]) -> str:
    """Return rows of left-justified cells; the last one is padded too."""
    return "".join("".join(f"{cell!s:{width}}" for cell, width in zip(row, widths, strict=True)) + "\n" for row in rows)


def fitted(header: Sequence[str], rows: Sequence[Sequence[object]], gap: int) -> str:
    """Return rows below their header, each column as wide as its longest cell and a gap."""
    lines = [header, *rows]
    return columns([max(len(str(cell)) for cell in column) + gap for column in zip(*lines, strict=True)], lines)


def local_time(stamp: str | None) -> str:
    """Return an RFC 3339 timestamp as Go prints a time, in this machine's zone."""
    return f"{_local(stamp):%Y-%m-%d %H:%M:%S %z %Z}" if stamp else _NO_TIME


def local_date(stamp: str | None) -> str:
    """Return the date of an RFC 3339 timestamp, in this machine's zone."""
    return f"{_local(stamp):%Y-%m-%d}" if stamp else _NO_TIME[:10]


def _local(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp).astimezone()


def age(stamp: str | None) -> str:
    """Return how long ago an RFC 3339 timestamp was."""
    return human_duration(SystemClock().now() - parse_time(stamp)) if stamp else "<unknown>"


def words(values: Sequence[str] | None) -> str:
    """Return a list as Go's ``%v`` prints it."""
    return f"[{' '.join(values or ())}]"


def compact_json(value: object) -> str:
    """Return JSON with sorted keys and the characters of HTML escaped."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)


def indented_json(item: Json) -> str:
    """Return an object as ``json.MarshalIndent`` does."""
    text = json.dumps(item, indent=2, ensure_ascii=False)
    return re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes strings as Go's YAML library: in double quotes only when they would be read as something else."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    tag = "tag:yaml.org,2002:str"
    resolved = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # not in the stubs
    other = resolved != tag or _OTHER_THAN_TEXT.fullmatch(text)
    return dumper.represent_scalar(tag, text, style="|" if "\n" in text else '"' if other else None)


_Dumper.add_representer(str, _represent_text)


def sorted_yaml(item: Json) -> str:
    """Return an object as YAML with sorted keys and unwrapped lines."""
    text: Any = yaml.dump(item, Dumper=_Dumper, width=10**9, allow_unicode=True, default_flow_style=False)
    return str(text)
