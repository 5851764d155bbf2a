"""``strato jobflow`` and ``strato jobtemplate``: create, list, get, describe and delete (spec volcano-cli A5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from strato.api import catalog
from strato.api.kinds import Kind
from strato.cli.connect import with_cluster
from strato.cli.inputs import NAME, read_text
from strato.cli.output import NOTHING_FOUND, all_namespaces_option, fitted_table, output_option, print_objects
from strato.cli.verbs import VerbFailed, VerbGroup
from strato.client.cluster import Cluster, Json
from strato.clock import SystemClock, parse_time
from strato.errors import ApiError, one_line
from strato.units import human_duration

_namespace = click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")


def _group(kind: Kind, title: str) -> click.Group:
    """Build the verbs over one kind."""

    @click.group(name=kind.singular, cls=VerbGroup, help=f"Create, list, get, describe and delete {title}.")
    def group() -> None:
        pass

    verbs: tuple[Callable[[Kind, click.Group], None], ...] = (_create, _list, _get, _describe, _delete)
    for add in verbs:
        add(kind, group)
    return group


def _create(kind: Kind, group: click.Group) -> None:
    @group.command()
    @click.option("-f", "--file", "path", required=True, type=click.Path(path_type=Path), help="YAML documents.")
    @click.pass_context
    def create(ctx: click.Context, path: Path) -> None:
        """Create every document of a file; one that fails does not stop the others."""
        _for_each_document(ctx, kind, path, "create", lambda cluster, body, ns: cluster.create(kind, body, ns))


def _list(kind: Kind, group: click.Group) -> None:
    @group.command(name="list")
    @_namespace
    @all_namespaces_option("Of every namespace.")
    @output_option
    @click.pass_context
    def list_all(ctx: click.Context, namespace: str, all_namespaces: bool, output: str) -> None:
        """List them."""
        page = with_cluster(ctx, lambda cluster: cluster.list(kind, "" if all_namespaces else namespace))
        if output != "table":
            print_objects(kind, page.items, output)
        else:
            click.echo(_table(kind, page.items) if page.items else NOTHING_FOUND)


def _get(kind: Kind, group: click.Group) -> None:
    @group.command()
    @click.option("-N", "--name", required=True, type=NAME, help="Its name.")
    @_namespace
    @output_option
    @click.pass_context
    def get(ctx: click.Context, name: str, namespace: str, output: str) -> None:
        """Show one."""
        found = with_cluster(ctx, lambda cluster: cluster.get(kind, name, namespace))
        if output != "table":
            print_objects(kind, [found], output, single=True)
        else:
            click.echo(_table(kind, [found]))


def _describe(kind: Kind, group: click.Group) -> None:
    @group.command()
    @click.option("-N", "--name", default="", help="Its name; all of the namespace without it.")
    @_namespace
    @click.option("-o", "--format", default="yaml", show_default=True, help="yaml or json.")
    @click.pass_context
    def describe(ctx: click.Context, name: str, namespace: str, format: str) -> None:
        """Print the whole object, without managed fields."""
        if format not in ("yaml", "json"):
            click.echo(f"Unsupported format: {format}")
            return

        async def work(cluster: Cluster) -> Sequence[Json]:
            return [await cluster.get(kind, name, namespace)] if name else (await cluster.list(kind, namespace)).items

        found = with_cluster(ctx, work)
        click.echo("\n\n\n".join(_text(item, format) for item in found) if found else NOTHING_FOUND)


def _delete(kind: Kind, group: click.Group) -> None:
    @group.command()
    @click.option("-N", "--name", default="", help="Its name.")
    @_namespace
    @click.option("-f", "--file", "path", default=None, type=click.Path(path_type=Path), help="YAML documents.")
    @click.pass_context
    def delete(ctx: click.Context, name: str, namespace: str, path: Path | None) -> None:
        """Delete one by name, or every document of a file."""
        if path is not None:
            _for_each_document(
                ctx, kind, path, "delete", lambda cluster, body, ns: cluster.delete(kind, body["metadata"]["name"], ns)
            )
            return
        if not name:
            raise VerbFailed(f"{kind.singular} name cannot be left blank; give --name or --file")
        with_cluster(ctx, lambda cluster: cluster.delete(kind, name, namespace))
        click.echo(f"Deleted {kind.name}: {namespace}/{name}")


def _for_each_document(
    ctx: click.Context, kind: Kind, path: Path, verb: str, act: Callable[[Cluster, Json, str], Any]
) -> None:
    bodies = documents(path, kind)

    async def work(cluster: Cluster) -> None:
        for body in bodies:
            metadata = body.get("metadata") or {}
            namespace = metadata.get("namespace") or "default"
            place = f"{namespace}/{metadata.get('name', '')}"
            try:
                await act(cluster, body, namespace)
            except ApiError as error:
                click.echo(f"Failed to {verb} {kind.name} {place}: {error}")
            else:
                click.echo(f"{verb.capitalize()}d {kind.name}: {place}")

    with_cluster(ctx, work)


def documents(path: Path, kind: Kind) -> list[Json]:
    """Read a file of YAML documents; blank ones are skipped.

    Raises:
        VerbFailed: It cannot be read, holds nothing, or a document is of another kind.
    """
    from strato.api import yamltext

    try:
        found = [body for body in yamltext.load_all(read_text(path)) if body]
    except yamltext.InvalidYaml as error:
        raise VerbFailed(f"{path}: not YAML: {one_line(error)}") from error
    if not found:
        raise VerbFailed(f"{path}: holds no {kind.name} ({kind.api_version})")
    for number, body in enumerate(found, 1):
        if not isinstance(body, dict) or body.get("kind") != kind.name or not (body.get("metadata") or {}).get("name"):
            raise VerbFailed(f"{path}: document {number} is no {kind.name} ({kind.api_version}) with a name")
    return found


def _table(kind: Kind, items: Sequence[Json]) -> str:
    metas = [item["metadata"] for item in items]
    if kind is catalog.JOBTEMPLATE:
        return fitted_table(("Name", "Namespace"), [(m["name"], m.get("namespace", "")) for m in metas], 4)
    now = SystemClock().now()
    rows = [
        (
            item["metadata"]["name"],
            item["metadata"].get("namespace", ""),
            ((item.get("status") or {}).get("state") or {}).get("phase", ""),
            human_duration(now - parse_time(item["metadata"]["creationTimestamp"])),
        )
        for item in items
    ]
    return fitted_table(("Name", "Namespace", "Phase", "Age"), rows, 4)


def _text(item: Json, format: str) -> str:
    import yaml

    shown = {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}
    if format == "json":
        return json.dumps(shown, indent=2)
    return str(yaml.safe_dump(shown, sort_keys=False, default_flow_style=False)).rstrip()


jobflow = _group(catalog.JOBFLOW, "job flows")
jobtemplate = _group(catalog.JOBTEMPLATE, "job templates")
