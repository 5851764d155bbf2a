"""Print lists of objects, the same for every command: ``-o table|wide|json|yaml|name``, once or with ``-w``.

With ``-w`` the list is printed, then a line for each object that has changed; a change of `Age` or `Duration` alone
does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from strato.api.kinds import Kind
from strato.cli.connect import with_cluster
from strato.cli.output import NOTHING_FOUND, fitted_widths, fixed_line, print_objects
from strato.cli.watching import Objects, Source, key_of, watch
from strato.client.cluster import Cluster, Json
from strato.clock import SystemClock, parse_time
from strato.units import human_duration

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

OUTPUTS = ("table", "wide", "json", "yaml", "name")
_DELETED = "Deleted"


class Ticking(str):
    """A cell that changes with time, such as an age; it does not make a row count as changed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """The time, and the summary of other objects, from which rows are made."""

    now: float
    summary: Any = None
    """The result of `Listing.summarize` for the other objects."""

    def age(self, item: Json) -> Ticking:
        """Return how long ago an object was created."""
        return Ticking(human_duration(self.now - parse_time(item["metadata"]["creationTimestamp"])))


Row = Callable[[Json, Moment], Sequence[object]]
Summarize = Callable[[Cluster, str, Sequence[Json], Sequence[Json]], Awaitable[Any]]
"""(cluster, namespace, the objects to make rows of, the other objects) → data that rows show beside their object's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """How objects of a kind are listed."""

    kind: Kind
    headers: Sequence[str]
    row: Row
    """Returns a cell per header; the first one is the object's name."""
    wide_headers: Sequence[str] = ()
    wide_row: Row = lambda _, __: ()
    """Returns the further cells of ``-o wide``."""
    phase: str = ""
    """The header of the column that shows ``Deleted`` for a deleted object."""
    also: Kind | None = None
    """Kind of further objects that rows depend on: when one changes, all rows are made again."""
    summarize: Summarize | None = None
    """Returns `Moment.summary`."""
    widths: Sequence[int] = field(default=())
    """Widths of the columns; if empty, each is as wide as its longest cell."""
    gap: int = 3


def listing_options(command: F) -> F:
    """Add ``-o`` and ``-w``, which the command gets as ``output`` and ``watch``."""
    output = click.option(
        "-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="Format."
    )
    return output(watch_option(command))


watch_option = click.option(
    "-w", "--watch", "watching", is_flag=True, help="Go on with what changes, until interrupted (Ctrl-C)."
)


def show_list(
    ctx: click.Context,
    listing: Listing,
    output: str,
    *,
    watching: bool,
    namespace: str = "",
    name: str = "",
    labels: str = "",
    keep: Callable[[Json], bool] = lambda _: True,
    namespace_column: bool = True,
) -> None:
    """Print objects of a kind.

    Args:
        ctx: Names the cluster.
        listing: The kind and its columns.
        output: One of `OUTPUTS`.
        watching: Go on until interrupted.
        namespace: Empty lists all namespaces, with a column for the namespace.
        name: Only this one, which must exist.
        labels: Only objects with these labels.
        keep: Only objects for which this returns true.
        namespace_column: Whether a list of all namespaces has that column.

    Raises:
        ApiError: The server answered with an error.
    """
    kind = listing.kind
    many = kind.namespaced and not namespace and namespace_column
    field_selector = f"metadata.name={name}" if name else ""
    sources = [Source(kind, namespace, labels, field_selector)]
    if listing.also is not None and output in ("table", "wide"):
        sources.append(Source(listing.also))

    feed = _Feed(listing, output, namespace, with_namespace=many)

    async def once(cluster: Cluster) -> None:
        if name:
            items = [await cluster.get(kind, name, namespace)]
        else:
            items = list((await cluster.list(kind, namespace, label_selector=labels)).items)
        items = [item for item in items if keep(item)]
        if output not in ("table", "wide"):
            print_objects(kind, items, output, single=bool(name))
        elif not items:
            click.echo(NOTHING_FOUND)
        else:
            others = (await cluster.list(listing.also)).items if listing.also is not None else ()
            await feed.show(cluster, {key_of(item): item for item in items}, others)

    async def go_on(cluster: Cluster) -> None:
        if name:
            await cluster.get(kind, name, namespace)  # raises NotFound, where the list would be empty

        async def show(objects: Sequence[Objects]) -> bool:
            kept = {key: item for key, item in objects[0].items() if keep(item)}
            await feed.show(cluster, kept, list(objects[1].values()) if len(objects) > 1 else ())
            return False

        await watch(cluster, sources, show)

    with_cluster(ctx, go_on if watching else once)


