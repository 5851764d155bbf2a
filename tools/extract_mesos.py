"""Extract the field numbers of Mesos' v1 messages into the package.

Source: a checkout of ``apache/mesos`` (Apache-2.0), folder ``include/mesos/v1``.

Writes ``src/strato/interop/mesos/wire/data/messages.json.gz``:

- ``messages``: message to {field number: [name, type, label]}. A type with a capital letter is a message or an enum by
  its full name without ``mesos.v1.``, any other one a protobuf scalar. Labels: ``q`` required, ``o`` optional, ``l``
  repeated, ``m`` map with string keys;
- ``enums``: enum to {name: number}.

Usage: ``python tools/extract_mesos.py FOLDER``.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src/strato/interop/mesos/wire/data/messages.json.gz"
FILES = ("mesos", "allocator/allocator", "quota/quota", "maintenance/maintenance", "scheduler/scheduler",
         "executor/executor", "master/master", "agent/agent")  # fmt: skip
DURATION = {"1": ["seconds", "int64", "o"], "2": ["nanos", "int32", "o"]}
LABELS = {"required": "q", "optional": "o", "repeated": "l", "": "o"}

_COMMENTS = re.compile(r"//.*?$|/\*.*?\*/", re.MULTILINE | re.DOTALL)
_PART = re.compile(
    r"\s*(?:(?P<open>message|enum|oneof)\s+(?P<name>\w+)\s*\{"
    r"|(?P<skip>(?:syntax|import|option|reserved|extensions)\b[^;]*;)"
    r"|package\s+(?P<package>[\w.]+)\s*;"
    r"|(?P<label>optional|repeated|required)?\s*(?P<map>map\s*<\s*string\s*,)?\s*(?P<type>[\w.]+)>?\s+(?P<field>\w+)"
    r"\s*=\s*(?P<number>\d+)[^;]*;"
    r"|(?P<value>\w+)\s*=\s*(?P<is>-?\d+)[^;]*;"
    r"|(?P<close>\});?)"
)


def main() -> None:
    """Read the files and write the table."""
    folder = Path(sys.argv[1])
    messages: dict[str, Any] = {"Duration": DURATION}
    enums: dict[str, dict[str, int]] = {}
    for name in FILES:
        _read(_COMMENTS.sub("", (folder / f"{name}.proto").read_text()), messages, enums)
    known = messages.keys() | enums.keys()
    for scope, fields in messages.items():
        for row in fields.values():
            row[1] = _resolved(row[1], scope, known)
    data = json.dumps({"messages": messages, "enums": enums}, separators=(",", ":")).encode()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{len(messages)} messages, {len(enums)} enums: {len(data)} bytes, {TARGET.stat().st_size} compressed")


def _read(text: str, messages: dict[str, Any], enums: dict[str, dict[str, int]]) -> None:
    scope: list[str] = []
    at = 0
    while text[at:].strip():
        part = _PART.match(text, at)
        if part is None:
            raise SystemExit(f"cannot read {text[at : at + 80]!r}")
        at = part.end()
        here = ".".join(name for name in scope if name)
        if part["package"]:
            scope = [part["package"].removeprefix("mesos.v1").removeprefix(".")]
        elif part["open"] == "oneof":
            scope.append("")
        elif part["open"]:
            scope.append(part["name"])
            (messages if part["open"] == "message" else enums)[".".join(name for name in scope if name)] = {}
        elif part["field"]:
            label = "m" if part["map"] else LABELS[part["label"] or ""]
            messages[here][part["number"]] = [part["field"], part["type"], label]
        elif part["value"]:
            enums[here][part["value"]] = int(part["is"])
        elif part["close"]:
            scope.pop()


def _resolved(kind: str, scope: str, known: set[str]) -> str:
    """Return a type's full name, looked up from the inside out, as protobuf does."""
    if kind == "google.protobuf.Duration":
        return "Duration"
    if kind.islower() or (kind[0].islower() and "." not in kind):
        return kind
    parts = [] if kind.startswith("mesos.v1.") else scope.split(".")
    kind = kind.removeprefix("mesos.v1.")
    for depth in range(len(parts), -1, -1):
        name = ".".join([*parts[:depth], kind])
        if name in known:
            return name
    raise SystemExit(f"{scope}: unknown type {kind}")


if __name__ == "__main__":
    main()
