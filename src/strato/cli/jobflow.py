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
from strato.cli.inputs import read_text
from strato.cli.listing import Listing, Moment, listing_options, show_list
from strato.cli.objectnames import object_name
from strato.cli.output import NOTHING_FOUND, all_namespaces_option
from strato.cli.verbs import VerbFailed, VerbGroup
from strato.client.cluster import Cluster, Json
from strato.errors import ApiError, UsageError, one_line

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
    @listing_options
    @click.pass_context
    def list_all(ctx: click.Context, namespace: str, all_namespaces: bool, output: str, watching: bool) -> None:
        """List them."""
        scope = "" if all_namespaces else namespace
        show_list(ctx, LISTINGS[kind], output, watching=watching, namespace=scope, namespace_column=False)


def _get(kind: Kind, group: click.Group) -> None:
    @group.command()
    @object_name("-N", help="Its name.")
    @_namespace
    @listing_options
    @click.pass_context
    def get(ctx: click.Context, name: str, namespace: str, output: str, watching: bool) -> None:
        """Show one."""
        show_list(
            ctx, LISTINGS[kind], output, watching=watching, namespace=namespace, name=name, namespace_column=False
        )


def _describe(kind: Kind, group: click.Group) -> None:
    @group.command()
    @object_name("-N", help="Its name; all of the namespace without it.", required=False)
    @_namespace
    @click.option("-o", "--format", default="yaml", show_default=True, help="yaml or json.")
    @click.pass_context
    def describe(ctx: click.Context, name: str, namespace: str, format: str) -> None:
        """Print the whole object, without managed fields."""
        if format not in ("yaml", "json"):
            raise UsageError(f"--format {format!r}: is not yaml or json")

        async def work(cluster: Cluster) -> Sequence[Json]:
            return [await cluster.get(kind, name, namespace)] if name else (await cluster.list(kind, namespace)).items

        found = with_cluster(ctx, work)
        click.echo("\n\n\n".join(_text(item, format) for item in found) if found else NOTHING_FOUND)


def _delete(kind: Kind, group: click.Group) -> None:
    @group.command()
    @object_name("-N", help="Its name.", required=False)
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
            raise UsageError(f"{kind.singular} name cannot be left blank; give --name or --file")
        with_cluster(ctx, lambda cluster: cluster.delete(kind, name, namespace))
        click.echo(f"Deleted {kind.name}: {namespace}/{name}")


def _for_each_document(
    ctx: click.Context, kind: Kind, path: Path, verb: str, act: Callable[[Cluster, Json, str], Any]
) -> None:
    bodies = documents(path, kind)
    failed: list[str] = []

    async def work(cluster: Cluster) -> None:
        for body in bodies:
            metadata = body.get("metadata") or {}
            namespace = metadata.get("namespace") or "default"
            place = f"{namespace}/{metadata.get('name', '')}"
            try:
                await act(cluster, body, namespace)
            except ApiError as error:
                failed.append(f"{kind.name} {place}: {error}")
            else:
                click.echo(f"{verb.capitalize()}d {kind.name}: {place}")

    with_cluster(ctx, work)
    if failed:
        raise VerbFailed("; ".join(failed))


def documents(path: Path, kind: Kind) -> list[Json]:
    """Read a file of YAML documents; blank ones are skipped.

    Raises:
        UsageError: It cannot be read, holds nothing, or a document is of another kind.
    """
    from strato.api import yamltext

    try:
        found = [body for body in yamltext.load_all(read_text(path)) if body]
    except yamltext.InvalidYaml as error:
        raise UsageError(f"{path}: not YAML: {one_line(error)}") from error
    if not found:
        raise UsageError(f"{path}: holds no {kind.name} ({kind.api_version})")
    for number, body in enumerate(found, 1):
        if not isinstance(body, dict) or body.get("kind") != kind.name or not (body.get("metadata") or {}).get("name"):
            raise UsageError(f"{path}: document {number} is no {kind.name} ({kind.api_version}) with a name")
    return found


def _template_cells(item: Json, _: Moment) -> tuple[object, ...]:
    return item["metadata"]["name"], item["metadata"].get("namespace", "")


def _flow_cells(item: Json, moment: Moment) -> tuple[object, ...]:
    phase = ((item.get("status") or {}).get("state") or {}).get("phase", "")
    return *_template_cells(item, moment), phase, moment.age(item)


def _wide_template_cells(item: Json, moment: Moment) -> tuple[object, ...]:
    return moment.age(item), len((item.get("status") or {}).get("jobDependsOnList") or ())


def _wide_flow_cells(item: Json, _: Moment) -> tuple[object, ...]:
    status = item.get("status") or {}
    lists = ("pendingJobs", "runningJobs", "completedJobs", "failedJobs", "terminatedJobs")
    return len((item.get("spec") or {}).get("flows") or ()), *(len(status.get(name) or ()) for name in lists)


LISTINGS = {
    catalog.JOBFLOW: Listing(
        kind=catalog.JOBFLOW,
        headers=("Name", "Namespace", "Phase", "Age"),
        row=_flow_cells,
        wide_headers=("Steps", "Pending", "Running", "Completed", "Failed", "Terminated"),
        wide_row=_wide_flow_cells,
        phase="Phase",
        gap=4,
    ),
    catalog.JOBTEMPLATE: Listing(
        kind=catalog.JOBTEMPLATE,
        headers=("Name", "Namespace"),
        row=_template_cells,
        wide_headers=("Age", "Jobs"),
        wide_row=_wide_template_cells,
        gap=4,
    ),
}


def _text(item: Json, format: str) -> str:
    import yaml

    shown = {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}
    if format == "json":
        return json.dumps(shown, indent=2)
    return str(yaml.safe_dump(shown, sort_keys=False, default_flow_style=False)).rstrip()


jobflow = _group(catalog.JOBFLOW, "job flows")
jobtemplate = _group(catalog.JOBTEMPLATE, "job templates")
