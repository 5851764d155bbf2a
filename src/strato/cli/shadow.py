"""``strato shadow``: how the scheduler's shadow policy differs from the one in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from strato.cli.connect import with_cluster
from strato.cli.output import fitted_table, output_option, text_of
from strato.errors import StateError
from strato.units import human_duration

if TYPE_CHECKING:
    from strato.scheduler.shadow.findings import DatedDifference, Summary

HEADERS = ("Job", "Queue", "Change", "Pods", "Now", "Shadow", "Age", "Reason")


@click.command()
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@output_option
@click.pass_context
def shadow(ctx: click.Context, queue: str, output: str) -> None:
    """Show how the scheduler's shadow policy differs: which jobs would start, wait or be evicted, and why.

    A shadow policy is the configuration that `strato up --shadow FILE` or `strato run scheduler --shadow FILE` names.
    It decides on the same view as the policy in force; nothing of it is applied.
    """
    from strato.clock import SystemClock
    from strato.scheduler.shadow.publishing import published

    summaries = with_cluster(ctx, published)
    if not summaries:
        raise StateError("no scheduler of this cluster has a shadow policy; start one with --shadow FILE")
    if output != "table":
        import msgspec

        click.echo(text_of({"schedulers": msgspec.to_builtins(summaries)}, output))
        return
    now = SystemClock().now()
    lines = [line(summary, now) for summary in summaries]
    rows = [row(found, now) for summary in summaries for found in summary.differences if queue in ("", found.queue)]
    more = sum(summary.more for summary in summaries)
    click.echo("\n".join([*lines, *([fitted_table(HEADERS, rows)] if rows else ["no differences"])]))
    if more:
        click.echo(f"and {more} more, which are counted in the metrics strato_shadow_*")


def line(summary: Summary, now: float) -> str:
    """Return the line about one scheduler."""
    parts: Sequence[str] = (
        f"{summary.scheduler}: shadow policy {summary.policy}",
        f"decided {human_duration(now - summary.at)} ago" if summary.at else "has not decided yet",
        f"{summary.compared} cycles compared, {summary.skipped} skipped, {summary.failed} failed",
        f"places {summary.binds} pods where {summary.first_binds} were placed",
        f"CPU {100 * summary.cpu_ratio:.1f} %",
    )
    return ", ".join(parts) + (f"\n  problem: {summary.problem}" if summary.problem else "")


def row(found: DatedDifference, now: float) -> tuple[object, ...]:
    """Return the row of one difference."""
    pods = found.pods or "-"
    return (
        found.job,
        found.queue,
        found.change,
        pods,
        found.now,
        found.shadow,
        human_duration(now - found.at),
        found.reason,
    )
