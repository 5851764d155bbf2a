"""Extract the built-in types' OpenAPI schemas from the sources of Kubernetes into the package.

Source: the Go module ``k8s.io/kubernetes`` (Apache-2.0), files ``api/openapi-spec/v3/*_openapi.json``, which the
project generates from its own types. The PyPI package ``kubernetes-validate`` carries the same types, but already
turned into plain JSON schema (nullable types, no defaults, no list-item defaults), so the source is used instead.

Writes two files into ``src/strato/server/openapi/data``:

- ``schemas.json.gz``: every schema as published, for ``/openapi/v2`` and ``/openapi/v3``;
- ``shapes.json.gz``: types and merge keys only, a tenth of the size, for checking and patching objects.

Usage: ``python tools/extract_openapi.py [--version v1.36.3] [--source DIR]`` (without DIR needs Go and its proxy).
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src/strato/server/openapi/data"
REFERENCE = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."

SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    META + "Time": "time",
    META + "MicroTime": "time",
}
"""Types whose JSON form is not what their structure says."""


def main() -> None:
    """Read the source and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="v1.36.3")
    parser.add_argument("--source", type=Path, help="a checkout of kubernetes")
    arguments = parser.parse_args()
    source = arguments.source or _download(arguments.version)
    schemas = _schemas(source / "api/openapi-spec/v3")
    TARGET.mkdir(parents=True, exist_ok=True)
    _write("schemas.json.gz", {"version": arguments.version, "schemas": schemas})
    _write("shapes.json.gz", {"version": arguments.version, **_shapes(schemas)})


def _download(version: str) -> Path:
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{version}"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return Path(answer["Dir"])


def _schemas(folder: Path) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for path in sorted(folder.glob("*_openapi.json")):
        schemas.update(json.loads(path.read_text()).get("components", {}).get("schemas", {}))
    for schema in schemas.values():
        if len(schema.get("x-kubernetes-group-version-kind", ())) > 1:
            del schema["x-kubernetes-group-version-kind"]  # types of every group (DeleteOptions): each file its own
    return dict(sorted(schemas.items()))


def _shapes(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return ``types``: name to fields (name to [type, patch strategy, merge key]), and ``kinds``: g/v/K to name."""
    types: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for name, schema in schemas.items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            kinds["/".join((gvk["group"], gvk["version"], gvk["kind"]))] = name
        if "properties" in schema:
            types[name] = {field: _field(inner) for field, inner in schema["properties"].items()}
    return {"types": types, "kinds": kinds, "scalars": {n: _plain(s) for n, s in schemas.items() if n not in types}}


def _field(schema: dict[str, Any]) -> list[Any]:
    strategy, key = schema.get("x-kubernetes-patch-strategy"), schema.get("x-kubernetes-patch-merge-key")
    kind = _type(schema)
    return [kind, strategy or "", key or ""] if strategy or key else [kind]


def _type(schema: dict[str, Any]) -> Any:
    for part in schema.get("allOf", (schema,)):
        if "$ref" in part:
            name = part["$ref"].removeprefix(REFERENCE)
            return SPECIAL.get(name, "@" + name)
    return _plain(schema)


def _plain(schema: dict[str, Any]) -> Any:
    match schema.get("type"):
        case "array":
            return {"list": _type(schema["items"])}
        case "object" if "additionalProperties" in schema:
            return {"map": _type(schema["additionalProperties"])}
        case "object":
            return "object"
        case "string":
            return "bytes" if schema.get("format") == "byte" else "string"
        case "integer":
            return schema.get("format", "int64")
        case "number":
            return "number"
        case "boolean":
            return "boolean"
    return "any"


def _write(name: str, content: object) -> None:
    data = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    (TARGET / name).write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{name}: {len(data)} bytes, {(TARGET / name).stat().st_size} compressed")


if __name__ == "__main__":
    main()
