"""Extract the protobuf forms of Kubernetes' built-in types into the package.

Source: the Go modules ``k8s.io/api``, ``k8s.io/apimachinery``, ``k8s.io/apiextensions-apiserver``,
``k8s.io/kube-aggregator`` and ``k8s.io/metrics`` (Apache-2.0). Field numbers and types come from the files
``generated.proto``; names in JSON, and what may be left out there, from the tags of the Go types beside them; groups
from ``register.go``.

Writes ``src/strato/server/protobuf/data/messages.json.gz``:

- ``messages``: message to {field number: [name in JSON, type, flags]}. A type starting with a capital is a message of
  the same package, one with a dot a message of another, any other one a protobuf scalar. Flags: ``l`` list, ``m`` map
  with string keys, ``i`` inlined in JSON, ``p`` pointer (present means set, even when zero), ``o`` left out when zero,
  ``w`` of a message that is no struct in Go (a named list, or a type with its own form in JSON);
- ``kinds``: group/version/Kind to message.

Usage: ``python tools/extract_protobuf.py [--version v0.36.3] [--source DIR]`` (DIR holds ``api@VERSION`` and so on;
without it the tool needs Go and its proxy).
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).parent.parent / "src/strato/server/protobuf/data/messages.json.gz"
MODULES = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator", "metrics")
SKIPPED = ("testapigroup",)

_PACKAGE = re.compile(r"^package k8s\.io\.([\w.]+);", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^ +(?:(optional|repeated|required) )?(map<string, *)?\.?([\w.]+)>? (\w+) = (\d+)", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r"^\t(?:\w+[ \t]+)?(\S+)[ \t]+`(.*)`", re.MULTILINE)
_GROUP = re.compile(r"^\s*(?:const )?GroupName\s*=\s*\"([^\"]*)\"", re.MULTILINE)


class Member(NamedTuple):
    """What Go says of one field: its name in JSON and flags."""

    name: str
    flags: str


def main() -> None:
    """Read the modules and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="v0.36.3")
    parser.add_argument("--source", type=Path, help="folder of the modules")
    arguments = parser.parse_args()
    messages: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for path in sorted(_sources(arguments.source, arguments.version)):
        _package(path, messages, kinds)
    content = {"version": arguments.version, "messages": messages, "kinds": kinds}
    data = json.dumps(content, separators=(",", ":")).encode()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(gzip.compress(data, 9, mtime=0))
    size = TARGET.stat().st_size
    print(f"{len(messages)} messages, {len(kinds)} kinds: {len(data)} bytes, {size} compressed")


def _sources(folder: Path | None, version: str) -> Iterator[Path]:
    for module in MODULES:
        root = folder / f"{module}@{version}" if folder else _download(f"k8s.io/{module}@{version}")
        for path in root.rglob("generated.proto"):
            if not set(path.parts) & set(SKIPPED):
                yield path


def _download(module: str) -> Path:
    command = ["go", "mod", "download", "-json", module]
    return Path(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["Dir"])


def _package(path: Path, messages: dict[str, Any], kinds: dict[str, str]) -> None:
    text = path.read_text()
    found = _PACKAGE.search(text)
    if found is None:
        raise SystemExit(f"{path}: no package of Kubernetes")
    package = found[1]
    structs, typed = _structs(path.parent)
    for message in _MESSAGE.finditer(text):
        name, body = message[1], _without_comments(message[2])
        messages[f"{package}.{name}"] = _fields(package, structs.get(name, {}), body)
    group = _group(path.parent)
    if group is not None:
        version = path.parent.name
        names = (name for name in typed if f"{package}.{name}" in messages)
        kinds.update({f"{group}/{version}/{name}": f"{package}.{name}" for name in sorted(names)})


def _fields(package: str, members: dict[str, Member], body: str) -> dict[str, list[str]]:
    fields = {}
    for label, is_map, kind, proto_name, number in _FIELD.findall(body):
        member = members.get(number, Member(proto_name, "o" if members else "w"))
        flags = ("m" if is_map else "l" if label == "repeated" else "") + member.flags
        fields[number] = [member.name, kind.removeprefix("k8s.io.").removeprefix(package + "."), flags]
    return fields


def _structs(folder: Path) -> tuple[dict[str, dict[str, Member]], set[str]]:
    """Return the folder's Go structs (by name: field number to member) and the names of those that are kinds."""
    structs, typed = {}, set()
    for path in sorted(folder.glob("*.go")):
        if path.name.startswith(("generated", "zz_")) or path.name.endswith("_test.go"):
            continue
        for name, body in _STRUCT.findall(path.read_text()):
            structs[name] = dict(_members(_without_comments(body)))
            if re.search(r"^\t(?:metav1\.|v1\.)?TypeMeta\b", body, re.MULTILINE):
                typed.add(name)
    return structs, typed


def _members(body: str) -> Iterator[tuple[str, Member]]:
    for kind, tags in _MEMBER.findall(body):
        values = dict(re.findall(r'(\w+):"([^"]*)"', tags))
        if "protobuf" not in values or ("json" not in values and not kind.startswith("*")):
            continue
        proto_name = values["protobuf"].rpartition("name=")[2].partition(",")[0]
        name, *options = values.get("json", proto_name).split(",")
        inline = "inline" in options and not name
        omitted = "omitempty" in options or "omitzero" in options
        flags = ("i" if inline else "") + ("p" if kind.startswith("*") else "") + ("o" if omitted else "")
        yield values["protobuf"].split(",")[1], Member(name, flags)


def _group(folder: Path) -> str | None:
    register = folder / "register.go"
    found = _GROUP.search(register.read_text()) if register.exists() else None
    return found[1] if found else None


def _without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
