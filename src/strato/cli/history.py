"""The file in which runs of jobs are recorded: its writer, and options of commands that read it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from strato.cli.connect import home_of
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.client.cluster import Cluster
    from strato.client.informer import Informers
    from strato.clock import Clock
    from strato.history.store import HistoryStore
    from strato.metrics import Registry

_log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])

store_option = click.option(
    "--store",
    "path",
    metavar="FILE",
    envvar="STRATO_HISTORY",
    help="File that runs are recorded in; without it that of `strato up`.",
)


def history_member(
    path: Path, cluster: Cluster, informers: Informers, clock: Clock, metrics: Registry
) -> Callable[[], Awaitable[None]]:
    """Return a coroutine function that records runs of jobs until cancelled; an unusable file is only logged."""
    from strato.history import HistoryRecorder, HistoryStore
    from strato.history.store import HistoryError

    async def record(recorder: HistoryRecorder, store: HistoryStore) -> None:
        try:
            with closing(store):
                await recorder.run()
        except HistoryError as error:
            await wait(error)

    async def wait(error: HistoryError) -> None:
        _log.warning("runs of jobs are not recorded: error=%s", error)
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            await asyncio.Event().wait()

    try:
        store = HistoryStore(path)
    except HistoryError as error:
        return partial(wait, error)
    return partial(record, HistoryRecorder(cluster, informers, clock, store, metrics=metrics), store)


@contextmanager
def opened(ctx: click.Context, path: str | None) -> Iterator[HistoryStore]:
    """Open the file for reading.

    Raises:
        HistoryError: There is no file, or it cannot be read.
        UsageError: The same, for a file that the user named.
    """
    from strato.history.store import HistoryError, HistoryStore

    chosen = Path(path).expanduser() if path else home_of(ctx).history
    try:
        found = HistoryStore(chosen, read_only=True)
    except HistoryError as error:
        if path:
            raise UsageError(str(error)) from error
        raise
    with closing(found) as store:
        yield store


def zone_named(name: str) -> tzinfo:
    """Return a time zone; empty is that of this machine.

    Raises:
        UsageError: No time zone has that name.
    """
    if not name:
        return datetime.now(UTC).astimezone().tzinfo or UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"--tz {name!r}: no such time zone; write for example Asia/Shanghai or UTC") from error
