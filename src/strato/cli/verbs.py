"""Groups of verbs over one kind (``strato job …``) and how they word failures."""

from __future__ import annotations

from typing import Any

import click

from strato.errors import ApiError, StratoError


class VerbFailed(StratoError):
    """A verb failed; worded as Volcano's users know it (spec volcano-cli A1): ``Failed to run job: …``."""


class VerbGroup(click.Group):
    """A group like ``job``: failures name the verb and the group."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except (ApiError, VerbFailed) as error:
            verb = ctx.invoked_subcommand or ""
            raise FailureLine(f"Failed to {verb} {ctx.info_name}: {error}") from error


class FailureLine(click.ClickException):
    """One finished line on standard error, exit status 1."""

    def show(self, file: Any = None) -> None:
        """Print the line as it is."""
        click.echo(self.message, err=True)