class Rows:
    """Prints rows of a table; columns keep the widths of the first call.

    Args:
        headers: Headers of the columns.
        phase: The header of the column that shows ``Deleted`` for a row that is gone.
        widths: Widths of the columns; if empty, each is as wide as its longest cell.
        gap: Spaces behind the longest cell.
    """

    def __init__(self, headers: Sequence[str], *, phase: str, widths: Sequence[int] = (), gap: int = 3) -> None:
        self._headers, self._phase, self._widths, self._gap = headers, phase, widths, gap
        self._shown: dict[tuple[str, str], Sequence[object]] = {}
        self._begun = False

    def show(self, rows: Mapping[tuple[str, str], Sequence[object]]) -> None:
        """Print the headers once, then the rows that are new, changed or gone since the last call."""
        news = [row for key, row in rows.items() if _steady(self._shown.get(key, ())) != _steady(row)]
        gone = [self._without(row) for key, row in self._shown.items() if key not in rows]
        head = [] if self._begun else [self._headers]
        self._shown, self._begun = dict(rows), True
        lines = [*head, *news, *gone]
        if not self._widths:
            self._widths = fitted_widths(lines, self._gap)
        for row in lines:
            click.echo(fixed_line(row, self._widths))

    def _without(self, row: Sequence[object]) -> list[object]:
        place = self._headers.index(self._phase) if self._phase else len(row) - 1
        return [*row[:place], _DELETED, *row[place + 1 :]]


def _steady(row: Sequence[object]) -> list[object]:
    return [cell for cell in row if not isinstance(cell, Ticking)]


class _Feed:
    """Prints the objects that have changed since the last call."""

    def __init__(self, listing: Listing, output: str, namespace: str, *, with_namespace: bool) -> None:
        self._listing, self._output, self._namespace = listing, output, namespace
        self._with_namespace = with_namespace
        self._wide = output == "wide"
        headers = [
            *(("Namespace",) if with_namespace else ()),
            *listing.headers,
            *(listing.wide_headers if self._wide else ()),
        ]
        widths = () if with_namespace or self._wide else listing.widths
        self._rows = Rows(headers, phase=listing.phase, widths=widths, gap=listing.gap)
        self._cached: dict[tuple[str, str], Sequence[object]] = {}
        self._shown: dict[tuple[str, str], object] = {}
        self._begun = False

    async def show(self, cluster: Cluster, objects: Objects, others: Sequence[Json]) -> None:
        """Print the objects that are new, changed or gone."""
        seen = {key: item["metadata"].get("resourceVersion") for key, item in objects.items()}
        if self._output == "name":
            seen = dict.fromkeys(objects, True)
        changed = [key for key in objects if self._listing.also is not None or self._shown.get(key) != seen[key]]
        self._shown = seen
        if self._output in ("table", "wide"):
            listing, items = self._listing, [objects[key] for key in changed]
            summary = None
            if listing.summarize is not None:
                summary = await listing.summarize(cluster, self._namespace, items, others)
            moment = Moment(SystemClock().now(), summary)
            self._cached |= {key: self._cells(objects[key], moment) for key in changed}
            self._cached = {key: self._cached[key] for key in objects}
            self._rows.show(self._cached)
            return
        for key in changed:
            self._print(objects[key])

    def _cells(self, item: Json, moment: Moment) -> list[object]:
        place = [item["metadata"].get("namespace", "")] if self._with_namespace else []
        wide = self._listing.wide_row(item, moment) if self._wide else ()
        return [*place, *self._listing.row(item, moment), *wide]

    def _print(self, item: Json) -> None:
        if self._output == "yaml" and self._begun:
            click.echo("---")
        self._begun = True
        print_objects(self._listing.kind, [item], self._output, single=True)


def show_page(
    ctx: click.Context,
    sources: Sequence[Source],
    read: Callable[[Cluster], Awaitable[T]],
    render: Callable[[T], str],
    *,
    watching: bool,
) -> None:
    """Print a page, and with ``watching`` print it again whenever it has changed.

    Args:
        ctx: Names the cluster.
        sources: Objects that the page depends on: it is read again when one changes.
        read: Reads the page's data.
        render: Returns the page's text.
        watching: Go on until interrupted.
    """
    if not watching:
        click.echo(render(with_cluster(ctx, read)))
        return
    last = ""
    terminal = sys.stdout.isatty()

    async def go_on(cluster: Cluster) -> None:
        async def show(_: Sequence[Objects]) -> bool:
            nonlocal last
            page = render(await read(cluster))
            if page != last:
                begin = "\033[H\033[2J" if terminal else "\n" if last else ""
                click.echo(begin + page)
                last = page
            return False

        await watch(cluster, sources, show)

    with_cluster(ctx, go_on)
