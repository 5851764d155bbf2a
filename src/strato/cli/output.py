"""How commands print: fixed-width tables as in the specification, JSON and YAML, ages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from strato.api.kinds import Kind
from strato.cli.goflags import switch
from strato.client.cluster import Json
from strato.errors import harmless

F = TypeVar("F", bound=Callable[..., Any])

NOTHING_FOUND = "No resources found"

output_option = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True, help="Format."
)


def all_namespaces_option(text: str) -> Callable[[F], F]:
    """Return the switch that goes beyond one namespace."""
    return switch("-A", "--all-namespaces", help=text)


def print_objects(kind: Kind, items: Sequence[Json], output: str, *, single: bool = False) -> None:
    """Print objects as JSON, YAML or names; several as a ``List``, each with the kind that lists leave out."""
    if output == "name":
        for item in items:
            click.echo(f"{kind.singular}{'.' if kind.group else ''}{kind.group}/{item['metadata']['name']}")
        return
    whole = [{"apiVersion": kind.api_version, "kind": kind.name, **item} for item in items]
    click.echo(text_of(whole[0] if single else {"apiVersion": "v1", "kind": "List", "items": whole}, output))


def text_of(body: Mapping[str, Any], output: str) -> str:
    """Return plain data as ``json`` or ``yaml``."""
    if output == "json":
        return json.dumps(body, indent=2)
    import yaml

    return yaml.safe_dump(body, sort_keys=False, default_flow_style=False).rstrip("\n")


def _cell(value: object) -> str:
    return harmless(str(value).replace("\n", " "))


def fixed_table(headers: Sequence[str], widths: Sequence[int], rows: Sequence[Sequence[object]]) -> str:
    """Lay out left-justified columns of fixed widths (spec volcano-cli A2.2)."""
    return "\n".join(fixed_line(row, widths) for row in [headers, *rows])


def fixed_line(row: Sequence[object], widths: Sequence[int]) -> str:
    """Lay out one row of columns of fixed widths."""
    return "".join(_cell(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def fitted_table(headers: Sequence[str], rows: Sequence[Sequence[object]], gap: int = 3) -> str:
    """Lay out left-justified columns as wide as their longest cell plus a gap."""
    return fixed_table(headers, fitted_widths([headers, *rows], gap), rows)


def fitted_widths(rows: Sequence[Sequence[object]], gap: int) -> list[int]:
    """Return the width of each column: its longest cell and a gap."""
    return [max(len(_cell(cell)) for cell in column) + gap for column in zip(*rows, strict=True)]
